package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"hangar/cmd/internal/client"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/handlers/mcp"
)

// followEvery is how often a job that is followed is looked at: more often than
// clients are asked to poll, since somebody sits and watches.
const followEvery = 500 * time.Millisecond

// follow shows what happens to a task until it ends, and then its job.
func (sh *shell) follow(ctx context.Context, c *client.Client, id domain.JobID, t *mcp.Task, every time.Duration) error {
	sh.say("job %s, task %s", id, t.ID)
	f := follower{sh: sh, asked: map[string]bool{}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		t, err := c.GetTask(ctx, t.ID)
		if err != nil {
			if errors.Is(err, context.Canceled) {
				sh.say("the job goes on; see: hangar job get %s", id)
			}
			return err
		}
		f.show(t)
		if t.Status != mcp.Working && t.Status != mcp.InputRequests {
			return sh.finish(ctx, c, id, t)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			sh.say("the job goes on; see: hangar job get %s", id)
			return ctx.Err()
		}
	}
}

// follower shows each thing once.
type follower struct {
	sh    *shell
	last  string
	asked map[string]bool
}

func (f *follower) show(t *mcp.Task) {
	if t.Status == mcp.InputRequests {
		for _, key := range slices.Sorted(maps.Keys(t.InputRequests)) {
			if f.asked[key] {
				continue
			}
			f.asked[key] = true
			text, options := question(t.InputRequests[key])
			f.sh.say("%s", questionLine(key, text, options))
			f.sh.say("  answer: hangar task answer %s %s=…", t.ID, key)
		}
		return
	}
	if t.StatusMessage != f.last {
		f.last = t.StatusMessage
		f.sh.say("%s", oneLine(t.StatusMessage))
	}
}

// question gives what an elicitation asks, and the answers it offers.
func question(r mcp.InputRequest) (text string, options []string) {
	var p struct {
		Message string `json:"message"`
		Schema  struct {
			Properties map[string]struct {
				Enum []string `json:"enum"`
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if json.Unmarshal(r.Params, &p) != nil {
		return string(r.Params), nil
	}
	if len(p.Schema.Properties) == 1 {
		options = p.Schema.Properties["answer"].Enum
	}
	return p.Message, options
}

// finish shows the job of a task that has ended. What did not complete is a
// failure of the command.
func (sh *shell) finish(ctx context.Context, c *client.Client, id domain.JobID, t *mcp.Task) error {
	v, err := getJob(ctx, c, id)
	if err != nil {
		return err
	}
	if err := sh.showJob(v); err != nil {
		return err
	}
	if t.Status == mcp.Completed && v.Status == job.Completed {
		return nil
	}
	return errTold
}
