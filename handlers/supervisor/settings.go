package supervisor

import (
	"os"
	"path/filepath"
	"runtime"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
)

// Defaults and bounds, each with its unit. What is refused or cut is said.
const (
	// StopGrace is how long an agent that was asked to end (SIGTERM) has before
	// it is made to (SIGKILL).
	StopGrace = 5 * time.Second
	// KeepAfter is how long a supervisor whose agent has ended waits for a server
	// to take its last line, counted from the last time one was there. The journal
	// stays on the disk after that too.
	KeepAfter = 24 * time.Hour
	// BeginLimit is how long a supervisor may take until it says that it has begun,
	// or why not.
	BeginLimit = 30 * time.Second
	// StagedLimit is how long a staged command may run where its caller names no
	// deadline.
	StagedLimit = 10 * time.Minute

	maxMessage       = 1 << 20                // bytes of one line on the socket
	maxResultBytes   = 128 << 10              // a structured result: it shares an event of 256 KiB
	maxResults       = 64                     // results a turn; the last one counts
	maxArtifacts     = 200                    // artifacts a turn may declare
	maxPRs           = 16                     // pull request texts a turn; the last one counts
	maxTitleBytes    = 256                    // title of a pull request
	maxBodyBytes     = 64 << 10               // body of a pull request
	maxNameBytes     = 128                    // name of an artifact
	maxOptions       = 32                     // choices of one question
	maxOptionBytes   = 1 << 10                // one choice
	maxSummaryBytes  = 1 << 10                // summary of a turn
	maxHelpers       = 64                     // helper calls served at once
	maxNewcomers     = 256                    // connections that have asked for nothing yet; the oldest goes
	helloTime        = 5 * time.Second        // for a newcomer to ask for something
	sendTime         = 10 * time.Second       // to write one line to a peer
	tendInterval     = 10 * time.Second       // between looks at clock, lease and socket
	lockTime         = 500 * time.Millisecond // for a lock that is only being looked at
	retryInterval    = 20 * time.Millisecond  // between tries to reach a supervisor that starts or ends
	maxSocketPath    = 100                    // bytes; the kernels' limits are 104 and 108
	maxOpenFiles     = 1 << 16                // file descriptors of one agent process
	memoryScore      = "500"                  // oom_score_adj of agents: they go before their supervisor
	journalRetryTime = time.Second            // between tries to write the last line
)

// Options say how a Client runs agents.
type Options struct {
	// Data is the server's data folder. Turns have their folders in it.
	Data string
	// Read are folders and files that agents may read and execute besides the
	// system's own: the setting sandbox.read, for toolchains under a home.
	Read []string
	// Executable is the hangar binary, for supervisor and helper alike. Empty
	// means the binary that runs now, even where its file was replaced since.
	Executable string
	// Grace, Keep and Begin stand in for StopGrace, KeepAfter and BeginLimit where
	// they are not 0.
	Grace, Keep, Begin time.Duration
}

// settings are all that a supervisor is told. They travel on its standard input,
// so that neither command line nor environment holds any of them.
type settings struct {
	Process    turn.Process  `json:"process"`
	Data       string        `json:"data"`
	Folder     string        `json:"folder"` // DATA/run/<turn>
	Sockets    []string      `json:"sockets"`
	Read       []string      `json:"read,omitempty"`
	Executable string        `json:"executable"` // as started again
	Binary     string        `json:"binary"`     // as a file the agent can reach
	Grace      time.Duration `json:"grace_ns"`
	Keep       time.Duration `json:"keep_ns"`
}

// normalize checks the options and fills in what they leave open.
func (o Options) normalize() (Options, error) {
	if o.Data == "" {
		return o, domain.InvalidField("data", "is empty")
	}
	data, err := filepath.Abs(o.Data)
	if err != nil {
		return o, domain.Wrap(domain.Internal, err, "the data folder has no absolute path")
	}
	o.Data = data
	for _, p := range o.Read {
		if !filepath.IsAbs(p) {
			return o, domain.InvalidField("sandbox.read", "%q is not an absolute path", p)
		}
		if within(resolve(p), resolve(o.Data)) {
			return o, domain.InvalidField("sandbox.read", "%q is in the data folder, which no agent may read", p)
		}
	}
	if o.Grace == 0 {
		o.Grace = StopGrace
	}
	if o.Keep == 0 {
		o.Keep = KeepAfter
	}
	if o.Begin == 0 {
		o.Begin = BeginLimit
	}
	return o, nil
}

// self is how this binary is executed again: through the kernel's own reference
// to it where there is one, since the file may have been replaced by an upgrade.
func self() (string, error) {
	const link = "/proc/self/exe"
	if runtime.GOOS == "linux" {
		if _, err := os.Stat(link); err == nil {
			return link, nil
		}
	}
	return os.Executable()
}

// executables gives the path to start this binary by, and the path of its file.
func (o Options) executables() (start, binary string, err error) {
	if o.Executable != "" {
		return o.Executable, o.Executable, nil
	}
	if start, err = self(); err != nil {
		return "", "", err
	}
	binary, err = os.Executable()
	return start, binary, err
}

// resolve gives the path with its links followed, or the path itself where that
// cannot be done.
func resolve(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return filepath.Clean(path)
}

// within reports whether path is root or below it. Both are clean and absolute.
func within(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}
