package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/handlers/mcp"
)

// fixture calls a fixture tool as a wire does.
func (w *world) fixture(c mcp.Caller, tool string, a args) (mcp.Outcome, error) {
	w.t.Helper()
	return w.invoke(w.fixtures, &mcp.Call{Caller: c, Tool: tool}, a)
}

// saying gets a completed task of a fixture, and what its result says.
func (w *world) saying(c mcp.Caller, id domain.TaskID) (text string, isError bool) {
	w.t.Helper()
	settle()
	task := w.get(c, id)
	if task.Status != mcp.Completed {
		w.t.Fatalf("the task is %s: %s", task.Status, task.StatusMessage)
	}
	d := decode[done](w.t, task.Result)
	if d.ResultType != "complete" || len(d.Content) != 1 || d.Content[0]["type"] != "text" {
		w.t.Errorf("the result is %s", task.Result)
	}
	text, _ = d.Content[0]["text"].(string)
	return text, d.IsError
}

func TestFixturesAsTasks(t *testing.T) {
	yes := func(name string) args {
		return args{"action": "accept", "content": args{"name": name, "confirm": true, "unknown": "fine"}}
	}
	bubble(t, func(t *testing.T, w *world) {
		out, err := w.fixture(none, "greet", args{"name": "Ada & <co>"})
		if r, ok := out.(*mcp.Result); err != nil || !ok || text(r) != "Hello, Ada & <co>!" {
			t.Errorf("got %s, %v", show(out), err)
		}

		id := w.handle(w.fixture(none, "slow_compute", args{"seconds": 2.5, "label": "two\nlines"}))
		if task := w.get(none, id); task.Status != mcp.Working || task.StatusMessage != "computing two lines" {
			t.Errorf("got %+v", task)
		}
		time.Sleep(2500 * time.Millisecond)
		if got, isError := w.saying(none, id); got != "computed two lines" || isError {
			t.Errorf("got %q, %v", got, isError)
		}
		if got, _ := w.saying(none, w.handle(w.fixture(none, "slow_compute", args{"seconds": 0, "label": "now"}))); got != "computed now" {
			t.Errorf("got %q", got)
		}

		id = w.handle(w.fixture(none, "slow_compute", args{"seconds": 60}))
		if err := w.catalogue.Tasks().Cancel(t.Context(), none, id); err != nil {
			t.Fatal(err)
		}
		settle()
		if task := w.get(none, id); task.Status != mcp.Cancelled {
			t.Errorf("got %+v", task)
		}

		if got, isError := w.saying(none, w.handle(w.fixture(none, "failing_job", nil))); got != "this job fails" || !isError {
			t.Errorf("got %q, %v", got, isError)
		}

		id = w.handle(w.fixture(none, "protocol_error_job", nil))
		task := w.get(none, id)
		if task.Status != mcp.Failed || task.Result != nil || task.Error == nil || task.Error.Code != -32603 ||
			task.Error.Message == "" || string(task.Error.Data) != `{"reason":"tool_protocol_error"}` {
			t.Errorf("got %+v, %+v", task, task.Error)
		}

		id = w.handle(w.fixture(none, "confirm_delete", args{"filename": "a\"b.txt"}))
		task = w.get(none, id)
		if task.Status != mcp.InputRequests || len(task.InputRequests) != 1 {
			t.Fatalf("got %+v", task)
		}
		if err := w.update(none, id, map[string]any{"answer-1": yes("x"), "unknown-key": args{"ignored": true}}); err != nil {
			t.Fatal(err)
		}
		if got, _ := w.saying(none, id); got != `confirm_delete a"b.txt: {"confirm":true,"name":"x","unknown":"fine"}` {
			t.Errorf("got %q", got)
		}

		id = w.handle(w.fixture(none, "multi_input", nil))
		if task = w.get(none, id); len(task.InputRequests) != 2 {
			t.Fatalf("got %+v", task)
		}
		if err := w.update(none, id, map[string]any{"answer-2": yes("two")}); err != nil {
			t.Fatal(err)
		}
		if task = w.get(none, id); task.Status != mcp.InputRequests || len(task.InputRequests) != 1 || task.InputRequests["answer-1"].Method == "" {
			t.Fatalf("got %+v", task)
		}
		if err := w.update(none, id, map[string]any{"answer-1": yes("one")}); err != nil {
			t.Fatal(err)
		}
		if got, _ := w.saying(none, id); got != "both were answered" {
			t.Errorf("got %q", got)
		}

		id = w.handle(w.fixture(none, "confirm_delete", args{"filename": "b.txt"}))
		if err := w.update(none, id, map[string]any{"answer-1": args{"action": "decline"}}); err != nil {
			t.Fatal(err)
		}
		if got, isError := w.saying(none, id); got != "no answer to: Delete b.txt?" || isError {
			t.Errorf("got %q, %v", got, isError)
		}
	})
}

