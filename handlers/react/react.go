// Package react turns events into acts. A reaction, run by a watermill router
// over the log's tail, only wakes the keeper of the event's subject; the keeper
// folds the subject's stream, looks at the world, takes the one next step, and
// reports what came of it by a command.
package react

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/projections"
	"hangar/projections/jobs"
	"hangar/projections/tasks"
)

// Agents starts agents and follows them, by the name of the configured agent. See
// handlers/agent for what each method promises.
type Agents interface {
	Start(ctx context.Context, a turn.Assignment) error
	Next(ctx context.Context, agent string, id domain.TurnID, after int) (turn.Line, error)
	Answer(ctx context.Context, agent string, id domain.TurnID, ask int, answer json.RawMessage) error
	Stop(ctx context.Context, agent string, id domain.TurnID) error
	Release(ctx context.Context, agent string, id domain.TurnID) error
	// Kept lists the turns of which something is still kept, released or not.
	Kept(ctx context.Context) ([]domain.TurnID, error)
}

// Workspaces makes the folders agents work in, and takes out of them what stays.
type Workspaces interface {
	Prepare(ctx context.Context, id domain.JobID) (turn.Folders, error)
	// Collect keeps the files an agent declared and those the job's globs match.
	// notes say what was left out, and why.
	Collect(ctx context.Context, id domain.JobID, f turn.Folders, declared []turn.Line, globs []string) (kept []turn.Artifact, notes []string, err error)
	Remove(ctx context.Context, id domain.JobID) error
	// Kept lists the jobs whose folders are there.
	Kept(ctx context.Context) ([]domain.JobID, error)
}

// Repositories clones a user's repository into a workspace and brings the agent's
// commits back.
type Repositories interface {
	// Clone does nothing where the clone is there already. A later turn, whose
	// workspace is gone, goes on from the job's branch; for a first one that branch
	// must not be there.
	Clone(ctx context.Context, id domain.JobID, c job.Checkout, f turn.Folders, later bool) error
	// Return fetches the job's branch into the repository and keeps a patch of
	// what changed. A branch already at the agent's commit is done.
	Return(ctx context.Context, id domain.JobID, c job.Checkout, f turn.Folders) (Returned, error)
}

// Returned is what came back from a clone.
type Returned struct {
	PR *job.PR // nil where nothing changed
	// Patch is the artifact that holds the changes, nil for none.
	Patch *turn.Artifact
	// Note says what did not come back as wished, "" where all did.
	Note string
}

// Limits bound what runs at once and how long.
type Limits struct {
	Running int           // agents at once; the rest stay queued, in order
	Timeout time.Duration // of a turn, where the job names none
	Keep    time.Duration // how long a job's workspace stays after its last end
}

// Deps are what the reactions need.
type Deps struct {
	Store        projections.Reader
	Commands     *commands.Commands
	Folds        *projections.Folds
	Jobs         *jobs.Table
	Tasks        *tasks.Table
	Agents       Agents
	Workspaces   Workspaces
	Repositories Repositories
	Limits       Limits
	Clock        domain.Clock
	Log          *slog.Logger
	// CaughtUp returns once the tables know what is in the log, or cannot.
	CaughtUp func(ctx context.Context) error
	// Hook is called at named points of a job's life, for tests that die there.
	Hook func(point string)
}

// The points at which Hook is called.
const (
	BeforeAgentStart = "before-agent-start"
	AfterAgentStart  = "after-agent-start"
	BeforeTurnClose  = "before-turn-close"
	AfterTurnClose   = "after-turn-close"
)

// Reactions is the running whole: the router, the keepers and the sweeper.
type Reactions struct {
	deps    Deps
	slots   *slots
	keepers *keepers

	mu   sync.Mutex
	kept map[domain.TurnID]bool // of ended turns too, until they are released
}

// New makes the reactions. Run starts them.
func New(d Deps) *Reactions {
	if d.Hook == nil {
		d.Hook = func(string) {}
	}
	r := &Reactions{deps: d}
	r.keepers = newKeepers(d.Log, r.keeperOf)
	r.slots = newSlots(d.Limits.Running, func(id domain.JobID) { r.keepers.wake(domain.Stream(id)) })
	return r
}

// keeperOf gives what keeps a subject, nil for a stream that nobody keeps.
func (r *Reactions) keeperOf(stream domain.Stream) keep {
	switch stream.Category() {
	case job.Category:
		return r.newJobKeeper(domain.JobID(stream)).run
	case taskCategory:
		return r.keepTask
	}
	return nil
}

// Run reacts until ctx ends, and returns once every keeper has let go. Agents go
// on: they are not the server's.
func (r *Reactions) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.keepers.close()
	from, err := r.deps.Store.Head(ctx)
	if err != nil {
		return err
	}
	r.keepers.start(ctx)
	r.resume(ctx) // before anything new, which stands in line behind
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		r.sweep(ctx)
	}()
	err = r.route(ctx, from)
	cancel()
	<-swept
	return err
}
