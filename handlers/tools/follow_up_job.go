package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

// followUpArgs are the arguments of follow_up_job.
type followUpArgs struct {
	JobID          string          `json:"job_id"`
	Prompt         string          `json:"prompt"`
	OutputSchema   json.RawMessage `json:"output_schema,omitempty"`
	OpenPR         *bool           `json:"open_pr,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
}

func (c *Catalogue) followUp(in inputs) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		var a followUpArgs
		if err := in.read(call.Arguments, &a); err != nil {
			return nil, err
		}
		id, err := a.check()
		if err != nil {
			return nil, err
		}
		canonical := a
		canonical.IdempotencyKey = ""
		hash, err := argsHash(canonical)
		if err != nil {
			return nil, err
		}
		o := origin(call.Caller, c.commandID(call, a.IdempotencyKey))
		r, err := c.Commands.FollowUpJob(ctx, o, commands.FollowUpJob{Job: id, FollowUp: job.FollowUp{
			Prompt: a.Prompt, OutputSchema: a.OutputSchema, OpenPR: a.OpenPR, Task: c.request(call, hash),
		}}, a.permit(call.Caller))
		if err != nil {
			return nil, err
		}
		left, err := c.followedUp(ctx, id, domain.RecordID(o.ID, domain.Stream(id), 0))
		if err != nil {
			return nil, err
		}
		if r.Repeated && !a.same(left) {
			return nil, domain.InvalidField("idempotency_key", "%q was used for a follow-up of this job with other arguments; use another key", a.IdempotencyKey)
		}
		return c.handOut(ctx, call, r, func() (mcp.Outcome, error) {
			v := JobOut(r.Job)
			v.Note = followUpNote(r.Job, left)
			return answer(v, v.Status == job.Failed)
		})
	}
}

// check says which argument is wrong by itself.
func (a *followUpArgs) check() (domain.JobID, error) {
	id, err := checkJobID(a.JobID)
	if err != nil {
		return "", err
	}
	if err := checkPrompt(a.Prompt); err != nil {
		return "", err
	}
	if err := checkText("idempotency_key", a.IdempotencyKey, maxNameBytes); err != nil {
		return "", err
	}
	a.OutputSchema, err = checkSchema(a.OutputSchema)
	return id, err
}

// permit asks, besides whether the caller may, whether the arguments mean
// something for the job as it stands.
func (a *followUpArgs) permit(caller mcp.Caller) func(*job.State) error {
	return func(s *job.State) error {
		if err := permit(caller)(s); err != nil {
			return err
		}
		if a.OpenPR != nil && *a.OpenPR && s.Submitted.Repo == "" {
			return domain.InvalidField("open_pr", "the job has no repo to open it for; leave it out")
		}
		open := s.Open(0)
		if len(open) == 0 {
			return nil
		}
		q := &open[0]
		switch {
		case len(a.OutputSchema) > 0:
			return domain.InvalidField("output_schema", "the prompt answers the open question %s, which begins no turn; leave it out", q.Key())
		case a.OpenPR != nil:
			return domain.InvalidField("open_pr", "the prompt answers the open question %s, which begins no turn; leave it out", q.Key())
		case len(q.Schema) > 0 && json.Valid([]byte(a.Prompt)):
			if err := checkInstance(q.Schema, json.RawMessage(a.Prompt)); err != nil {
				return domain.InvalidField("prompt", "it answers the open question %s, and does not fit its schema: %s", q.Key(), err)
			}
		}
		return nil
	}
}

// followedUp is what a follow-up left in the job's stream.
type followedUp struct {
	request job.FollowUpRequested
	// answered is the question it answered, 0 for none.
	answered int
}

// followedUp reads back the follow-up whose first record has the id: whether it
// answered a question, and what a repeat of the call has to be equal to.
func (c *Catalogue) followedUp(ctx context.Context, id domain.JobID, record string) (followedUp, error) {
	var found followedUp
	err := c.ledger.scan(ctx, domain.Stream(id), func(e event.Event) bool {
		switch d := e.Data.(type) {
		case job.FollowUpRequested:
			if e.ID == record {
				found.request = d
			}
		case turn.Answered:
			if domain.RecordID(e.Meta.CommandID, domain.Stream(id), 0) == record {
				found.answered = d.N
			}
		}
		return true
	})
	return found, err
}

// same reports whether a repeat asks for what the first call did.
func (a *followUpArgs) same(first followedUp) bool {
	r := first.request
	pr := (a.OpenPR == nil) == (r.OpenPR == nil) && (a.OpenPR == nil || *a.OpenPR == *r.OpenPR)
	return pr && a.Prompt == r.Prompt && bytes.Equal(canonicalOf(a.OutputSchema), canonicalOf(r.OutputSchema))
}

// canonicalOf gives JSON with its members in order, for comparing.
func canonicalOf(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	d, err := argsHash(raw)
	if err != nil {
		return raw
	}
	return []byte(d)
}

// followUpNote tells what became of the prompt.
func followUpNote(s *job.State, f followedUp) string {
	if f.answered == 0 {
		return fmt.Sprintf("turn %d was opened", f.request.Turn)
	}
	note := fmt.Sprintf("the prompt answered the question %s of turn %d", (&turn.Question{N: f.answered}).Key(), f.request.Turn)
	open := s.Open(0)
	if len(open) == 0 {
		return note
	}
	keys := make([]string, len(open))
	for i := range open {
		keys[i] = open[i].Key()
	}
	return note + "; still open: " + strings.Join(keys, ", ")
}
