package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// rules say what a staged program may reach.
type rules struct {
	Data  string   `json:"data"` // hidden, but for Write
	Read  []string `json:"read,omitempty"`
	Exec  string   `json:"exec,omitempty"` // the hangar binary, wherever it is
	Write string   `json:"write"`          // the workspace
}

// systemRead are the parts of the system that programs are made of.
var systemRead = []string{"/usr", "/bin", "/sbin", "/lib*", "/etc", "/opt", "/proc", "/sys"}

// systemFiles are single files elsewhere that the system keeps under another
// name: where /etc/resolv.conf is a link, it leads to one in /run.
var systemFiles = []string{"/etc/resolv.conf", "/etc/localtime", "/etc/hosts"}

// devices may be read and written.
var devices = []string{"/dev/null", "/dev/zero", "/dev/tty", "/dev/random", "/dev/urandom"}

// Rights, by what they are for.
const (
	readRights = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
	// writeRights leave out MakeChar and MakeBlock: a device node in the workspace
	// would be a way out of it.
	writeRights = readRights | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo |
		ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSTruncate
	deviceRights = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
	fileRights   = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev

	firstRights = 1<<13 - 1 // all that the first ABI knows
)

// handled gives what a kernel of that ABI can be told to refuse.
func handled(abi int) (access, scoped uint64) {
	access = firstRights
	if abi >= 2 {
		access |= ll.AccessFSRefer
	}
	if abi >= abiTruncate {
		access |= ll.AccessFSTruncate
	}
	if abi >= abiDevices {
		access |= ll.AccessFSIoctlDev
	}
	if abi >= abiScopes {
		scoped = ll.ScopeSignal | ll.ScopeAbstractUnixSocket
	}
	return access, scoped
}

// apply takes from this thread, for good, what the rules do not allow. Where the
// kernel has no Landlock it takes new privileges and dangerous capabilities only.
func (r rules) apply() error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(memoryScore), 0) // a kindness to the rest of the machine
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	abi := landlockABI()
	if abi == 0 {
		return nil
	}
	access, scoped := handled(abi)
	set, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: access, Scoped: scoped}, 0)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	defer unix.Close(set)
	for path, rights := range r.paths() {
		if err := allow(set, path, rights&access); err != nil {
			return fmt.Errorf("landlock: %s: %w", path, err)
		}
	}
	if err := ll.LandlockRestrictSelf(set, 0); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// paths gives each path that may be reached, with its rights.
func (r rules) paths() map[string]uint64 {
	data := resolve(r.Data)
	list := map[string]uint64{}
	read := append([]string{}, r.Read...)
	for _, pattern := range append(systemRead, systemFiles...) {
		found, _ := filepath.Glob(pattern) // the patterns are ours
		read = append(read, found...)
	}
	for _, path := range read {
		for _, p := range carve(resolve(path), data) {
			list[p] |= readRights
		}
	}
	for _, path := range devices {
		list[path] |= deviceRights
	}
	if r.Exec != "" {
		list[resolve(r.Exec)] |= ll.AccessFSExecute | ll.AccessFSReadFile
	}
	list[resolve(r.Write)] |= writeRights
	return list
}

// carve gives what of a path may be read with the data folder left out: the path
// itself, or its entries where the data folder is below it. Links among them are
// left out too, for they lead anywhere.
func carve(path, data string) []string {
	if within(path, data) {
		return nil
	}
	if !within(data, path) {
		return []string{path}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			list = append(list, carve(filepath.Join(path, e.Name()), data)...)
		}
	}
	return list
}

// allow adds a rule; a path that is not there needs none.
func allow(set int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR) {
		return nil // what we cannot reach the agent cannot either
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	if rights == 0 {
		return nil
	}
	return ll.LandlockAddPathBeneathRule(set, &ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0)
}

// landlockABI gives the version of the kernel's Landlock, 0 for none.
func landlockABI() int {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil || abi < 0 {
		return 0
	}
	return abi
}

// dangerous are the capabilities with which root could leave the sandbox, or
// bring down the machine that it is on.
var dangerous = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_PTRACE, unix.CAP_SYS_BOOT,
	unix.CAP_SYS_TIME, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PACCT, unix.CAP_SYS_TTY_CONFIG, unix.CAP_SYSLOG,
	unix.CAP_MKNOD, unix.CAP_DAC_READ_SEARCH, unix.CAP_LINUX_IMMUTABLE, unix.CAP_NET_ADMIN, unix.CAP_MAC_ADMIN,
	unix.CAP_MAC_OVERRIDE, unix.CAP_AUDIT_CONTROL, unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE,
}

// dropCapabilities takes the dangerous ones from this thread and from all it
// executes. One who has none, as an ordinary user, loses none.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := capget(&header, &sets); err != nil {
		return err
	}
	if sets[0].Permitted == 0 && sets[1].Permitted == 0 {
		return nil
	}
	for _, c := range dangerous {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return err // EINVAL: a kernel that has no such capability; EPERM: the bound is not ours, the sets below are
		}
		half, bit := &sets[c/32], uint32(1)<<(c%32)
		half.Permitted &^= bit
		half.Effective &^= bit
		half.Inheritable &^= bit
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	return capset(&header, &sets)
}

func capget(h *unix.CapUserHeader, sets *[2]unix.CapUserData) error {
	return unix.Capget(h, (*unix.CapUserData)(unsafe.Pointer(sets)))
}

func capset(h *unix.CapUserHeader, sets *[2]unix.CapUserData) error {
	return unix.Capset(h, (*unix.CapUserData)(unsafe.Pointer(sets)))
}
