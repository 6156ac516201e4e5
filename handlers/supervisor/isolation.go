package supervisor

import (
	"fmt"
	"strings"
)

// The versions of Landlock's interface that brought what we ask for.
const (
	abiTruncate = 3
	abiDevices  = 5
	abiScopes   = 6
)

// Isolation is what stands between an agent and this user on this machine, in
// plain words, for whoever decides to run agents here.
type Isolation struct {
	// Level is 0: processes of this user, closed in by Landlock where there is one.
	Level int `json:"level"`
	// Landlock is the version of the kernel's Landlock, 0 for none.
	Landlock int `json:"landlock_abi"`
	// Missing are protections that this kernel cannot give.
	Missing []string `json:"missing,omitempty"`
	// Open is what stays within the agent's reach at this level by design.
	Open []string `json:"open,omitempty"`
}

// Probe finds out what isolation agents have here.
func Probe() Isolation { return isolation(landlockABI()) }

func isolation(abi int) Isolation {
	i := Isolation{Landlock: abi}
	if abi == 0 {
		i.Missing = []string{"no isolation, the agent can act as you"}
		return i
	}
	if abi < abiTruncate {
		i.Missing = append(i.Missing, "files outside the workspace can be emptied (truncate needs Landlock 3)")
	}
	if abi < abiDevices {
		i.Missing = append(i.Missing, "device controls are not held back (needs Landlock 5)")
	}
	if abi < abiScopes {
		i.Missing = append(i.Missing, "the agent can send signals to your processes and reach abstract sockets (needs Landlock 6)")
	}
	i.Open = []string{"the network", "Unix sockets that have a path", "modes, owners and times of your files (not what is in them)"}
	return i
}

// String gives it in one line.
func (i Isolation) String() string {
	if i.Landlock == 0 {
		return "level 0: " + strings.Join(i.Missing, "; ")
	}
	s := fmt.Sprintf("level 0 with Landlock %d: agents write their workspace only", i.Landlock)
	if len(i.Missing) > 0 {
		s += "; missing: " + strings.Join(i.Missing, ", ")
	}
	return s + "; open: " + strings.Join(i.Open, ", ")
}
