package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
	"hangar/projections/jobs"
)

// The names of the group.
const (
	submitJob   = "submit_job"
	followUpJob = "follow_up_job"
	getJob      = "get_job"
	listJobs    = "list_jobs"
	cancelJob   = "cancel_job"
)

// jobTools are units of work with a deliverable.
func (c *Catalogue) jobTools() []*mcp.Tool {
	submit := c.submitSchema()
	followUp := definition(`{"type":"object","properties":{
		"job_id":{"type":"string"},
		"prompt":{"type":"string"},
		"output_schema":{"type":"object","description":"JSON Schema of the structured result"},
		"open_pr":{"type":"boolean"},
		"idempotency_key":{"type":"string","description":"Repeating the call with it changes nothing"}},
		"required":["job_id","prompt"]}`)
	get := definition(`{"type":"object","properties":{"job_id":{"type":"string"}},"required":["job_id"]}`)
	list := definition(`{"type":"object","properties":{
		"status":{"type":"string","enum":` + statusEnum() + `},
		"repo":{"type":"string","description":"As jobs show it"},
		"label":{"type":"string","description":"key=value"},
		"limit":{"type":"integer","minimum":1,"maximum":` + strconv.Itoa(maxListLimit) + `},
		"cursor":{"type":"string","description":"next_cursor of the page before"}}}`)
	cancel := definition(`{"type":"object","properties":{"job_id":{"type":"string"},"reason":{"type":"string"}},"required":["job_id"]}`)
	return []*mcp.Tool{{
		Name: submitJob,
		Description: "Give a coding agent a job in a workspace of its own: a clone of repo on a new branch, or an empty folder. " +
			"Answers at once, with a task where the client takes tasks; else poll get_job until done.",
		InputSchema: submit, OutputSchema: jobSchema,
		OpenWorld: true, Budget: mcp.Accept, Scope: access.Jobs,
		Handle: c.submit(inputsOf(submitJob, submit, "environment", "model", "draft_pr", "secrets")),
	}, {
		Name: followUpJob,
		Description: "Say more to a job. Answers its oldest open question if there is one; " +
			"otherwise opens a new turn in the same workspace, after those that wait.",
		InputSchema: followUp, OutputSchema: jobSchema,
		OpenWorld: true, Budget: mcp.Accept, Scope: access.Jobs,
		Handle: c.followUp(inputsOf(followUpJob, followUp)),
	}, {
		Name:        getJob,
		Description: "A job's status, open question, result, commits and artifacts.",
		InputSchema: get, OutputSchema: jobSchema,
		ReadOnly: true, Idempotent: true, Budget: mcp.Read, Scope: access.Jobs,
		Handle: c.get(inputsOf(getJob, get)),
	}, {
		Name:        listJobs,
		Description: "Your jobs in brief, newest first.",
		InputSchema: list, OutputSchema: listSchema,
		ReadOnly: true, Idempotent: true, Budget: mcp.Read, Scope: access.Jobs,
		Handle: c.list(inputsOf(listJobs, list)),
	}, {
		Name:        cancelJob,
		Description: "End a job and its agent. What it committed so far stays.",
		InputSchema: cancel, OutputSchema: jobSchema,
		Destructive: true, Idempotent: true, Budget: mcp.Accept, Scope: access.Jobs,
		Handle: c.cancel(inputsOf(cancelJob, cancel)),
	}, c.eventsTool(), c.artifactTool(), c.infoTool()}
}

func (c *Catalogue) submitSchema() json.RawMessage {
	agents, err := mcp.Marshal(c.Agents)
	if err != nil {
		panic(err) // strings always encode
	}
	byDefault, err := mcp.Marshal("Default " + c.DefaultAgent)
	if err != nil {
		panic(err)
	}
	return definition(`{"type":"object","properties":{
		"prompt":{"type":"string","description":"What the agent is to do; for the agent shell, a script"},
		"repo":{"type":"string","description":"Folder of a git repository on the server, absolute or with ~"},
		"base_branch":{"type":"string","description":"Default: what repo has checked out"},
		"branch":{"type":"string","description":"New branch for the commits; default hangar/<job id>"},
		"agent":{"type":"string","enum":` + string(agents) + `,"description":` + string(byDefault) + `},
		"title":{"type":"string"},
		"open_pr":{"type":"boolean","description":"Default true with repo"},
		"output_schema":{"type":"object","description":"JSON Schema of the structured result"},
		"artifacts":{"type":"array","items":{"type":"string"},"description":"Globs of files to keep, relative to the workspace"},
		"env":{"type":"object","additionalProperties":{"type":"string"},"description":"For the agent; values are stored encrypted"},
		"timeout_minutes":{"type":"integer","minimum":1,"maximum":` + strconv.Itoa(maxTimeout) + `},
		"labels":{"type":"object","additionalProperties":{"type":"string"}},
		"idempotency_key":{"type":"string","description":"Repeating the call with it gives the same job"}},
		"required":["prompt"]}`)
}

func statusEnum() string {
	b, err := mcp.Marshal(job.Statuses)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(b)
}

func (c *Catalogue) get(in inputs) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		var a struct {
			JobID string `json:"job_id"`
		}
		if err := in.read(call.Arguments, &a); err != nil {
			return nil, err
		}
		id, err := checkJobID(a.JobID)
		if err != nil {
			return nil, err
		}
		s, err := c.Folds.Job(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := permit(call.Caller)(s); err != nil {
			return nil, err
		}
		return answer(JobOut(s), false)
	}
}

