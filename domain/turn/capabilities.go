package turn

import "hangar/domain"

// Capabilities are the kinds of input that the request which made a task
// declared. They decide for the task's whole life what it may ask for.
type Capabilities struct {
	Form     bool `json:"form,omitempty"` // elicitation, form mode
	URL      bool `json:"url,omitempty"`  // elicitation, url mode
	Sampling bool `json:"sampling,omitempty"`
	Roots    bool `json:"roots,omitempty"`
}

// TaskRequest is the wish for a task, inside the event of the subject it was
// asked of: enough to make the task's own first event from it at any time.
type TaskRequest struct {
	N             int           `json:"n"` // ordinal of the task asked of this subject, from 1
	Owner         domain.Owner  `json:"owner"`
	Tool          string        `json:"tool"`
	ArgsHash      domain.Digest `json:"args_hash"`
	Digest        domain.Digest `json:"digest"` // of the tool's definition at the call
	Capabilities  Capabilities  `json:"capabilities"`
	TTLMs         int64         `json:"ttl_ms"`
	PollMs        int64         `json:"poll_interval_ms"`
	CorrelationID string        `json:"correlation_id,omitempty"`
}
