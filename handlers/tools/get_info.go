package tools

import (
	"context"
	"time"

	"hangar/commands"
	"hangar/domain/access"
	"hangar/handlers/mcp"
)

const getInfo = "get_info"

// About is what a server tells about itself, as get_info shows it.
type About struct {
	Version   string
	Protocols []string // the revisions of MCP that are served
	Providers []Provider
	Agents    []Agent
	Limits    Limits
	// ToolsHash gives the hash of the list that a caller with these scopes is
	// served; nil where nobody knows it.
	ToolsHash func(access.Scopes) string
}

// Provider is where agents run, and what stands between them and this machine.
type Provider struct {
	Name string `json:"name"`
	// Level is 0 for processes of the server's user.
	Level int `json:"level"`
	// Landlock is the version of the kernel's Landlock, 0 for none.
	Landlock int `json:"landlock_abi"`
	// Missing are protections that this kernel cannot give, Open is what agents
	// reach at this level by design.
	Missing []string `json:"missing,omitempty"`
	Open    []string `json:"open,omitempty"`
}

// Agent is one configured agent and what it can do.
type Agent struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	Capabilities []string `json:"capabilities"`
}

// Limits bound what one server does.
type Limits struct {
	Running      int           // agents at once
	Timeout      time.Duration // of a turn, where its job names none
	TaskTTL      time.Duration
	PollInterval time.Duration
}

// infoView is what get_info answers.
type infoView struct {
	Version      string     `json:"version"`
	ToolsHash    string     `json:"tools_hash,omitempty"`
	Protocols    []string   `json:"protocol_versions"`
	Providers    []Provider `json:"providers"`
	Agents       []Agent    `json:"agents"`
	DefaultAgent string     `json:"default_agent"`
	Limits       limitsView `json:"limits"`
}

type limitsView struct {
	Running           int     `json:"running"`
	TimeoutMinutes    float64 `json:"timeout_minutes"`
	MaxTimeoutMinutes int     `json:"max_timeout_minutes"`
	TaskTTLMs         int64   `json:"task_ttl_ms"`
	PollIntervalMs    int64   `json:"poll_interval_ms"`
	PromptBytes       int     `json:"prompt_bytes"`
	ToolWaitSeconds   float64 `json:"tool_wait_seconds"`
}

var infoSchema = definition(`{"type":"object","properties":{
	"version":{"type":"string"},
	"tools_hash":{"type":"string"},
	"protocol_versions":{"type":"array","items":{"type":"string"}},
	"providers":{"type":"array","items":{"type":"object","properties":{
		"name":{"type":"string"},"level":{"type":"integer"},"landlock_abi":{"type":"integer","description":"0 for none"},
		"missing":{"type":"array","items":{"type":"string"}},"open":{"type":"array","items":{"type":"string"}}},
		"required":["name","level","landlock_abi"]}},
	"agents":{"type":"array","items":{"type":"object","properties":{
		"name":{"type":"string"},"kind":{"type":"string"},"capabilities":{"type":"array","items":{"type":"string"}}},
		"required":["name","kind","capabilities"]}},
	"default_agent":{"type":"string"},
	"limits":{"type":"object","properties":{
		"running":{"type":"integer"},"timeout_minutes":{"type":"number"},"max_timeout_minutes":{"type":"integer"},
		"task_ttl_ms":{"type":"integer"},"poll_interval_ms":{"type":"integer"},
		"prompt_bytes":{"type":"integer"},"tool_wait_seconds":{"type":"number"}}}},
	"required":["version","protocol_versions","providers","agents","default_agent","limits"]}`)

func (c *Catalogue) infoTool() *mcp.Tool {
	none := definition(`{"type":"object","properties":{}}`)
	return &mcp.Tool{
		Name:        getInfo,
		Description: "This server's version, isolation, agents and limits.",
		InputSchema: none, OutputSchema: infoSchema,
		ReadOnly: true, Idempotent: true, Budget: mcp.Read, Scope: access.Jobs,
		Handle: c.info(inputsOf(getInfo, none)),
	}
}

func (c *Catalogue) info(in inputs) mcp.Handler {
	return func(_ context.Context, call *mcp.Call) (mcp.Outcome, error) {
		if err := in.read(call.Arguments, &struct{}{}); err != nil {
			return nil, err
		}
		about := &c.About
		v := infoView{
			Version: about.Version, Protocols: listed(about.Protocols), Providers: listed(about.Providers),
			Agents: listed(about.Agents), DefaultAgent: c.DefaultAgent,
			Limits: limitsView{
				Running: about.Limits.Running, TimeoutMinutes: about.Limits.Timeout.Minutes(), MaxTimeoutMinutes: maxTimeout,
				TaskTTLMs: about.Limits.TaskTTL.Milliseconds(), PollIntervalMs: about.Limits.PollInterval.Milliseconds(),
				PromptBytes: commands.MaxPromptBytes, ToolWaitSeconds: c.Wait.Seconds(),
			},
		}
		if about.ToolsHash != nil {
			v.ToolsHash = about.ToolsHash(call.Scopes)
		}
		return structured(v)
	}
}

// listed gives a list that JSON shows as one where there is nothing in it.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