func (c *Catalogue) cancel(in inputs) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		var a struct {
			JobID  string `json:"job_id"`
			Reason string `json:"reason"`
		}
		if err := in.read(call.Arguments, &a); err != nil {
			return nil, err
		}
		id, err := checkJobID(a.JobID)
		if err != nil {
			return nil, err
		}
		if err := checkText("reason", a.Reason, maxReasonBytes); err != nil {
			return nil, err
		}
		r, err := c.Commands.CancelJob(ctx, origin(call.Caller, c.Commands.NewID()), id, a.Reason, permit(call.Caller))
		if err != nil {
			return nil, err
		}
		return answer(JobOut(r.Job), false)
	}
}

// page is what list_jobs answers.
type page struct {
	Jobs       []*JobView `json:"jobs"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

func (c *Catalogue) list(in inputs) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		q, err := listQuery(in, call)
		if err != nil {
			return nil, err
		}
		limit := q.Limit
		q.Limit++ // one more tells whether there is another page
		rows, err := c.Jobs.List(ctx, q)
		if err != nil {
			return nil, listError(err)
		}
		p := page{Jobs: []*JobView{}}
		if len(rows) > limit {
			rows = rows[:limit]
			p.NextCursor = cursorOf(rows[limit-1].Ordinal)
		}
		for _, row := range rows {
			s, err := c.Folds.Job(ctx, row.ID)
			if err != nil {
				return nil, err
			}
			// The table may be a moment behind; the job's own stream is not.
			if permit(call.Caller)(s) == nil && (q.Status == "" || s.Status() == q.Status) {
				p.Jobs = append(p.Jobs, brief(s))
			}
		}
		return structured(p)
	}
}

// listError keeps what a caller may know and says of the rest that it may pass.
func listError(err error) error {
	var known *domain.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return domain.Wrap(domain.Unavailable, err, "the list of jobs cannot be read now; get_job still finds a job by its id")
}

func listQuery(in inputs, call *mcp.Call) (jobs.Query, error) {
	var a struct {
		Status string   `json:"status"`
		Repo   string   `json:"repo"`
		Label  string   `json:"label"`
		Limit  *float64 `json:"limit"`
		Cursor string   `json:"cursor"`
	}
	if err := in.read(call.Arguments, &a); err != nil {
		return jobs.Query{}, err
	}
	q := jobs.Query{Owner: call.Owner, AllOfTenant: call.Scopes.Admin(), Status: job.Status(a.Status), Repo: a.Repo}
	if err := checkStatus(a.Status); err != nil {
		return q, err
	}
	if a.Label != "" {
		key, value, ok := strings.Cut(a.Label, "=")
		if !ok || !labelKey.MatchString(key) {
			return q, domain.InvalidField("label", "%q is not key=value, as in team=web", clip(a.Label, maxNameBytes))
		}
		q.LabelKey, q.LabelValue = key, value
	}
	var err error
	if q.Limit, err = whole("limit", a.Limit, defaultListLimit, 1, maxListLimit); err != nil {
		return q, err
	}
	q.Before, err = readCursor(a.Cursor)
	return q, err
}

func checkStatus(status string) error {
	if status == "" {
		return nil
	}
	names := make([]string, len(job.Statuses))
	for i, s := range job.Statuses {
		if names[i] = string(s); names[i] == status {
			return nil
		}
	}
	return domain.InvalidField("status", "%q is not a status; it is one of: %s", clip(status, maxNameBytes), strings.Join(names, ", "))
}

func cursorOf(ordinal int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("before " + strconv.FormatInt(ordinal, 10)))
}

func readCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if n, ok := strings.CutPrefix(string(b), "before "); err == nil && ok {
		if ordinal, err := strconv.ParseInt(n, 10, 64); err == nil && ordinal > 0 {
			return ordinal, nil
		}
	}
	return 0, domain.InvalidField("cursor", "it is not one that list_jobs gave; pass next_cursor as it is, or leave it out for the first page")
}

// request is the wish for a task, where the call can take one.
func (c *Catalogue) request(call *mcp.Call, argsHash domain.Digest) *turn.TaskRequest {
	if !call.Tasks {
		return nil
	}
	return c.Commands.Request(turn.TaskRequest{Owner: call.Owner, Tool: call.Tool, ArgsHash: argsHash,
		Digest: c.digests[call.Tool], Capabilities: call.Capabilities, CorrelationID: call.CorrelationID})
}

// handOut answers a call that made a job or a turn of one: with a task's handle
// where the command asked for a task and this call can take it, and the task still
// goes on; else with plain.
func (c *Catalogue) handOut(ctx context.Context, call *mcp.Call, r commands.JobResult, plain func() (mcp.Outcome, error)) (mcp.Outcome, error) {
	if r.Asked == nil || !call.Tasks {
		return plain()
	}
	t, err := c.Commands.CreateTask(ctx, r.Job, r.Asked)
	if err != nil {
		return nil, err
	}
	if r.Repeated {
		if t, err = c.Folds.Task(ctx, t.Created.Handle); err != nil {
			return nil, err
		}
		if t.Ended() || !t.Visible(c.Clock.Now()) {
			return plain()
		}
	}
	return handle(t), nil
}
