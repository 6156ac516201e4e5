// Package git is what Hangar does with users' repositories: it checks one when a
// job is submitted, clones it for the agent, and brings the agent's commits back.
//
// Two sides never mix. In the user's repository git runs with the server's
// rights, with an environment made from nothing and with no hooks. In a clone
// that an agent has had its hands on, git runs only through a Stage, with the
// agent's own rights: hooks, configuration, a .git that points elsewhere are the
// agent's, and would else run as the user.
//
// It needs git 2.32 or later.
package git

import (
	"context"
	"os"
	"sync"
	"time"

	"hangar/domain/turn"
)

// Bounds on what git is waited for, and on what it may say.
const (
	CheckTimeout = 20 * time.Second // all that Check asks
	CloneTimeout = 10 * time.Minute // one clone
	FetchTimeout = 5 * time.Minute  // bringing commits back, with the wait for the repository's lock
	PatchTimeout = 2 * time.Minute  // making a patch

	MaxCommits      = 250 // commits listed of one branch
	MaxSubjectBytes = 200 // of a listed commit
	MaxBranchBytes  = 200 // of a branch's name: its parts are file names
	MaxReasonBytes  = 2 << 10
)

// DefaultRoots are the folders below which repositories may be, unless the
// setting repos says otherwise. "~" is the home of the server's user.
func DefaultRoots() []string { return []string{"~", "/tmp"} }

// Stage runs commands with the rights of a workspace's agent and with no other:
// under the same Landlock rules, and with an environment in which nothing is the
// server's. It is the only way in which git touches an agent's clone.
type Stage interface {
	// RunStaged runs argv to its end and gives what it printed. A command that
	// itself ends badly is an error with an *exec.ExitError in its chain; one
	// without says that the stage could not be set up.
	RunStaged(ctx context.Context, f turn.Folders, argv []string) (stdout []byte, err error)

	// UploadPack gives a line for a shell that, with the path of a repository as
	// one more argument, applies the workspace's rules and becomes git-upload-pack
	// on it. It may be run until cleanup is called. (git runs it with the server's
	// environment as this package makes it; GIT_PROTOCOL in it may be passed on.)
	UploadPack(f turn.Folders) (line string, cleanup func(), err error)
}

// Git works in users' repositories. Its methods may be called concurrently.
type Git struct {
	stage Stage
	uid   int // of the server's user; -1 where there are no such numbers

	mu    sync.Mutex
	locks map[string]chan struct{} // by repository: holds a value while locked
}

// New makes a Git that reaches agents' clones through stage.
func New(stage Stage) *Git {
	return &Git{stage: stage, uid: os.Geteuid(), locks: map[string]chan struct{}{}}
}

// Author is whose name an agent's commits bear.
type Author struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// DefaultAuthor is the author where a repository names none.
var DefaultAuthor = Author{Name: "Hangar", Email: "hangar@localhost"}
