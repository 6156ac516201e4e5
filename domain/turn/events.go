package turn

import (
	"encoding/json"

	"hangar/domain/event"
)

// The events of a conversation, in each stream that holds one.
type (
	// Queued: a turn waits for its agent.
	Queued struct {
		Turn int `json:"turn"`
	}
	// Started: the agent of a turn runs. BootID is its supervisor's.
	Started struct {
		Turn   int    `json:"turn"`
		Agent  string `json:"agent"`
		BootID string `json:"boot_id"`
	}
	// Progressed: the agent said how far it is.
	Progressed struct {
		Turn int    `json:"turn"`
		Text string `json:"text"`
	}
	// Asked: the agent asks. N counts questions within the conversation, from 1,
	// and is never used again.
	Asked struct {
		Turn    int             `json:"turn"`
		N       int             `json:"n"`
		Text    string          `json:"text"`
		Options []string        `json:"options,omitempty"`
		Schema  json.RawMessage `json:"schema,omitempty"` // where it is not a plain answer
		Kind    string          `json:"kind"`             // question or permission
	}
	// Answered: somebody answered. Answer is a JSON string, or an object where the
	// question brought a schema. Via is the path it came by.
	Answered struct {
		Turn   int             `json:"turn"`
		N      int             `json:"n"`
		Answer json.RawMessage `json:"answer"`
		Via    string          `json:"via"`
	}
	// Withdrawn: nobody waits for the answer any more.
	Withdrawn struct {
		Turn   int    `json:"turn"`
		N      int    `json:"n"`
		Reason string `json:"reason"`
	}
	// Ended: the turn is over, with what came of it.
	Ended struct {
		Turn       int             `json:"turn"`
		Status     Status          `json:"status"` // completed, failed or cancelled
		Code       string          `json:"code,omitempty"`
		ExitCode   *int            `json:"exit_code,omitempty"`
		StopReason string          `json:"stop_reason,omitempty"`
		Summary    string          `json:"summary,omitempty"`
		Message    string          `json:"message,omitempty"`
		Result     json.RawMessage `json:"result,omitempty"`
		Artifacts  []Artifact      `json:"artifacts,omitempty"`
		Output     *Output         `json:"output,omitempty"`
	}
)

// The paths an answer may come by.
const (
	ViaTask     = "task"      // tasks/update
	ViaFollowUp = "follow_up" // the prompt of a follow-up
	ViaCLI      = "cli"
	ViaREST     = "rest"
)

// The kinds of question.
const (
	KindQuestion   = "question"
	KindPermission = "permission"
)

// EventType is "TurnQueued".
func (Queued) EventType() event.Type { return "TurnQueued" }

// EventType is "TurnStarted".
func (Started) EventType() event.Type { return "TurnStarted" }

// EventType is "TurnProgressed".
func (Progressed) EventType() event.Type { return "TurnProgressed" }

// EventType is "QuestionAsked".
func (Asked) EventType() event.Type { return "QuestionAsked" }

// EventType is "QuestionAnswered".
func (Answered) EventType() event.Type { return "QuestionAnswered" }

// EventType is "QuestionWithdrawn".
func (Withdrawn) EventType() event.Type { return "QuestionWithdrawn" }

// EventType is "TurnEnded".
func (Ended) EventType() event.Type { return "TurnEnded" }

func init() {
	event.Register(Queued{}, 1)
	event.Register(Started{}, 1)
	event.Register(Progressed{}, 1)
	event.Register(Asked{}, 1)
	event.Register(Answered{}, 1)
	event.Register(Withdrawn{}, 1)
	event.Register(Ended{}, 1)
}
