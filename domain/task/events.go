package task

import (
	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/turn"
)

// The events of a task.
type (
	// Created: a task was registered, before its handle left. It is the first
	// event of the stream.
	Created struct {
		Handle          domain.TaskID     `json:"handle"`
		Target          string            `json:"target"`
		TargetTaskID    string            `json:"target_task_id"`
		TargetCreatedAt string            `json:"target_created_at,omitempty"`
		Generation      int               `json:"generation"`
		Owner           domain.Owner      `json:"owner"`
		Tool            string            `json:"tool"`
		ArgsHash        domain.Digest     `json:"args_hash,omitempty"`
		Digest          domain.Digest     `json:"digest,omitempty"`
		Capabilities    turn.Capabilities `json:"capabilities"`
		TTLMs           int64             `json:"ttl_ms"`
		PollIntervalMs  int64             `json:"poll_interval_ms"`
	}
	// ConsentDecided: a question of the task was agreed to, or not.
	ConsentDecided struct {
		Key        string        `json:"key"`
		Granted    bool          `json:"granted"`
		Action     string        `json:"action,omitempty"` // accept, decline or cancel, as the client said
		AnswerHash domain.Digest `json:"answer_hash,omitempty"`
		Reason     string        `json:"reason,omitempty"`
		Via        string        `json:"via,omitempty"`
	}
	// CancelRequested: the client wants the task to end.
	CancelRequested struct {
		Reason string `json:"reason,omitempty"`
	}
	// Completed: the task is over. Its result is the subject as it was at a
	// revision, which the hash pins.
	Completed struct {
		Subject     string        `json:"subject"`
		AtRevision  int64         `json:"at_revision"`
		SubjectHash domain.Digest `json:"subject_hash"`
		IsError     bool          `json:"is_error"`
	}
	// Failed: the task ended by a fault of the protocol or of governance.
	Failed struct {
		Code    int    `json:"code"` // JSON-RPC
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	// Cancelled: the subject was seen cancelled.
	Cancelled struct {
		ObservedAt string `json:"observed_at"`
	}
	// Expired: the handle is no longer served; the subject goes on.
	Expired struct {
		Deadline string `json:"deadline"`
	}
)

// The actions of an answer (MCP, ElicitResult).
const (
	Accept  = "accept"
	Decline = "decline"
	Dismiss = "cancel" // the person closed the question
)

// ReasonNoElicitation: the request that made the task cannot be asked.
const ReasonNoElicitation = "elicitation was not declared by the request that created the task"

// EventType is "TaskCreated".
func (Created) EventType() event.Type { return "TaskCreated" }

// EventType is "TaskConsentDecided".
func (ConsentDecided) EventType() event.Type { return "TaskConsentDecided" }

// EventType is "TaskCancelRequested".
func (CancelRequested) EventType() event.Type { return "TaskCancelRequested" }

// EventType is "TaskCompleted".
func (Completed) EventType() event.Type { return "TaskCompleted" }

// EventType is "TaskFailed".
func (Failed) EventType() event.Type { return "TaskFailed" }

// EventType is "TaskCancelled".
func (Cancelled) EventType() event.Type { return "TaskCancelled" }

// EventType is "TaskExpired".
func (Expired) EventType() event.Type { return "TaskExpired" }

func init() {
	event.Register(Created{}, 1)
	event.Register(ConsentDecided{}, 1)
	event.Register(CancelRequested{}, 1)
	event.Register(Completed{}, 1)
	event.Register(Failed{}, 1)
	event.Register(Cancelled{}, 1)
	event.Register(Expired{}, 1)
}
