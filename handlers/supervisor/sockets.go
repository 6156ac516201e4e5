package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hangar/domain"
	"hangar/domain/turn"
)

// control is the file in a turn's folder by which a server finds the supervisor.
type control struct {
	Socket string `json:"socket"`
	Token  string `json:"token"`
	BootID string `json:"boot_id"`
}

func readControl(folder string) (control, error) {
	var c control
	b, err := os.ReadFile(filepath.Join(folder, controlFile))
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	return c, err
}

// write puts the file in its place at once, so that no reader sees half of it.
func (c control) write(folder string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	name := filepath.Join(folder, controlFile)
	if err := os.WriteFile(name+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// socketFolders are the folders that may hold a socket, the best first. Paths of
// sockets are short, so the data folder cannot hold them.
func socketFolders() []string {
	var list []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		list = append(list, dir)
	}
	own := fmt.Sprintf("hangar-%d", os.Getuid())
	list = append(list, filepath.Join(os.TempDir(), own))
	if fallback := filepath.Join("/tmp", own); fallback != list[len(list)-1] {
		list = append(list, fallback)
	}
	return list
}

// mark names a turn of a data folder among all of the machine.
func mark(data string, id domain.TurnID) string {
	sum := sha256.Sum256([]byte(resolve(data) + "\x00" + string(id)))
	return hex.EncodeToString(sum[:8])
}

// socketPath gives the path of a turn's socket in the first folder that is fit for it.
func socketPath(folders []string, data string, id domain.TurnID) (string, error) {
	name := "agent-" + mark(data, id) + ".sock"
	var all error
	for _, dir := range folders {
		path := filepath.Join(dir, name)
		err := secureFolder(dir)
		if err == nil && len(path) > maxSocketPath {
			err = fmt.Errorf("%s: longer than %d bytes", path, maxSocketPath)
		}
		if err == nil {
			return path, nil
		}
		all = errors.Join(all, err)
	}
	return "", fmt.Errorf("no folder is fit for a socket: %w", all)
}

// secureFolder makes a folder that only this user can reach, or checks that it is
// one.
func secureFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	fi, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%s: not a folder", dir)
	case !ownedByUs(fi):
		return fmt.Errorf("%s: belongs to another user", dir)
	case fi.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s: others can reach it (mode %04o, wanted 0700)", dir, fi.Mode().Perm())
	}
	return nil
}

// turnFolder gives the folder of a turn, having checked that the id is one.
func turnFolder(data string, id domain.TurnID) (string, error) {
	if _, n := id.Split(); n == 0 || !filepath.IsLocal(string(id)) || filepath.Base(string(id)) != string(id) {
		return "", domain.InvalidField("turn", "%q is not the id of a turn", id)
	}
	return filepath.Join(data, "run", string(id)), nil
}

// promptName is the prompt's file within the workspace.
func promptName(id domain.TurnID) string {
	_, n := id.Split()
	return fmt.Sprintf("prompt-%d", n)
}

// checkProcess says what is wrong with a process before anything is started.
func checkProcess(p turn.Process) error {
	switch {
	case len(p.Argv) == 0 || p.Argv[0] == "":
		return domain.InvalidField("argv", "is empty: there is no agent to run")
	case p.Workspace.Root == "":
		return domain.InvalidField("workspace", "is empty")
	}
	for _, dir := range []string{p.Workspace.Root, p.Workspace.Repo, p.Workspace.Home, p.Workspace.Tmp, p.Workspace.Bin} {
		if !filepath.IsAbs(dir) || !within(filepath.Clean(dir), filepath.Clean(p.Workspace.Root)) {
			return domain.InvalidField("workspace", "%q is not an absolute path in the workspace", dir)
		}
	}
	return checkEnv(p.Env)
}
