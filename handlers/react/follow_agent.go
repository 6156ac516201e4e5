package react

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
)

// follower reads an agent's journal from its first line, however often, and
// records each line that is an event. Lines recorded before are known by their
// ids.
type follower struct {
	told   chan struct{} // something that the keeper wants to know has come
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	end      *end
	answered map[int]bool // asks whose answer reached the agent
	seen     outcome
}

// end is how an agent's journal ends.
type end struct {
	exit *turn.Exit // nil where the agent was lost
	outcome
}

// outcome is what an agent left in its journal for the turn's end.
type outcome struct {
	result    turn.Line
	pr        turn.Line
	artifacts []turn.Line
}

// follow attaches to the turn's agent.
func (k *jobKeeper) follow(ctx context.Context, s *job.State, t *turn.State) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{told: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}), answered: map[int]bool{}}
	k.follower = f
	go func() {
		defer close(f.done)
		f.run(ctx, k.r, s, t.N, k.agent(s, t))
	}()
}

func (f *follower) stop() {
	f.cancel()
	<-f.done
}

func (f *follower) ended() (end, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end == nil {
		return end{}, false
	}
	return *f.end, true
}

func (f *follower) delivered(ask int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answered[ask]
}

// longestWait bounds the pause between attempts to reach an agent or the log.
const longestWait = 5 * time.Second

func (f *follower) run(ctx context.Context, r *Reactions, s *job.State, n int, agent string) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval, retry.MaxElapsedTime = 20*time.Millisecond, longestWait, 0
	for after := 0; ctx.Err() == nil; {
		line, err := r.deps.Agents.Next(ctx, agent, domain.TurnOf(s.ID, n), after)
		if errors.Is(err, turn.ErrLost) || errors.Is(err, turn.ErrUnknownTurn) {
			f.finish(nil)
			return
		}
		if err == nil {
			err = f.take(ctx, r, s, job.Record{Turn: n, Agent: agent, Line: line})
		}
		if err != nil {
			if ctx.Err() == nil {
				r.deps.Log.Warn("an agent's line cannot be taken, trying again", "job", s.ID, "turn", n, "error", err)
				sleep(ctx, retry.NextBackOff())
			}
			continue
		}
		retry.Reset()
		if after = line.N; line.Kind == turn.LineExited {
			f.finish(line.Exit)
			return
		}
	}
}

// take records a line, and remembers what is needed at the end.
func (f *follower) take(ctx context.Context, r *Reactions, s *job.State, rec job.Record) error {
	switch rec.Line.Kind {
	case turn.LineStarted, turn.LineStep, turn.LineAsked:
		_, err := r.deps.Commands.RecordLine(ctx, s, rec)
		return err
	case turn.LineAnswered, turn.LineResult, turn.LineArtifact, turn.LinePR, turn.LineExited:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch rec.Line.Kind {
	case turn.LineAnswered:
		f.answered[rec.Line.Ask] = true
	case turn.LineResult:
		f.seen.result = rec.Line
	case turn.LineArtifact:
		f.seen.artifacts = append(f.seen.artifacts, rec.Line)
	case turn.LinePR:
		f.seen.pr = rec.Line
	case turn.LineStarted, turn.LineStep, turn.LineAsked, turn.LineExited:
	}
	return nil
}

func (f *follower) finish(exit *turn.Exit) {
	f.mu.Lock()
	f.end = &end{exit: exit, outcome: f.seen}
	f.mu.Unlock()
	select {
	case f.told <- struct{}{}:
	default:
	}
}
