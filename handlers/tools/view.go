package tools

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

// JobView is a job as callers see it. What is not there is left out, never null;
// more may be added.
type JobView struct {
	ID     domain.JobID `json:"id"`
	Status job.Status   `json:"status"`
	// Done: nothing more happens until somebody acts.
	Done       bool              `json:"done"`
	Title      string            `json:"title,omitempty"`
	Repo       string            `json:"repo,omitempty"`
	BaseBranch string            `json:"base_branch,omitempty"`
	BaseCommit string            `json:"base_commit,omitempty"`
	Branch     string            `json:"branch,omitempty"`
	Agent      string            `json:"agent"`
	Labels     map[string]string `json:"labels,omitempty"`
	Step       *StepView         `json:"step,omitempty"`
	Turns      int               `json:"turns"`
	// Question is the oldest that waits for an answer, Questions are all of them
	// where there are several.
	Question  *QuestionView   `json:"question,omitempty"`
	Questions []QuestionView  `json:"questions,omitempty"`
	Summary   string          `json:"summary,omitempty"`
	PR        *job.PR         `json:"pr,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Artifacts []ArtifactView  `json:"artifacts,omitempty"`
	Error     *ErrorView      `json:"error,omitempty"`
	// CancelRequested: it is to end, and has not yet.
	CancelRequested bool   `json:"cancel_requested,omitempty"`
	CreatedAt       string `json:"created_at"`
	UpdatedAt       string `json:"updated_at"`
	StartedAt       string `json:"started_at,omitempty"`
	FinishedAt      string `json:"finished_at,omitempty"`
	// Turn is the one that a task was bound to.
	Turn *TurnView `json:"turn,omitempty"`
	Note string    `json:"note,omitempty"`
}

// TurnView is one turn of a job as callers see it.
type TurnView struct {
	JobID      domain.JobID    `json:"job_id"`
	Turn       int             `json:"turn"`
	Status     turn.Status     `json:"status"`
	Done       bool            `json:"done"`
	StopReason string          `json:"stop_reason,omitempty"`
	Summary    string          `json:"summary,omitempty"`
	Message    string          `json:"message,omitempty"`
	Question   *QuestionView   `json:"question,omitempty"`
	Questions  []QuestionView  `json:"questions,omitempty"`
	PR         *job.PR         `json:"pr,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Artifacts  []ArtifactView  `json:"artifacts,omitempty"`
	ExitCode   *int            `json:"exit_code,omitempty"`
	// Output says how much the agent printed and how much of it was kept.
	Output    *turn.Output `json:"output,omitempty"`
	Error     *ErrorView   `json:"error,omitempty"`
	StartedAt string       `json:"started_at,omitempty"`
	EndedAt   string       `json:"ended_at,omitempty"`
	LastEvent string       `json:"last_event,omitempty"`
	Note      string       `json:"note,omitempty"`
}

// StepView is what the control plane does for a job.
type StepView struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	At     string `json:"at"`
}

