package job

import (
	"encoding/json"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/turn"
)

// The events of a job, beside those of its turns.
type (
	// Submitted: somebody asked for a job. It is the first event of the stream.
	Submitted struct {
		ArgsHash       domain.Digest     `json:"args_hash"`
		Prompt         string            `json:"prompt"`
		Title          string            `json:"title,omitempty"`
		Repo           string            `json:"repo,omitempty"`
		BaseBranch     string            `json:"base_branch,omitempty"`
		BaseCommit     string            `json:"base_commit,omitempty"`
		Branch         string            `json:"branch,omitempty"`
		Agent          string            `json:"agent"`
		OpenPR         bool              `json:"open_pr"`
		OutputSchema   json.RawMessage   `json:"output_schema,omitempty"`
		Artifacts      []string          `json:"artifacts,omitempty"` // globs within the workspace
		Env            map[string]string `json:"env,omitempty"`       // values sealed with the server's key
		TimeoutMinutes int               `json:"timeout_minutes,omitempty"`
		Labels         map[string]string `json:"labels,omitempty"`
		Task           *turn.TaskRequest `json:"task,omitempty"`
	}
	// FollowUpRequested: more was said to the job. Turn is the one it opened, or
	// the one whose question it answered.
	FollowUpRequested struct {
		Turn         int               `json:"turn"`
		Prompt       string            `json:"prompt"`
		OutputSchema json.RawMessage   `json:"output_schema,omitempty"`
		OpenPR       *bool             `json:"open_pr,omitempty"`
		Task         *turn.TaskRequest `json:"task,omitempty"`
	}
	// StepChanged: the control plane is at another step of the turn's work.
	StepChanged struct {
		Turn   int    `json:"turn"`
		Name   string `json:"name"`
		Status string `json:"status"`
	}
	// CancelRequested: somebody wants the job to end.
	CancelRequested struct {
		Reason string `json:"reason,omitempty"`
	}
	// Finished: no turn is left to run. A follow-up may begin the job again.
	Finished struct {
		Turn    int         `json:"turn"`
		Status  turn.Status `json:"status"` // completed, failed or cancelled
		Code    string      `json:"code,omitempty"`
		Message string      `json:"message,omitempty"`
		PR      *PR         `json:"pr,omitempty"`
	}
)

// PR is what a job's commits became in the user's repository.
type PR struct {
	Branch  string   `json:"branch,omitempty"`
	Base    string   `json:"base,omitempty"`
	Commits []Commit `json:"commits,omitempty"`
	Patch   string   `json:"patch,omitempty"` // the name of the artifact that holds it
	Title   string   `json:"title,omitempty"`
	Body    string   `json:"body,omitempty"`
	State   string   `json:"state"` // none, open, merged or closed
	URL     string   `json:"url,omitempty"`
	Number  int      `json:"number,omitempty"`
}

// Commit is one commit that came back.
type Commit struct {
	Hash    string `json:"hash"`
	Subject string `json:"subject"`
}

// The steps of a turn, in order.
const (
	StepPrepare = "prepare workspace"
	StepClone   = "clone"
	StepAgent   = "agent"
	StepCollect = "collect artifacts"
)

// The statuses of a step.
const (
	StepRunning = "running"
	StepDone    = "done"
	StepFailed  = "failed"
)

// EventType is "JobSubmitted".
func (Submitted) EventType() event.Type { return "JobSubmitted" }

// EventType is "JobFollowUpRequested".
func (FollowUpRequested) EventType() event.Type { return "JobFollowUpRequested" }

// EventType is "JobStepChanged".
func (StepChanged) EventType() event.Type { return "JobStepChanged" }

// EventType is "JobCancelRequested".
func (CancelRequested) EventType() event.Type { return "JobCancelRequested" }

// EventType is "JobFinished".
func (Finished) EventType() event.Type { return "JobFinished" }

func init() {
	event.Register(Submitted{}, 1)
	event.Register(FollowUpRequested{}, 1)
	event.Register(StepChanged{}, 1)
	event.Register(CancelRequested{}, 1)
	event.Register(Finished{}, 1)
}
