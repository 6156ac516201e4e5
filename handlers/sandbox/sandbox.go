// Package sandbox gives every job a workspace of its own. A Provider is one way to
// do so; the providers are in packages below this one, and all of them pass the one
// suite in sandboxtest.
package sandbox

import (
	"context"

	"hangar/domain"
	"hangar/domain/turn"
)

// Provider makes and removes the workspaces of jobs, and brings out of them what is
// to be kept. What is in a workspace belongs to the agent: a provider trusts no
// name, link or size that it finds there.
type Provider interface {
	// Prepare makes a job's workspace, and does nothing where it is there. What an
	// agent left in it stays.
	Prepare(ctx context.Context, job domain.JobID) (turn.Folders, error)

	// Remove removes a job's workspace with all that is in it. One that is not
	// there is removed already.
	Remove(ctx context.Context, job domain.JobID) error

	// Collect copies artifacts out of a workspace into the folder dest: those that
	// the agent declared, then those that match a glob. It says of each that it
	// dropped why. A repeated call keeps what is there: a file with the same content
	// keeps its name, another one is given a name of its own.
	Collect(ctx context.Context, ws turn.Folders, declared []Declared, globs []string, dest string) (kept []turn.Artifact, dropped []string, err error)
}

// Declared is a file that an agent declared as an artifact.
type Declared struct {
	Name string // as the agent wants it called
	Path string // within the workspace, slash-separated, relative to Folders.Root
}

// Bounds on the artifacts of one turn. What is dropped is said.
const (
	MaxArtifacts      = 100     // artifacts of one turn
	MaxArtifactBytes  = 1 << 30 // all artifacts of one turn together
	MaxArtifactName   = 128     // bytes of a name
	MaxFilesSearched  = 200_000 // files looked at for all globs
	MaxDroppedReasons = 50      // reasons given; more are counted
)
