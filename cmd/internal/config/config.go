package config

import (
	"time"

	"hangar/domain"
)

// The defaults. Each is what a key of the file is when nobody names it.
const (
	// DefaultListen is where a server listens: this machine alone.
	DefaultListen = "127.0.0.1:7330"
	// DefaultStore keeps the log in the data folder.
	DefaultStore = StoreSQLite
	// DefaultTaskTTL is how long a task's handle is served, from its creation.
	DefaultTaskTTL = 24 * time.Hour
	// DefaultPollInterval is how often a client is asked to poll a task.
	DefaultPollInterval = 5 * time.Second
	// DefaultToolWait is how long a tool call may take: below the 230 s or so
	// after which hosted clients give up on one.
	DefaultToolWait = 150 * time.Second
	// DefaultRunning is how many agents run at once.
	DefaultRunning = 8
	// DefaultJobTimeout is how long a turn may take that does not say.
	DefaultJobTimeout = 24 * time.Hour
	// DefaultJobKeep is how long a workspace stays after its job's last end.
	DefaultJobKeep = 24 * time.Hour
	// DefaultAgentName is the agent of a job that names none.
	DefaultAgentName = "shell"
)

// The bounds of what may be set.
const (
	minDuration  = 10 * time.Millisecond // shorter is no time for anything
	maxDuration  = 10 * 365 * 24 * time.Hour
	maxToolWait  = 3600 // seconds
	maxRunning   = 1000 // agents at once
	maxFileBytes = 1 << 20
)

// StoreSQLite is the URL of the log in the data folder.
const StoreSQLite = "sqlite:"

// Config is everything that can be set.
type Config struct {
	// Data is the data folder, absolute.
	Data string
	// File is the file that was read, "" where there is none.
	File string
	// Secrets are the server's, newest first, from HANGAR_SECRET. Empty means
	// that the data folder's secret.key holds them.
	Secrets []domain.Secret

	Listen       string // host:port; port 0 takes a free one
	Store        string // a URL; StoreSQLite is the only kind in this build
	Tasks        Tasks
	MCP          MCP
	Limits       Limits
	Jobs         Jobs
	Repos        []string // folders below which a job's repository may be, absolute
	Sandbox      Sandbox
	DefaultAgent string // a key of Agents
	Agents       map[string]Agent
	Upstreams    map[string]Upstream
}

// Tasks is how long tasks are served and how often they are polled.
type Tasks struct {
	TTL          time.Duration
	PollInterval time.Duration
}

// MCP is how the MCP endpoint behaves.
type MCP struct {
	ToolWait time.Duration // whole seconds
	// StatelessHTTP is for replicas without sticky routing: no sessions.
	StatelessHTTP bool
}

// Limits bounds what happens at once.
type Limits struct {
	Running int // agents
}

// Jobs is how long a turn may take and what it leaves is kept.
type Jobs struct {
	Timeout time.Duration
	Keep    time.Duration
}

// Sandbox is what agents may see of this machine.
type Sandbox struct {
	Read []string // folders besides the system's, absolute
}

// The kinds of agent.
const (
	// KindCommand runs a program, once a turn.
	KindCommand = "command"
	// KindScripted does what its prompt says, in process, for tests.
	KindScripted = "scripted"
)

// Agent is one agent that jobs may name.
type Agent struct {
	Kind string
	Argv []string // of kind command; "{prompt_file}" stands for the prompt's file
}

// Upstream is one MCP server behind this one: a command to run, or a URL.
type Upstream struct {
	Command  []string
	URL      string
	Headers  map[string]string
	Digest   string // enforce, warn or audit
	Tools    UpstreamTools
	Pins     map[string]domain.Digest // by tool
	Approval map[string]string        // by tool: required
}

// UpstreamTools says which tools of an upstream are offered.
type UpstreamTools struct{ Allow, Deny []string }

// Default gives what holds where nothing is set, but for the data folder and the
// folders of repositories, which depend on whose machine it is.
func Default() Config {
	return Config{
		Listen:       DefaultListen,
		Store:        DefaultStore,
		Tasks:        Tasks{TTL: DefaultTaskTTL, PollInterval: DefaultPollInterval},
		MCP:          MCP{ToolWait: DefaultToolWait},
		Limits:       Limits{Running: DefaultRunning},
		Jobs:         Jobs{Timeout: DefaultJobTimeout, Keep: DefaultJobKeep},
		DefaultAgent: DefaultAgentName,
		Agents: map[string]Agent{
			DefaultAgentName: {Kind: KindCommand, Argv: []string{"bash", "{prompt_file}"}},
		},
	}
}

// defaultRepos are the folders of repositories where the file names none.
var defaultRepos = []string{"~", "/tmp"}
