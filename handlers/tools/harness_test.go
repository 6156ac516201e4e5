package tools_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/redact"
	"hangar/domain/turn"
	"hangar/eventstore"
	"hangar/eventstore/memory"
	"hangar/handlers/agent/scripted"
	"hangar/handlers/mcp"
	"hangar/handlers/react"
	"hangar/handlers/tools"
	"hangar/migrations"
	"hangar/projections"
	"hangar/projections/jobs"
	"hangar/projections/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The callers of the tests.
var (
	ann  = caller("default", "ann", access.Default)
	bob  = caller("default", "bob", access.Default)
	root = caller("default", "admin", access.Scopes{access.Admin})
	eve  = caller("other", "ann", access.Scopes{access.Admin})
	none = caller("", "", access.Scopes{access.Admin})
)

func caller(tenant domain.Tenant, principal domain.Principal, scopes access.Scopes) mcp.Caller {
	return mcp.Caller{Owner: domain.Owner{Tenant: tenant, Principal: principal}, Scopes: scopes,
		Tasks: true, Capabilities: turn.Capabilities{Form: true}, CorrelationID: "correlation"}
}

// plain is a caller whose request declared nothing.
func plain(c mcp.Caller) mcp.Caller {
	c.Tasks, c.Capabilities = false, turn.Capabilities{}
	return c
}

// mute is a caller that takes tasks and cannot be asked.
func mute(c mcp.Caller) mcp.Caller { c.Capabilities = turn.Capabilities{}; return c }

// world is a control plane without wires, in one synctest bubble: the catalogue
// on a log, with keepers that run the scripted agent.
type world struct {
	t         *testing.T
	store     *flaky
	folds     *projections.Folds
	commands  *commands.Commands
	catalogue *tools.Catalogue
	registry  *mcp.Registry
	fixtures  *mcp.Registry
	repos     repos
	denials   denials
	files     files
	kept      []turn.Artifact // what every turn leaves behind
	views     string
	runners   []*projections.Runner
	stop      func()
}

// flaky is a log whose appends to some streams can be made to fail.
type flaky struct {
	*memory.Store
	refused atomic.Value // a category, "" for none
}

func (f *flaky) refuse(category string) { f.refused.Store(category) }

func (f *flaky) Append(ctx context.Context, s eventstore.Stream, h eventstore.Head, d ...eventstore.Draft) ([]eventstore.Record, error) {
	if c, _ := f.refused.Load().(string); c != "" && s.Category() == c {
		return nil, eventstore.ErrRefused
	}
	return f.Store.Append(ctx, s, h, d...)
}

// bubble runs a test in a world of its own.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: &flaky{Store: memory.Open(memory.Options{})}, repos: repos{branches: map[string]bool{}},
			files: files{}, views: filepath.Join(t.TempDir(), "views.db")}
		w.start()
		defer func() { w.stop() }()
		f(t, w)
	})
}

