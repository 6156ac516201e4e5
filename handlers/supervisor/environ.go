package supervisor

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hangar/domain"
	"hangar/domain/turn"
)

// The helper's part of an agent's environment.
const (
	EnvSocket = "HANGAR_SOCKET" // where the turn's supervisor listens
	EnvToken  = "HANGAR_TOKEN"  // reaches the helper's verbs
	EnvTurn   = "HANGAR_TURN"   // the turn's id
	EnvMark   = "HANGAR_MARK"   // of this turn in this data folder: by it a turn's processes are known

	envPrefix = "HANGAR_" // no job may set these itself
)

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	defaultLang = "C.UTF-8"
	defaultTerm = "dumb"
)

// checkEnv says what is wrong with a job's environment.
func checkEnv(env map[string]string) error {
	for name, value := range env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return domain.InvalidField("env", "%q cannot name a variable", name)
		case strings.HasPrefix(name, envPrefix):
			return domain.InvalidField("env", "%s: names that begin with %s are Hangar's own", name, envPrefix)
		case strings.ContainsRune(value, 0):
			return domain.InvalidField("env", "%s: the value holds a NUL", name)
		}
	}
	return nil
}

// environ builds an agent's environment from a fixed list, the job's own, and
// Hangar's. Nothing of this process's environment is in it.
func environ(ws turn.Folders, job, own map[string]string) []string {
	env := map[string]string{
		"PATH":   defaultPath,
		"HOME":   ws.Home,
		"LANG":   defaultLang,
		"TERM":   defaultTerm,
		"TMPDIR": ws.Tmp,
	}
	maps.Copy(env, job)
	env["PATH"] = ws.Bin + string(filepath.ListSeparator) + env["PATH"]
	maps.Copy(env, own)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