func TestAFixtureThatAsksFirst(t *testing.T) {
	const tool = "test_tool_with_task"
	bubble(t, func(t *testing.T, w *world) {
		before := w.head()
		out, err := w.fixture(none, tool, nil)
		asked, ok := out.(*mcp.InputRequired)
		if err != nil || !ok || len(asked.Requests) != 1 || asked.Requests["user_name"].Method != "elicitation/create" || w.head() != before {
			t.Fatalf("got %s, %v", show(out), err)
		}
		retry := func(c mcp.Caller, answer string) (mcp.Outcome, error) {
			return w.invoke(w.fixtures, &mcp.Call{Caller: c, Tool: tool, State: asked.State,
				InputResponses: map[string]json.RawMessage{"user_name": json.RawMessage(answer)}}, nil)
		}
		const alice = `{"action":"accept","content":{"name":"Alice"}}`
		if got, _ := w.saying(none, w.handle(retry(none, alice))); got != "Hello, Alice!" {
			t.Errorf("got %q", got)
		}
		out, err = retry(plain(none), alice)
		if r, ok := out.(*mcp.Result); err != nil || !ok || text(r) != "Hello, Alice!" {
			t.Errorf("got %s, %v", show(out), err)
		}
		out, err = retry(none, `{"action":"decline"}`)
		if r, ok := out.(*mcp.Result); err != nil || !ok || text(r) != "no name was given" {
			t.Errorf("got %s, %v", show(out), err)
		}
		out, err = retry(none, `{"action":"accept","content":"Alice"}`)
		if r, ok := out.(*mcp.Result); err != nil || !ok || !r.IsError {
			t.Errorf("got %s, %v", show(out), err)
		}
	})
}

func TestFixturesWithoutTasks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var need []string
		for _, tool := range w.catalogue.Fixtures() {
			if tool.RequiresTasks {
				need = append(need, tool.Name)
			}
		}
		if want := []string{"failing_job", "confirm_delete", "multi_input"}; !slices.Equal(need, want) {
			t.Errorf("tasks are required by %v, want %v", need, want)
		}

		began := time.Now()
		out, err := w.fixture(plain(none), "slow_compute", args{"seconds": 3, "label": "x"})
		if r, ok := out.(*mcp.Result); err != nil || !ok || r.IsError || text(r) != "computed x" || time.Since(began) != 3*time.Second {
			t.Errorf("after %s got %s, %v", time.Since(began), show(out), err)
		}

		began = time.Now()
		out, err = w.fixture(plain(none), "slow_compute", args{"seconds": 3000})
		r, ok := out.(*mcp.Result)
		if err != nil || !ok || time.Since(began) != 150*time.Second {
			t.Fatalf("after %s got %s, %v", time.Since(began), show(out), err)
		}
		contain(t, text(r), "not done yet")

		if out, err = w.fixture(plain(none), "protocol_error_job", nil); err == nil {
			t.Errorf("got %s", show(out))
		}
		out, err = w.fixture(plain(none), "slow_compute", args{"seconds": 4000})
		if r, ok := out.(*mcp.Result); err != nil || !ok || !r.IsError {
			t.Errorf("got %s, %v", show(out), err)
		}
	})
}

// A caller that hangs up ends its wait, not the work.
func TestHangingUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := w.fixtures.Invoke(ctx, slog.New(slog.DiscardHandler), &mcp.Call{Caller: plain(none), Tool: "slow_compute", Arguments: json.RawMessage(`{"seconds":10}`)})
			ended <- err
		}()
		settle()
		cancel()
		if err := <-ended; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		records, err := w.store.ReadAll(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(records, func(r domain.Record) bool { return r.Type == "JobSubmitted" })
		time.Sleep(10 * time.Second)
		settle()
		if s := must(w.folds.Job(t.Context(), domain.JobID(records[i].Stream))); s.Status() != job.Completed {
			t.Errorf("the job is %s", s.Status())
		}
	})
}
