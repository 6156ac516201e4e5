// Package tools is the catalogue: the tools that a client of Hangar's own control
// plane sees, a file for each group, and what stands behind their tasks and
// resources. A tool checks what it is given, records what is wanted by a command,
// and answers from the state that the command left; it never does the work.
package tools

import (
	"context"
	"io"
	"time"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/tool"
	"hangar/handlers/mcp"
	"hangar/projections"
	"hangar/projections/jobs"
)

// Records reads the log, stream by stream.
type Records interface {
	ReadStream(ctx context.Context, stream domain.Stream, from int64, limit int) ([]domain.Record, error)
}

// JobList is the table of jobs; *jobs.Table is one.
type JobList interface {
	// List gives at most q.Limit jobs, newest first.
	List(ctx context.Context, q jobs.Query) ([]jobs.Listed, error)
}

// Repos looks at the repositories that jobs are to work in.
type Repos interface {
	// CheckRepo says whether a job may work in the repository, from base ("" for
	// where it stands) on a branch that must not exist yet. A *domain.Error names
	// the argument (repo, base_branch or branch) and what would be right.
	CheckRepo(ctx context.Context, repo, base, branch string) (job.Checkout, error)
}

// Artifacts are the files that jobs left behind.
type Artifacts interface {
	// Open gives an artifact's contents; NotFound when they are gone.
	Open(ctx context.Context, id domain.JobID, name string) (io.ReadCloser, error)
}

// Denials hears of callers that asked for a task which is not theirs, has expired
// or never was. Denied is called within a request and returns at once: whatever
// is written down about it is written off the request's path.
type Denials interface {
	Denied(caller mcp.Caller, method string, id domain.TaskID)
}

// Deps are what the catalogue stands on.
type Deps struct {
	Commands  *commands.Commands
	Folds     *projections.Folds
	Records   Records
	Jobs      JobList
	Repos     Repos
	Artifacts Artifacts
	Denials   Denials // nil for nobody
	Clock     domain.Clock
	// Secret is the server's newest: what is secret among a call's arguments is
	// hashed under a key of it.
	Secret domain.Secret
	// Agents are the names of the configured agents, DefaultAgent one of them.
	Agents       []string
	DefaultAgent string
	// Wait is how long a call may wait for work to finish
	// (HANGAR_MCP_TOOL_WAIT_SECONDS).
	Wait time.Duration
	// About is what get_info tells besides.
	About About
}

// Catalogue is the tools of the control plane with what stands behind them.
type Catalogue struct {
	Deps
	argumentKey []byte
	jobs        []*mcp.Tool
	fixtures    []*mcp.Tool
	digests     map[string]domain.Digest
	ledger      *Ledger
	resources   *Resources
}

// New makes the catalogue. A definition that is not JSON is a fault of the
// program and panics.
func New(d Deps) *Catalogue {
	c := &Catalogue{Deps: d, argumentKey: d.Secret.Key(domain.ForArguments), digests: map[string]domain.Digest{}}
	c.jobs = c.jobTools()
	c.fixtures = c.fixtureTools()
	c.ledger = newLedger(d)
	c.resources = &Resources{folds: d.Folds, artifacts: d.Artifacts}
	for _, t := range c.jobs {
		c.enter(t, renderJob)
	}
	for _, t := range c.fixtures {
		c.enter(t, renderText)
	}
	return c
}

// enter makes a tool known to the ledger, with how its task's result is rendered.
func (c *Catalogue) enter(t *mcp.Tool, r renderer) {
	digest, err := tool.Definition{Name: t.Name, Description: t.Description,
		InputSchema: t.InputSchema, OutputSchema: t.OutputSchema}.Digest()
	if err != nil {
		panic(err) // the schemas are constants
	}
	c.digests[t.Name] = digest
	c.ledger.kinds[t.Name] = taskKind{scope: t.Scope, render: r}
}

// Tools lists the tools of the control plane, in the order they are shown.
func (c *Catalogue) Tools() []*mcp.Tool { return c.jobs }

// Fixtures lists the tools that the conformance suite calls, for a server that
// has no others.
func (c *Catalogue) Fixtures() []*mcp.Tool { return c.fixtures }

// Tasks gives the ledger of the control plane's tasks.
func (c *Catalogue) Tasks() *Ledger { return c.ledger }

// Resources gives what resources/read can read.
func (c *Catalogue) Resources() *Resources { return c.resources }

// reaches is the one judge of who may touch what an owner has: the owner itself,
// and an administrator of the owner's tenant. An unattributed caller reaches only
// what is unattributed, and nobody else reaches that.
func reaches(c mcp.Caller, o domain.Owner) bool {
	if c.Owner == o {
		return true
	}
	return c.Scopes.Admin() && c.Owner.Tenant != "" && c.Owner.Tenant == o.Tenant
}

// permit asks whether a caller may touch a job. A job that is not there and one
// that is another's look the same.
func permit(c mcp.Caller) func(*job.State) error {
	return func(s *job.State) error {
		if !s.Exists() || !reaches(c, s.Owner) {
			return job.Unknown()
		}
		return nil
	}
}

// origin says who wants what a call asks for, under the command id given.
func origin(c mcp.Caller, id domain.CommandID) commands.Origin {
	return commands.Origin{Owner: c.Owner, ID: id, CorrelationID: c.CorrelationID, Traceparent: c.Traceparent}
}

// commandID gives the id of what a call asks for: derived from the caller's
// idempotency key, so that a repeat has it again, else a new one.
func (c *Catalogue) commandID(call *mcp.Call, key string) domain.CommandID {
	if key == "" {
		return c.Commands.NewID()
	}
	return domain.DerivedCommand(string(call.Owner.Tenant), string(call.Owner.Principal), call.Tool, key)
}