// start is a server's start on the world's log.
func (w *world) start() {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	var folds *projections.Folds
	w.store.Store = w.store.Reopen(memory.Options{Observer: func(r []domain.Record) { folds.Observe(r) }})
	folds = projections.NewFolds(w.store, projections.FoldBytes)
	w.folds = folds
	secret := domain.NewSecret([32]byte{1})
	w.commands = commands.New(w.store, domain.SystemClock{}, rand.Reader, secret,
		redact.New(secret, map[string]string{"deploy key": "s3cr3t-d3pl0y"}),
		commands.Settings{TaskTTL: 24 * time.Hour, PollInterval: 5 * time.Second})
	agents := scripted.New(string(w.commands.NewID()), domain.SystemClock{})
	db, err := projections.OpenViews(w.t.Context(), w.views, func(ctx context.Context, db *sql.DB) error {
		return migrations.Up(ctx, db, migrations.ViewFiles, migrations.Views)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var running sync.WaitGroup
	w.runners = []*projections.Runner{
		projections.NewRunner(jobs.NewView(), w.store, db, log, nil),
		projections.NewRunner(tasks.NewView(), w.store, db, log, nil),
	}
	for _, r := range w.runners {
		running.Go(func() { r.Run(ctx) })
	}
	reactions := react.New(react.Deps{Store: w.store, Commands: w.commands, Folds: folds, Jobs: jobs.NewTable(db), Tasks: tasks.NewTable(db),
		Agents: agentOf{agents}, Workspaces: places{w}, Repositories: places{w},
		Limits: react.Limits{Running: 8, Timeout: 24 * time.Hour, Keep: 24 * time.Hour}, Clock: domain.SystemClock{}, Log: log, CaughtUp: w.catchUp})
	running.Go(func() {
		if err := reactions.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.catalogue = tools.New(tools.Deps{Commands: w.commands, Folds: folds, Records: w.store, Jobs: jobs.NewTable(db), Repos: &w.repos,
		Artifacts: w.files, Denials: &w.denials, Clock: domain.SystemClock{}, Secret: secret,
		Agents: []string{"scripted", "shell"}, DefaultAgent: "scripted", Wait: 150 * time.Second, About: w.about()})
	w.registry = mcp.NewRegistry(w.catalogue.Tools()...)
	w.fixtures = mcp.NewRegistry(w.catalogue.Fixtures()...)
	synctest.Wait() // from here on the reactions see what happens
	w.stop = func() {
		cancel()
		running.Wait()
		agents.Close()
		db.Close()
	}
}

func (w *world) restart() { w.stop(); w.start() }

// settle waits until nothing is left to do but to wait for the clock, and lets a
// moment pass for those that lost a race and try again.
func settle() {
	for range 3 {
		synctest.Wait()
		time.Sleep(20 * time.Millisecond)
	}
	synctest.Wait()
}

// caughtUp waits until the lists show what has happened.
func (w *world) caughtUp() {
	w.t.Helper()
	settle()
	if err := w.catchUp(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) catchUp(ctx context.Context) error {
	head, err := w.store.Head(ctx)
	for _, r := range w.runners {
		err = errors.Join(err, r.CatchUp(ctx, head))
	}
	return err
}

// args are a call's arguments.
type args map[string]any

// call calls a tool as a wire does, and checks what it answers with against the
// tool's output schema.
func (w *world) call(c mcp.Caller, tool string, a args) (mcp.Outcome, error) {
	w.t.Helper()
	return w.invoke(w.registry, &mcp.Call{Caller: c, Tool: tool}, a)
}

func (w *world) invoke(r *mcp.Registry, call *mcp.Call, a args) (mcp.Outcome, error) {
	w.t.Helper()
	if a == nil {
		a = args{}
	}
	raw, err := json.Marshal(a)
	if err != nil {
		w.t.Fatal(err)
	}
	call.Arguments = raw
	out, err := r.Invoke(w.t.Context(), slog.New(slog.DiscardHandler), call)
	if result, ok := out.(*mcp.Result); ok {
		tool, _ := r.Lookup(call.Tool, access.Scopes{access.Admin})
		checkOutput(w.t, tool, result.Structured, result.IsError)
		if len(result.Structured) > 0 && text(result) != string(result.Structured) {
			w.t.Errorf("%s: the text is not the structured content", call.Tool)
		}
	}
	return out, err
}

// checkOutput checks a result against a tool's output schema.
func checkOutput(t *testing.T, tool *mcp.Tool, structured json.RawMessage, isError bool) {
	t.Helper()
	if len(structured) == 0 {
		if len(tool.OutputSchema) > 0 && !isError {
			t.Errorf("%s: no structured content", tool.Name)
		}
		return
	}
	validate(t, tool.OutputSchema, structured)
}

func validate(t *testing.T, schema, value json.RawMessage) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:output", doc); err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.MustCompile("urn:output").Validate(v); err != nil {
		t.Errorf("%s: %v", value, err)
	}
}

// view calls a tool that answers with a job.
func (w *world) view(c mcp.Caller, tool string, a args) tools.JobView {
	w.t.Helper()
	out, err := w.call(c, tool, a)
	if err != nil {
		w.t.Fatalf("%s: %v", tool, err)
	}
	r, ok := out.(*mcp.Result)
	if !ok || len(r.Structured) == 0 {
		w.t.Fatalf("%s answered with %#v", tool, out)
	}
	return decode[tools.JobView](w.t, r.Structured)
}

// task calls a tool that answers with a task's handle, and lets the keepers work.
func (w *world) task(c mcp.Caller, tool string, a args) domain.TaskID {
	w.t.Helper()
	return w.handle(w.call(c, tool, a))
}

func (w *world) handle(out mcp.Outcome, err error) domain.TaskID {
	w.t.Helper()
	h, ok := out.(*mcp.Task)
	if err != nil || !ok {
		w.t.Fatalf("answered with %s, %v", show(out), err)
	}
	if h.Status != mcp.Working || h.Result != nil || h.Error != nil || h.InputRequests != nil {
		w.t.Errorf("the handle is %+v", h)
	}
	settle()
	return h.ID
}

// refused calls a tool that is to refuse, and gives why; nothing may be recorded.
func (w *world) refused(c mcp.Caller, tool string, a args) string {
	w.t.Helper()
	before := w.head()
	out, err := w.call(c, tool, a)
	if err != nil {
		w.t.Fatalf("%s: %v", tool, err)
	}
	r, ok := out.(*mcp.Result)
	if !ok || !r.IsError || len(r.Structured) > 0 {
		w.t.Fatalf("%s answered with %s", tool, show(out))
	}
	if w.head() != before {
		w.t.Errorf("%s recorded something and was refused: %s", tool, text(r))
	}
	return text(r)
}

func (w *world) head() domain.Position {
	w.t.Helper()
	p, err := w.store.Head(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// get gives a task as tasks/get does.
func (w *world) get(c mcp.Caller, id domain.TaskID) *mcp.Task {
	w.t.Helper()
	task, err := w.catalogue.Tasks().Get(w.t.Context(), c, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

// status waits for the keepers and wants a task to be at a status.
func (w *world) status(id domain.TaskID, want mcp.Status) *mcp.Task {
	w.t.Helper()
	settle()
	task := w.get(ann, id)
	if task.Status != want {
		w.t.Fatalf("the task is %s (%s), want %s", task.Status, task.StatusMessage, want)
	}
	return task
}

func (w *world) update(c mcp.Caller, id domain.TaskID, responses map[string]any) error {
	w.t.Helper()
	raw := map[string]json.RawMessage{}
	for key, r := range responses {
		b, err := json.Marshal(r)
		if err != nil {
			w.t.Fatal(err)
		}
		raw[key] = b
	}
	return w.catalogue.Tasks().Update(w.t.Context(), c, id, raw)
}

// answered updates and wants the ack.
func (w *world) answered(id domain.TaskID, responses map[string]any) {
	w.t.Helper()
	if err := w.update(ann, id, responses); err != nil {
		w.t.Fatal(err)
	}
}

func accept(answer string) map[string]any {
	return map[string]any{"action": "accept", "content": map[string]any{"answer": answer}}
}

// events are the types of a stream's records.
func (w *world) events(stream string) []string {
	w.t.Helper()
	records, err := w.store.ReadStream(w.t.Context(), domain.Stream(stream), 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	var types []string
	for _, r := range records {
		types = append(types, r.Type)
	}
	return types
}

func count(list []string, want string) int {
	n := 0
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// jobOf gives the job of a task.
func (w *world) jobOf(task *mcp.Task) domain.JobID {
	w.t.Helper()
	id, ok := task.Meta[tools.MetaJob].(string)
	if !ok {
		w.t.Fatalf("the task's _meta is %v", task.Meta)
	}
	return domain.JobID(id)
}

// done is the result in a completed task.
type done struct {
	ResultType string           `json:"resultType"`
	Content    []map[string]any `json:"content"`
	Structured json.RawMessage  `json:"structuredContent"`
	IsError    bool             `json:"isError"`
}

// result reads the result of a completed task, and checks it against the output
// schema of the tool.
func (w *world) result(tool string, task *mcp.Task) (done, tools.JobView) {
	w.t.Helper()
	d := decode[done](w.t, task.Result)
	if d.ResultType != "complete" {
		w.t.Errorf("the result has resultType %q", d.ResultType)
	}
	entry, ok := w.registry.Lookup(tool, access.Scopes{access.Admin})
	if !ok {
		return d, tools.JobView{}
	}
	validate(w.t, entry.OutputSchema, d.Structured)
	return d, decode[tools.JobView](w.t, d.Structured)
}

func decode[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func text(r *mcp.Result) string {
	if len(r.Content) == 0 {
		return ""
	}
	if c, ok := r.Content[0].(*sdk.TextContent); ok {
		return c.Text
	}
	return ""
}

func show(out mcp.Outcome) string {
	if r, ok := out.(*mcp.Result); ok {
		return "the result " + text(r)
	}
	b, _ := json.Marshal(out)
	return string(b)
}

// unknown wants the one error for a task that is not the caller's.
func unknown(t *testing.T, err error) {
	t.Helper()
	var e *domain.Error
	if !errors.As(err, &e) || e.Code != domain.NotFound || e.Message != "unknown task" || e.Field != "" {
		t.Errorf("got %v, want unknown task", err)
	}
}

// contain wants a text to hold each of some others.
func contain(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(got, s) {
			t.Errorf("got %q, want %q in it", got, s)
		}
	}
}