// QuestionView is a question of the agent that waits for an answer.
type QuestionView struct {
	Key     string          `json:"key"`
	Text    string          `json:"text"`
	Options []string        `json:"options,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	AskedAt string          `json:"asked_at"`
	Kind    string          `json:"kind"`
}

// ArtifactView is a file that a job left behind.
type ArtifactView struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
	MIME string `json:"mime,omitempty"`
	Size int64  `json:"size"`
}

// ErrorView says why a job or a turn failed.
type ErrorView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// titleBytes bounds the title that a job without one gets from its prompt.
const titleBytes = 80

// JobOut gives a job as callers see it.
func JobOut(s *job.State) *JobView {
	sub := &s.Submitted
	v := &JobView{
		ID: s.ID, Status: s.Status(), Done: s.Done(), Title: sub.Title,
		Repo: sub.Repo, BaseBranch: sub.BaseBranch, BaseCommit: sub.BaseCommit, Branch: sub.Branch,
		Agent: sub.Agent, Labels: sub.Labels, Turns: len(s.Turns),
		PR: s.PR, Artifacts: artifactViews(s, 0), CreatedAt: instant(s.CreatedAt), UpdatedAt: instant(s.UpdatedAt),
	}
	if v.Title == "" {
		v.Title = firstLine(sub.Prompt)
	}
	if s.Step.Name != "" {
		v.Step = &StepView{Name: s.Step.Name, Status: s.Step.Status, At: instant(s.Step.At)}
	}
	v.Question, v.Questions = questionViews(s.Open(0))
	for i := range s.Turns {
		t := &s.Turns[i]
		if v.StartedAt == "" {
			v.StartedAt = instant(t.StartedAt)
		}
		if t.End == nil {
			continue
		}
		v.Summary = t.End.Summary
		if len(t.End.Result) > 0 {
			v.Result = t.End.Result
		}
	}
	if f := s.Finished; f != nil {
		v.FinishedAt = instant(s.FinishedAt)
		if f.Status == turn.StatusFailed {
			v.Error = failure(f.Code, f.Message, exitCode(s.Turn(f.Turn)))
		} else {
			v.Note = f.Message
		}
	}
	v.CancelRequested = s.CancelRequested && !v.Status.Final()
	return v
}

// brief is a job as a list shows it: without what may be long.
func brief(s *job.State) *JobView {
	v := JobOut(s)
	v.Result, v.Artifacts, v.Questions = nil, nil, nil
	if v.PR != nil {
		pr := *v.PR
		pr.Body, pr.Commits = "", nil
		v.PR = &pr
	}
	return v
}

// TurnOut gives the n-th turn of a job as callers see it, nil where there is none.
func TurnOut(s *job.State, n int) *TurnView {
	t := s.Turn(n)
	if t == nil {
		return nil
	}
	v := &TurnView{JobID: s.ID, Turn: n, Status: s.Conversation.Status(n), StartedAt: instant(t.StartedAt),
		EndedAt: instant(t.EndedAt), LastEvent: t.Last}
	v.Done = v.Status.Final() || (v.Status == turn.StatusWaiting && !s.CancelRequested)
	v.Question, v.Questions = questionViews(s.Open(n))
	if t.End == nil {
		return v
	}
	v.StopReason, v.Summary, v.Message, v.Result = t.End.StopReason, t.End.Summary, t.End.Message, t.End.Result
	v.ExitCode, v.Output, v.Artifacts = t.End.ExitCode, t.End.Output, artifactViews(s, n)
	message := ""
	if s.Finished != nil && s.Finished.Turn == n {
		message, v.PR = s.Finished.Message, s.Finished.PR
	}
	if t.End.Status == turn.StatusFailed {
		v.Error = failure(t.End.Code, message, t.End.ExitCode)
	} else {
		v.Note = message
	}
	return v
}

func exitCode(t *turn.State) *int {
	if t == nil || t.End == nil {
		return nil
	}
	return t.End.ExitCode
}

// failures say why a turn failed where nothing closer is known.
var failures = map[string]string{
	turn.AgentExited:   "the agent ended with an error",
	turn.AgentLost:     "the agent was lost when its server or machine stopped",
	turn.AgentTimeout:  "the agent was stopped because its time was over",
	turn.AgentStart:    "the agent could not be started",
	turn.ResultMissing: "the agent gave no result, and output_schema asked for one",
	turn.Workspace:     "the workspace could not be prepared",
	turn.Collect:       "what the agent made could not be brought back",
	turn.ProtocolError: "the tool call failed",
}

func failure(code, message string, exit *int) *ErrorView {
	if message == "" && code == turn.AgentExited && exit != nil {
		message = fmt.Sprintf("the agent ended with exit code %d", *exit)
	}
	if message == "" {
		message = failures[code]
	}
	if message == "" {
		message = "the job failed"
	}
	return &ErrorView{Code: code, Message: message}
}

// instant gives a time as callers read it, "" for none.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return domain.FormatTime(t)
}

func firstLine(prompt string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	return clip(strings.TrimSpace(line), titleBytes)
}

func questionViews(open []turn.Question) (oldest *QuestionView, all []QuestionView) {
	for i := range open {
		q := &open[i]
		all = append(all, QuestionView{Key: q.Key(), Text: q.Text, Options: q.Options, Schema: q.Schema,
			AskedAt: instant(q.AskedAt), Kind: q.Kind})
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return &all[0], nil
	}
	return &all[0], all
}

// artifactViews lists the artifacts of a turn, those of all turns for 0. A name
// is one file of the job: what a later turn kept under it stands.
func artifactViews(s *job.State, n int) []ArtifactView {
	var list []ArtifactView
	at := map[string]int{}
	for i := range s.Turns {
		t := &s.Turns[i]
		if t.End == nil || (n != 0 && t.N != n) {
			continue
		}
		for _, a := range t.End.Artifacts {
			v := ArtifactView{Name: a.Name, URI: artifactURI(s.ID, a.Name), MIME: a.MIME, Size: a.Size}
			if old, again := at[a.Name]; again {
				list[old] = v
				continue
			}
			at[a.Name] = len(list)
			list = append(list, v)
		}
	}
	return list
}

func jobURI(id domain.JobID) string { return "hangar://jobs/" + string(id) }

func artifactURI(id domain.JobID, name string) string {
	return jobURI(id) + "/artifacts/" + url.PathEscape(name)
}

// answer makes the result of a tool that answers with a job: the view, the same
// as text, and links to the job and its artifacts.
func answer(v *JobView, isError bool) (*mcp.Result, error) {
	r, err := structured(v)
	if err != nil {
		return nil, err
	}
	r.IsError = isError
	r.Content = append(r.Content, &sdk.ResourceLink{URI: jobURI(v.ID), Name: string(v.ID), Title: v.Title, MIMEType: "application/json"})
	for i := range v.Artifacts {
		a := &v.Artifacts[i]
		r.Content = append(r.Content, &sdk.ResourceLink{URI: a.URI, Name: a.Name, MIMEType: a.MIME, Size: &a.Size})
	}
	return r, nil
}

// structured makes a result of anything that is a JSON object.
func structured(v any) (*mcp.Result, error) {
	b, err := mcp.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Structured: b, Content: []sdk.Content{&sdk.TextContent{Text: string(b)}}}, nil
}
