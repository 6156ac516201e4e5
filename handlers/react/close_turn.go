package react

import (
	"context"
	"strconv"
	"strings"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
)

// close brings back what an agent made, records the turn's end in one batch, and
// only then lets go of the agent's journal.
func (k *jobKeeper) close(ctx context.Context, s *job.State, t *turn.State, e end) error {
	d := &k.r.deps
	c := ending(s, t, e)
	if err := k.at(ctx, s, t, job.StepCollect); err != nil {
		return err
	}
	if err := k.collect(ctx, s, e, &c); err != nil {
		if ctx.Err() != nil || (!permanent(err) && k.r.keepers.failures(k.stream) < reportAfter) {
			return err
		}
		c.Ended.Status, c.Ended.Code = turn.StatusFailed, turn.Collect
		c.Message = note(c.Message, k.told(turn.Collect, err))
	}
	d.Hook(BeforeTurnClose)
	if _, err := d.Commands.CloseTurn(ctx, s, c); err != nil {
		return err
	}
	d.Hook(AfterTurnClose)
	return d.Agents.Release(ctx, k.agent(s, t), domain.TurnOf(k.id, t.N))
}

// ending judges an agent's end.
func ending(s *job.State, t *turn.State, e end) job.Close {
	c := job.Close{Ended: turn.Ended{Turn: t.N}}
	ended := &c.Ended
	if e.exit == nil {
		ended.Status, ended.Code, ended.StopReason = turn.StatusFailed, turn.AgentLost, "lost"
		ended.Summary = t.Last
		c.Message = "the agent is gone: it ended without a word, or the machine was restarted under it"
		return c
	}
	x := e.exit
	ended.Summary, ended.Message, ended.Output, ended.StopReason = x.Summary, x.Message, &x.Output, x.Reason
	ended.Result = e.result.Result
	switch x.Reason {
	case turn.ExitCompleted:
		ended.Status, ended.ExitCode = turn.StatusCompleted, &x.ExitCode
		if len(s.Prompt(t.N).OutputSchema) > 0 && len(ended.Result) == 0 {
			ended.Status, ended.Code = turn.StatusFailed, turn.ResultMissing
			c.Message = noResult
		}
	case turn.ExitCancelled:
		ended.Status = turn.StatusCancelled
	case turn.ExitTimeout:
		ended.Status, ended.Code = turn.StatusFailed, turn.AgentTimeout
		c.Message = "the agent's time was over before it was done"
	default:
		ended.Status, ended.Code, ended.ExitCode = turn.StatusFailed, turn.AgentExited, &x.ExitCode
		if x.Code != "" {
			ended.Code = x.Code
		}
		c.Message = failure(x)
	}
	return c
}

// collect keeps the artifacts and brings the commits back. A workspace that was
// never made has neither.
func (k *jobKeeper) collect(ctx context.Context, s *job.State, e end, c *job.Close) error {
	d := &k.r.deps
	folders, err := d.Workspaces.Prepare(ctx, k.id)
	if err != nil {
		return err
	}
	kept, notes, err := d.Workspaces.Collect(ctx, k.id, folders, e.artifacts, s.Submitted.Artifacts)
	if err != nil {
		return err
	}
	c.Ended.Artifacts = kept
	c.Message = note(c.Message, strings.Join(notes, "; "))
	if s.Submitted.Repo == "" {
		return nil
	}
	back, err := d.Repositories.Return(ctx, k.id, checkout(s), folders)
	if err != nil {
		return err
	}
	if back.Patch != nil {
		c.Ended.Artifacts = append(c.Ended.Artifacts, *back.Patch)
	}
	if c.PR = back.PR; c.PR != nil {
		c.PR.Title, c.PR.Body = e.pr.Title, e.pr.Text
	}
	c.Message = note(c.Message, back.Note)
	return nil
}

// note adds a sentence to a message.
func note(message, more string) string {
	switch {
	case more == "":
		return message
	case message == "":
		return more
	}
	return message + "; " + more
}

// noResult is why a turn fails whose agent did everything but what counts.
const noResult = "the job asks for a structured result (output_schema), and the agent gave none"

// failure says in words how an agent failed. What it printed is the turn's message
// and no reason, but where it could not be started: then that is why.
func failure(x *turn.Exit) string {
	switch x.Code {
	case turn.AgentStart:
		return x.Message
	case turn.ResultMissing:
		return noResult
	case turn.AgentLost:
		return "the agent was ended together with its supervisor, as when the machine stops"
	}
	if x.Signal != "" {
		return "the agent was ended by " + x.Signal
	}
	return "the agent ended with exit code " + strconv.Itoa(x.ExitCode)
}
