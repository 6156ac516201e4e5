// Package scripted is the agent that does what its prompt says, line by line: the
// deterministic one, for tests and for the fixtures of the conformance suite. It
// lives in the server's own process, so a turn that was running when the server
// stopped is lost. It isolates nothing and is offered to nobody else.
//
// A prompt has one verb a line; blank lines and lines that begin with # are
// skipped.
//
//	say TEXT            prints TEXT; {answer} stands for the last answer
//	step TEXT           reports progress
//	work DURATION       takes its time, as in 1.5s
//	ask Q [| A | B]     asks, with options if any, and waits for the answer
//	pose JSON           asks {"text", "options", "schema"} and does not wait
//	await               waits until every posed question is answered
//	result JSON         reports the structured result; one that does not fit the
//	                    output schema is refused in the output, and the turn goes on
//	commit FILE TEXT    writes a line to FILE in the repository and commits it
//	artifact NAME TEXT  keeps a line of text under NAME
//	flood BYTES         prints so many bytes
//	fail CODE           ends failed: with an exit code, or with the name of a code
//	hang                does nothing until it is stopped
//	die                 is gone at once and leaves no last line
package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"hangar/domain"
	"hangar/domain/turn"
)

// Why an agent's context ends.
var (
	errStopped = errors.New("the turn was stopped")
	errLease   = errors.New("the turn's lease ended")
	errClosed  = errors.New("the runner was closed")
)

// Runner runs scripted agents, each in a goroutine of its own. It is an
// agent.Runner. What a turn did is kept in memory until the turn is released.
type Runner struct {
	boot  string
	clock domain.Clock

	ctx  context.Context // parent of every agent's; ended by Close
	end  context.CancelCauseFunc
	busy sync.WaitGroup

	mu    sync.Mutex
	turns map[domain.TurnID]*agent
}

// agent is one turn's agent, running or gone.
type agent struct {
	journal *journal
	output  *output // the player's alone until the journal is over
	stop    context.CancelCauseFunc
}

// New makes a runner. Its lines bear boot ids made of bootID, which no runner
// before it may have had, and of their turn, and the clock's time.
func New(bootID string, clock domain.Clock) *Runner {
	ctx, end := context.WithCancelCause(context.Background())
	return &Runner{boot: bootID, clock: clock, ctx: ctx, end: end, turns: map[domain.TurnID]*agent{}}
}

// Close ends every agent, as the end of the process would: no last lines. Lines
// written before can still be read.
func (r *Runner) Close() error {
	r.mu.Lock()
	r.end(errClosed) // under the lock, so that no agent starts beside it
	r.mu.Unlock()
	r.busy.Wait()
	return nil
}

// Start begins a turn whose prompt is the script.
func (r *Runner) Start(ctx context.Context, a turn.Assignment) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns[a.Turn] != nil {
		return nil
	}
	if r.ctx.Err() != nil {
		return domain.Errorf(domain.Unavailable, "the scripted agent is closed")
	}
	life, stop := context.WithCancelCause(r.ctx)
	// Every turn has a journal of its own, which (boot id, number) must tell apart.
	boot := string(domain.DerivedCommand(r.boot, string(a.Turn)))
	g := &agent{journal: newJournal(boot, r.clock), output: newOutput(turn.MaxOutputBytes), stop: stop}
	r.turns[a.Turn] = g
	g.journal.add(turn.Line{Kind: turn.LineStarted})
	r.busy.Go(func() {
		defer stop(nil)
		p := &player{Assignment: a, journal: g.journal, output: g.output, clock: r.clock}
		p.run(life)
	})
	return nil
}

// Next waits for the first line numbered above after. A turn of which lines were
// read, and which is not here, was lost with an earlier process.
func (r *Runner) Next(ctx context.Context, id domain.TurnID, after int) (turn.Line, error) {
	g := r.agent(id)
	switch {
	case g != nil:
		return g.journal.next(ctx, after)
	case after > 0:
		return turn.Line{}, turn.ErrLost
	default:
		return turn.Line{}, turn.ErrUnknownTurn
	}
}

// Answer answers the turn's ask-th question, once.
func (r *Runner) Answer(_ context.Context, id domain.TurnID, ask int, answer json.RawMessage) error {
	if !json.Valid(answer) {
		return domain.InvalidField("answer", "must be JSON")
	}
	if g := r.agent(id); g != nil {
		g.journal.answer(ask, plain(answer))
	}
	return nil
}

// Stop ends the turn's agent at its next verb, or in the midst of one that waits.
func (r *Runner) Stop(_ context.Context, id domain.TurnID) error {
	if g := r.agent(id); g != nil {
		g.stop(errStopped)
	}
	return nil
}

// Release writes the turn's output to the file named outputTo, "" for nowhere,
// and forgets the turn. A running one is refused.
func (r *Runner) Release(_ context.Context, id domain.TurnID, outputTo string) error {
	g := r.agent(id)
	if g == nil {
		return nil
	}
	if !g.journal.ended() {
		return domain.Errorf(domain.Conflict, "turn %s is still running", id)
	}
	if outputTo != "" {
		if err := writeFile(outputTo, g.output.kept()); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.turns, id)
	return nil
}

func (r *Runner) agent(id domain.TurnID) *agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns[id]
}

// writeFile makes the file whole or not at all. Writing it twice is harmless.
func writeFile(name string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
