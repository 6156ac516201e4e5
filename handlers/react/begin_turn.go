package react

import (
	"context"
	"errors"
	"time"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
)

// start makes the workspace ready and starts the turn's agent. Each part looks
// first whether it was done before. What can never succeed ends the turn.
func (k *jobKeeper) start(ctx context.Context, s *job.State, t *turn.State) error {
	code, err := k.tryStart(ctx, s, t)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if !permanent(err) && k.r.keepers.failures(k.stream) < reportAfter {
		return err
	}
	why := k.told(code, err)
	ended := turn.Ended{Turn: t.N, Status: turn.StatusFailed, Code: code, StopReason: "error", Summary: why}
	_, err = k.r.deps.Commands.CloseTurn(ctx, s, job.Close{Ended: ended, Message: why})
	return err
}

// told is what a caller may read of a failure; the rest is for the log.
func (k *jobKeeper) told(what string, err error) string {
	var known *domain.Error
	if errors.As(err, &known) && known.Code != domain.Internal {
		return known.Message
	}
	k.r.deps.Log.Error("a turn's work failed for good", "job", k.id, "what", what, "error", err)
	return "a fault of the server (" + what + "); its log says more"
}

// permanent reports whether trying again is of no use.
func permanent(err error) bool {
	switch domain.CodeOf(err) {
	case domain.Invalid, domain.NotFound, domain.Conflict, domain.Forbidden, domain.TooLarge, domain.Unsupported:
		return true
	case domain.Unauthorized, domain.Unavailable, domain.Internal:
	}
	return false
}

// tryStart gives the code of what failed along with the failure.
func (k *jobKeeper) tryStart(ctx context.Context, s *job.State, t *turn.State) (code string, err error) {
	d := &k.r.deps
	if err := k.at(ctx, s, t, job.StepPrepare); err != nil {
		return turn.Workspace, err
	}
	env, err := d.Commands.OpenEnv(s)
	if err != nil {
		return turn.Workspace, err
	}
	folders, err := d.Workspaces.Prepare(ctx, k.id)
	if err != nil {
		return turn.Workspace, err
	}
	if s.Submitted.Repo != "" {
		if err := k.at(ctx, s, t, job.StepClone); err != nil {
			return turn.Workspace, err
		}
		if err := d.Repositories.Clone(ctx, k.id, checkout(s), folders, t.N > 1); err != nil {
			return turn.Workspace, err
		}
	}
	if err := k.at(ctx, s, t, job.StepAgent); err != nil {
		return turn.AgentStart, err
	}
	timeout := d.Limits.Timeout
	if m := s.Submitted.TimeoutMinutes; m > 0 {
		timeout = time.Duration(m) * time.Minute
	}
	prompt := s.Prompt(t.N)
	d.Hook(BeforeAgentStart)
	err = d.Agents.Start(ctx, turn.Assignment{
		Turn: domain.TurnOf(k.id, t.N), Agent: s.Submitted.Agent, Prompt: prompt.Text, Env: env,
		Deadline: d.Clock.Now().Add(timeout), OutputSchema: prompt.OutputSchema, Workspace: folders,
	})
	if err != nil {
		return turn.AgentStart, err
	}
	d.Hook(AfterAgentStart)
	// Its own first line makes the start an event; from here on it is followed.
	line, err := d.Agents.Next(ctx, s.Submitted.Agent, domain.TurnOf(k.id, t.N), 0)
	if err != nil {
		return turn.AgentStart, ignoreLost(err)
	}
	after, err := d.Commands.RecordLine(ctx, s, job.Record{Turn: t.N, Agent: s.Submitted.Agent, Line: line})
	if err == nil && after.Turn(t.N).StartedAt.IsZero() {
		err = domain.Errorf(domain.Internal, "the line %d of boot %s stands for another turn's start", line.N, line.BootID)
	}
	return turn.AgentStart, err
}

// ignoreLost makes an agent that was gone before its first line one that failed
// to start, for good.
func ignoreLost(err error) error {
	if errors.Is(err, turn.ErrLost) || errors.Is(err, turn.ErrUnknownTurn) {
		return domain.Errorf(domain.Unsupported, "the agent ended before it began")
	}
	return err
}

// at records the step that begins.
func (k *jobKeeper) at(ctx context.Context, s *job.State, t *turn.State, name string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := k.r.deps.Commands.ChangeStep(ctx, s, job.ChangeStep{Turn: t.N, Name: name, Status: job.StepRunning})
	return err
}

func checkout(s *job.State) job.Checkout {
	sub := &s.Submitted
	return job.Checkout{Repo: sub.Repo, BaseBranch: sub.BaseBranch, BaseCommit: sub.BaseCommit, Branch: sub.Branch}
}

// cancelUnstarted ends a turn that no event says has started. Its agent may run
// all the same, started by a server that died before it could say so.
func (k *jobKeeper) cancelUnstarted(ctx context.Context, s *job.State, t *turn.State) error {
	d, id, agent := &k.r.deps, domain.TurnOf(k.id, t.N), k.agent(s, t)
	if err := d.Agents.Stop(ctx, agent, id); err != nil && !errors.Is(err, turn.ErrUnknownTurn) && !errors.Is(err, turn.ErrLost) {
		return err
	}
	line, err := d.Agents.Next(ctx, agent, id, 0)
	switch {
	case err == nil:
		_, err = d.Commands.RecordLine(ctx, s, job.Record{Turn: t.N, Agent: agent, Line: line})
		return err
	case !errors.Is(err, turn.ErrUnknownTurn) && !errors.Is(err, turn.ErrLost):
		return err
	}
	_, err = d.Commands.CloseTurn(ctx, s, job.Close{
		Ended: turn.Ended{Turn: t.N, Status: turn.StatusCancelled, StopReason: "cancelled"},
	})
	return err
}
