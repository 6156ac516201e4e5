package commands

import (
	"context"
	"encoding/json"
	"slices"
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
	return c.report(ctx, s, turnCommand(s, cmd.Turn, "step", cmd.Name, cmd.Status), cmd)
}

// RecordLine records one line of a turn's journal, under the id that its
// supervisor and number give it.
func (c *Commands) RecordLine(ctx context.Context, s *job.State, cmd job.Record) (*job.State, error) {
	r := c.wordsOf(s)
	cmd.Line.Text = clip(r.text(cmd.Line.Text), turn.MaxTextBytes)
	cmd.Line.Schema = r.json(cmd.Line.Schema)
	cmd.Line.Options = slices.Clone(cmd.Line.Options)
	for i, option := range cmd.Line.Options {
		cmd.Line.Options[i] = r.text(option)
	}
	return c.report(ctx, s, domain.DerivedCommand(cmd.Line.BootID, strconv.Itoa(cmd.Line.N)), cmd)
}

// CloseTurn records a turn's end and all that came of it, in one batch. A result
// that does not fit is left out: an end is recorded in any case.
func (c *Commands) CloseTurn(ctx context.Context, s *job.State, cmd job.Close) (*job.State, error) {
	r := c.wordsOf(s)
	cmd.Ended.Message = clip(r.text(cmd.Ended.Message), 2*turn.MaxMessageBytes)
	cmd.Ended.Summary = clip(r.text(cmd.Ended.Summary), turn.MaxMessageBytes)
	cmd.Ended.Result = r.json(cmd.Ended.Result)
	cmd.Message = clip(r.text(cmd.Message), turn.MaxMessageBytes)
	if cmd.PR != nil {
		pr := *cmd.PR
		pr.Title, pr.Body = clip(r.text(pr.Title), 1<<10), clip(r.text(pr.Body), turn.MaxTextBytes)
		pr.Commits = slices.Clone(pr.Commits)
		for i := range pr.Commits {
			pr.Commits[i].Subject = clip(r.text(pr.Commits[i].Subject), 1<<10)
		}
		cmd.PR = &pr
	}
	id := turnCommand(s, cmd.Ended.Turn, "close")
	state, err := c.report(ctx, s, id, cmd)
	if domain.CodeOf(err) == domain.TooLarge {
		cmd.Ended.Result = nil
		if cmd.Ended.Status == turn.StatusCompleted {
			cmd.Ended.Status, cmd.Ended.Code = turn.StatusFailed, turn.ResultMissing
		}
		cmd.Message = clip("the result was left out: "+err.Error(), turn.MaxMessageBytes)
		cmd.Ended.Message = cmd.Message
		return c.report(ctx, s, id, cmd)
	}
	return state, err
}

// turnCommand names what is reported of a turn, so that it is recorded once.
func turnCommand(s *job.State, n int, what ...string) domain.CommandID {
	return domain.DerivedCommand(append([]string{string(domain.TurnOf(s.ID, n))}, what...)...)
}

// report carries out a keeper's command; what it follows from is the newest
// record that the keeper has seen.
func (c *Commands) report(ctx context.Context, s *job.State, id domain.CommandID, cmd job.Command) (*job.State, error) {
	o := Origin{Owner: domain.Owner{Tenant: s.Owner.Tenant}, ID: id, CorrelationID: s.Correlation, CausationID: s.EventID}
	l, err := c.job(ctx, o, s.ID, nil, cmd)
	if err != nil {
		return nil, err
	}
	return &l.state, nil
}

// words makes what an agent says fit to be written down.
type words struct{ redactor *redact.Redactor }

// withheld stands for what cannot be made fit.
const withheld = "[withheld: the job's environment was sealed under another server secret, so what of this is secret is not known]"

// wordsOf knows the job's own secrets besides the server's. Where the job's cannot
// be read any more, nothing its agent says is written down; its turns go on and
// end all the same.
func (c *Commands) wordsOf(s *job.State) words {
	env, err := c.OpenEnv(s)
	if err != nil {
		return words{}
	}
	return words{c.redactor.With(env)}
}

func (w words) text(s string) string {
	if w.redactor == nil && s != "" {
		return withheld
	}
	if s == "" {
		return ""
	}
	return w.redactor.Text(s)
}

func (w words) json(text json.RawMessage) json.RawMessage {
	if w.redactor == nil || len(text) == 0 {
		return nil
	}
	return w.redactor.JSON(text)
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
