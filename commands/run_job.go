package commands

import (
	"context"
	"strconv"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/redact"
	"hangar/domain/turn"
)

// What follows are the reports of a job's keeper. Their ids follow from what is
// reported, so that each is recorded once, whoever reports it again.

// ChangeStep records what the control plane does for a turn.
func (c *Commands) ChangeStep(ctx context.Context, s *job.State, cmd job.ChangeStep) (*job.State, error) {
	o := follow(s.Owner.Tenant, s.Correlation, string(domain.TurnOf(s.ID, cmd.Turn)), "step", cmd.Name, cmd.Status)
	return c.report(ctx, s.ID, o, cmd)
}

// RecordLine records one line of a turn's journal, under the id that its
// supervisor and number give it.
func (c *Commands) RecordLine(ctx context.Context, s *job.State, cmd job.Record) (*job.State, error) {
	o := follow(s.Owner.Tenant, s.Correlation, string(domain.TurnOf(s.ID, cmd.Turn)))
	o.ID = domain.DerivedCommand(cmd.Line.BootID, strconv.Itoa(cmd.Line.N))
	r, err := c.redactorFor(s)
	if err != nil {
		return nil, err
	}
	cmd.Line.Text = clip(r.Text(cmd.Line.Text), turn.MaxTextBytes)
	for i, option := range cmd.Line.Options {
		cmd.Line.Options[i] = r.Text(option)
	}
	return c.report(ctx, s.ID, o, cmd)
}

// CloseTurn records a turn's end and all that came of it, in one batch.
func (c *Commands) CloseTurn(ctx context.Context, s *job.State, cmd job.Close) (*job.State, error) {
	o := follow(s.Owner.Tenant, s.Correlation, string(domain.TurnOf(s.ID, cmd.Ended.Turn)), "close")
	r, err := c.redactorFor(s)
	if err != nil {
		return nil, err
	}
	cmd.Ended.Message = clip(r.Text(cmd.Ended.Message), 2*turn.MaxMessageBytes)
	cmd.Ended.Summary = clip(r.Text(cmd.Ended.Summary), turn.MaxMessageBytes)
	cmd.Ended.Result = r.JSON(cmd.Ended.Result)
	cmd.Message = clip(r.Text(cmd.Message), turn.MaxMessageBytes)
	if cmd.PR != nil {
		pr := *cmd.PR
		pr.Title, pr.Body = clip(r.Text(pr.Title), 1<<10), clip(r.Text(pr.Body), turn.MaxTextBytes)
		cmd.PR = &pr
	}
	return c.report(ctx, s.ID, o, cmd)
}

func (c *Commands) report(ctx context.Context, id domain.JobID, o Origin, cmd job.Command) (*job.State, error) {
	l, err := c.job(ctx, o, id, nil, cmd)
	if err != nil {
		return nil, err
	}
	return &l.state, nil
}

// redactorFor knows the job's own secrets besides the server's.
func (c *Commands) redactorFor(s *job.State) (*redact.Redactor, error) {
	env, err := c.OpenEnv(s)
	if err != nil {
		return nil, err
	}
	return c.redactor.With(env), nil
}

// clip cuts a text to at most n bytes, at a character, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = " […]"
	cut := n - len(mark)
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}
