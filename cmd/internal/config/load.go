package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hangar/domain"
)

// Flags are what the command line names; "" is not given.
type Flags struct {
	Config string // --config
	Data   string // --data
	Listen string // --listen
	Store  string // --store
}

// FileName is the file that is read from the data folder, if it is there.
const FileName = "hangar.yaml"

// Error is everything that is wrong with a configuration, one problem a line.
type Error struct{ Problems []string }

// Error lists the problems.
func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

// Load gives the configuration: of flags, else of the environment, else of the
// file, else the default. What is wrong comes back as an *Error, all of it at
// once. Secrets of the environment are in no error.
func Load(f Flags, getenv func(string) string) (Config, error) {
	l := &loader{cfg: Default(), getenv: getenv}
	l.data(f)
	l.file(f)
	l.environment()
	l.flag("--listen", f.Listen, listenAddress(&l.cfg.Listen))
	l.flag("--store", f.Store, storeURL(&l.cfg.Store))
	l.finish()
	if len(l.problems) > 0 {
		return Config{}, &Error{l.problems}
	}
	return l.cfg, nil
}

// DataFolder gives the data folder alone, for who has nothing to do with the rest.
func DataFolder(f Flags, getenv func(string) string) (string, error) {
	l := &loader{getenv: getenv}
	l.data(f)
	if len(l.problems) > 0 {
		return "", &Error{l.problems}
	}
	return l.cfg.Data, nil
}

// loader is one Load.
type loader struct {
	cfg      Config
	getenv   func(string) string
	problems []string
	defaultA string // where in the file default_agent stands
}

func (l *loader) problem(place, format string, args ...any) {
	l.problems = append(l.problems, place+": "+fmt.Sprintf(format, args...))
}

// flag takes a value that a flag or a variable gives.
func (l *loader) flag(place, text string, set value) {
	if text == "" {
		return
	}
	if err := set(text); err != nil {
		l.problem(place, "%v", err)
	}
}

// data finds the data folder.
func (l *loader) data(f Flags) {
	place, dir := "--data", f.Data
	if dir == "" {
		place, dir = "HANGAR_DATA", l.getenv("HANGAR_DATA")
	}
	if dir == "" {
		place, dir = "the data folder", l.defaultData()
	}
	if dir == "" {
		l.problem(place, "there is no home folder to put it in; name one by --data or HANGAR_DATA")
		return
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		l.problem(place, "%v", err)
		return
	}
	l.cfg.Data = abs
}

// defaultData follows the XDG base directory specification, which says to pass
// over a path that is not absolute.
func (l *loader) defaultData() string {
	if xdg := l.getenv("XDG_DATA_HOME"); filepath.IsAbs(xdg) {
		return filepath.Join(xdg, "hangar")
	}
	if home := l.home(); home != "" {
		return filepath.Join(home, ".local", "share", "hangar")
	}
	return ""
}

func (l *loader) home() string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if home := l.getenv(name); filepath.IsAbs(home) {
			return home
		}
	}
	return ""
}

// file reads the file: the one that is named, or the data folder's if it is there.
func (l *loader) file(f Flags) {
	path := f.Config
	if path == "" {
		path = l.getenv("HANGAR_CONFIG")
	}
	named := path != ""
	if !named {
		if l.cfg.Data == "" {
			return
		}
		path = filepath.Join(l.cfg.Data, FileName)
	}
	text, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return
	case errors.Is(err, fs.ErrNotExist):
		l.problem(path, "there is no such file")
		return
	case err != nil:
		l.problem(path, "it cannot be read: %v", errors.Unwrap(err))
		return
	}
	l.cfg.File = path
	l.parse(path, text)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("read: %w", fmt.Errorf("it has more than %d bytes", maxFileBytes))
	}
	return text, nil
}

// environment takes what the variables set.
func (l *loader) environment() {
	for _, v := range []struct {
		name string
		set  value
	}{
		{"HANGAR_LISTEN", listenAddress(&l.cfg.Listen)},
		{"HANGAR_STORE", storeURL(&l.cfg.Store)},
		{"HANGAR_MCP_TOOL_WAIT_SECONDS", seconds(&l.cfg.MCP.ToolWait, 1, maxToolWait)},
		{"HANGAR_MCP_STATELESS_HTTP", boolean(&l.cfg.MCP.StatelessHTTP)},
		{"HANGAR_SECRET", l.secrets},
	} {
		l.flag(v.name, l.getenv(v.name), v.set)
	}
}

// secrets reads the server's secrets, newest first. No part of them is told.
func (l *loader) secrets(text string) error {
	for i, part := range strings.Split(text, ",") {
		s, err := domain.ParseSecret(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("number %d is not 64 hex digits; several are separated by commas, the newest first", i+1)
		}
		l.cfg.Secrets = append(l.cfg.Secrets, s)
	}
	return nil
}

// finish checks what several values say together.
func (l *loader) finish() {
	c := &l.cfg
	if c.Repos == nil {
		for _, dir := range defaultRepos {
			if abs, err := l.absolute(dir); err == nil {
				c.Repos = append(c.Repos, abs)
			}
		}
	}
	if _, ok := c.Agents[c.DefaultAgent]; !ok {
		place := l.defaultA
		if place == "" {
			place = "default_agent"
		}
		l.problem(place, "there is no agent %q; the agents are %s", c.DefaultAgent, list(sortedKeys(c.Agents)))
	}
	if c.Tasks.PollInterval > c.Tasks.TTL {
		l.problem("tasks.poll_interval", "%s is longer than tasks.ttl, which is %s", c.Tasks.PollInterval, c.Tasks.TTL)
	}
}
