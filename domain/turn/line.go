package turn

import (
	"encoding/json"
	"time"

	"hangar/domain"
)

// Kind says what a journal line reports.
type Kind string

// The kinds of lines, in the order of an agent's life.
const (
	LineStarted  Kind = "started"  // the agent process runs; nobody may start it again
	LineStep     Kind = "step"     // a line of progress, coalesced to one a second
	LineAsked    Kind = "asked"    // a question; Ask counts them within the turn, from 1
	LineAnswered Kind = "answered" // the answer to Ask reached the agent: the proof of delivery
	LineResult   Kind = "result"   // the structured result, already checked against the schema
	LineArtifact Kind = "artifact" // a file of the workspace the agent wants kept
	LinePR       Kind = "pr"       // title and body for a pull request
	LineExited   Kind = "exited"   // the last line: the agent and all its descendants are gone
)

// Line is one numbered line of a turn's journal: what the agent did, as the
// supervisor that outlives the server wrote it down. Lines are read back in
// order and become events; (BootID, N) is the command id, so that each is
// recorded once. Fields not meant by Kind are empty.
type Line struct {
	N      int    `json:"n"`       // from 1, no holes
	BootID string `json:"boot_id"` // of the supervisor that wrote it
	Kind   Kind   `json:"kind"`
	Time   string `json:"time"` // RFC 3339, UTC, six decimals

	Text    string          `json:"text,omitempty"`    // step: the text; asked: the question; pr: the body
	Ask     int             `json:"ask,omitempty"`     // asked, answered: ordinal within the turn, from 1
	Options []string        `json:"options,omitempty"` // asked
	Schema  json.RawMessage `json:"schema,omitempty"`  // asked: the form it wants, where it is not a plain answer
	Result  json.RawMessage `json:"result,omitempty"`  // result
	Name    string          `json:"name,omitempty"`    // artifact
	Path    string          `json:"path,omitempty"`    // artifact: within the workspace, slash-separated, relative
	Title   string          `json:"title,omitempty"`   // pr
	Exit    *Exit           `json:"exit,omitempty"`    // exited
}

// Exit is how an agent ended.
type Exit struct {
	// Reason is completed, failed, cancelled (stopped by us on request) or
	// timeout (its lease ended).
	Reason   string `json:"reason"`
	ExitCode int    `json:"exit_code"`        // -1 when a signal ended it
	Signal   string `json:"signal,omitempty"` // its name, as in SIGKILL
	// Code and Message say why it failed, where the agent's exit code does not:
	// one of the codes of this package.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"` // last 4 KiB of output, made safe to show
	Summary string `json:"summary,omitempty"` // the last step, else the last line of output
	Output  Output `json:"output"`
}

// The reasons of an exit.
const (
	ExitCompleted = "completed"
	ExitFailed    = "failed"
	ExitCancelled = "cancelled"
	ExitTimeout   = "timeout"
)

// Output describes the file that holds what an agent printed.
type Output struct {
	Bytes  int64         `json:"bytes"` // printed in all
	Kept   int64         `json:"kept"`  // in the file; less than Bytes when the middle was dropped
	SHA256 domain.Digest `json:"sha256,omitempty"`
}

// Bounds on what one turn may write down. What is dropped is said.
const (
	StepInterval     = time.Second      // steps are coalesced to one in this time, latest wins
	MaxSteps         = 2000             // after so many, one in SlowStepInterval
	SlowStepInterval = 10 * time.Second //
	MaxQuestions     = 32               // questions a turn
	MaxOutputBytes   = 64 << 20         // output kept a turn: half of it head, half tail
	MaxTextBytes     = 16 << 10         // one step or one question
	MaxMessageBytes  = 4 << 10          // tail of output in TurnEnded
)

// Codes of a turn that failed.
const (
	AgentExited   = "agent_exited"        // its exit code was not 0
	AgentLost     = "agent_lost"          // it is gone and left no last line
	AgentTimeout  = "agent_timeout"       // its lease ended
	AgentStart    = "agent_start"         // it could not be started
	ResultMissing = "result_missing"      // an output schema was asked for and no result came
	Workspace     = "workspace"           // the workspace could not be prepared
	Collect       = "collect"             // what it made could not be brought back
	ProtocolError = "tool_protocol_error" // the call itself failed, not its work: a task shows failed
)

// Assignment is everything an agent needs to begin a turn.
type Assignment struct {
	Turn  domain.TurnID
	Agent string // the configured agent's name
	// Prompt is the turn's prompt.
	Prompt string
	// Env is the job's own environment, in clear. It reaches the agent alone.
	Env map[string]string
	// Deadline is when the lease ends.
	Deadline time.Time
	// OutputSchema is the JSON schema of the structured result, empty for none.
	OutputSchema json.RawMessage
	Workspace    Folders
}

// Folders are the parts of a job's workspace: absolute paths on this machine.
// Only what is below Root belongs to the agent.
type Folders struct {
	Root string `json:"root"`
	Repo string `json:"repo"` // the clone, and the agent's working directory
	Home string `json:"home"`
	Tmp  string `json:"tmp"`
	Bin  string `json:"bin"` // first in the agent's PATH
}

// Artifact is a file that was kept.
type Artifact struct {
	Name   string        `json:"name"` // unique in the job
	Size   int64         `json:"size"`
	SHA256 domain.Digest `json:"sha256"`
	MIME   string        `json:"mime,omitempty"`
}

// Process is how a supervised agent is run: what a runner of kind command makes
// of an Assignment, and all that a supervisor is told. It travels on a pipe,
// never on a command line.
type Process struct {
	Turn         domain.TurnID     `json:"turn"`
	Argv         []string          `json:"argv"` // "{prompt_file}" stands for the file that holds Prompt
	Prompt       string            `json:"prompt"`
	Env          map[string]string `json:"env,omitempty"` // added to the fixed list
	Deadline     time.Time         `json:"deadline"`
	OutputSchema json.RawMessage   `json:"output_schema,omitempty"`
	Workspace    Folders           `json:"workspace"`
}

var (
	// ErrLost: the agent of this turn is gone and left no last line.
	ErrLost = domain.Errorf(domain.NotFound, "the agent is gone and left no last line")
	// ErrUnknownTurn: no agent was ever started for this turn.
	ErrUnknownTurn = domain.Errorf(domain.NotFound, "no agent was started for this turn")
)
