package tools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

func TestTheLifeOfATask(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		began := domain.FormatTime(time.Now())
		w.kept = []turn.Artifact{{Name: "notes & more.md", Size: 5, MIME: "text/markdown"}}
		id := w.task(ann, "submit_job", args{"prompt": "step reading\nwork 1s\nask Red or blue? | red | blue\nsay took {answer}\nresult {\"ok\":true}", "repo": "/src/app"})

		got := w.status(id, mcp.Working)
		if got.CreatedAt != began || got.StatusMessage != "reading" || got.TTLMs == nil || *got.TTLMs != 86_400_000 || got.PollIntervalMs != 5000 {
			t.Errorf("got %+v", got)
		}
		jobID := w.jobOf(got)
		time.Sleep(time.Second)

		got = w.status(id, mcp.InputRequests)
		request := got.InputRequests["answer-1"]
		if len(got.InputRequests) != 1 || request.Method != "elicitation/create" || got.Result != nil {
			t.Fatalf("got %+v", got)
		}
		want := `{"mode":"form","message":"Red or blue?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string","enum":["red","blue"]}},"required":["answer"]}}`
		if string(request.Params) != want {
			t.Errorf("got %s, want %s", request.Params, want)
		}
		if got.LastUpdatedAt == began {
			t.Error("a question did not change lastUpdatedAt")
		}

		w.answered(id, map[string]any{"answer-1": accept("blue")})
		if got := w.get(ann, id); got.InputRequests["answer-1"].Method != "" || got.Status == mcp.InputRequests {
			t.Errorf("after the ack the task is %+v", got)
		}
		got = w.status(id, mcp.Completed)
		d, v := w.result("submit_job", got)
		if d.IsError || v.ID != jobID || v.Status != job.Completed || v.Turn == nil || v.Turn.Turn != 1 || v.Turn.Summary != "reading" ||
			v.Turn.Message != "took blue" || string(v.Turn.Result) != `{"ok":true}` || v.Turn.PR == nil || len(v.Turn.Artifacts) != 1 {
			t.Errorf("the result is %s", d.Structured)
		}
		links := []string{}
		for _, c := range d.Content[1:] {
			links = append(links, fmt.Sprint(c["type"], " ", c["uri"]))
		}
		base := "hangar://jobs/" + string(jobID)
		if want := []string{"resource_link " + base, "resource_link " + base + "/artifacts/notes%20&%20more.md"}; !slices.Equal(links, want) {
			t.Errorf("the links are %v, want %v", links, want)
		}
		if d.Content[0]["text"] != string(d.Structured) {
			t.Error("the text is not the structured content")
		}
		types := w.events(string(id))
		if want := []string{"TaskCreated", "TaskConsentDecided", "TaskCompleted"}; !slices.Equal(types, want) {
			t.Errorf("the task's events are %v, want %v", types, want)
		}
	})
}

// A poll is a pure read, also after a restart and after the job went on.
func TestTheResultIsFrozen(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "say one"})
		first := w.status(id, mcp.Completed)
		w.task(ann, "follow_up_job", args{"job_id": w.jobOf(first), "prompt": "say two"})
		before := w.head()
		for range 3 {
			again := w.status(id, mcp.Completed)
			if string(again.Result) != string(first.Result) || again.LastUpdatedAt != first.LastUpdatedAt || again.CreatedAt != first.CreatedAt {
				t.Errorf("got %+v, want %+v", again, first)
			}
			w.restart() // nothing rendered is left
		}
		if w.head() != before {
			t.Error("polling wrote to the log")
		}
	})
}

func TestATaskWhoseSubjectIsAnotherStream(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "ask Go on?"})
		_, sub, err := w.folds.Subject(t.Context(), must(w.folds.Task(t.Context(), id)))
		if err != nil {
			t.Fatal(err)
		}
		sub.Hash = strings.Repeat("0", 64)
		if err := w.commands.RefuseTask(t.Context(), commands.Origin{ID: w.commands.NewID()}, id, task.Refuse{Key: "answer-1", Subject: sub}); err != nil {
			t.Fatal(err)
		}
		got, err := w.catalogue.Tasks().Get(t.Context(), ann, id)
		if domain.CodeOf(err) != domain.Internal {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestAFailedJobCompletesItsTask(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "say broken\nfail 3"})
		d, v := w.result("submit_job", w.status(id, mcp.Completed))
		if !d.IsError || v.Status != job.Failed || v.Error == nil || v.Error.Code != "agent_exited" || v.Turn.Error == nil {
			t.Errorf("the result is %s", d.Structured)
		}
		if v.Error.Message != "the agent ended with exit code 3" || v.Turn.ExitCode == nil || *v.Turn.ExitCode != 3 {
			t.Errorf("the error is %+v, the exit code %v", v.Error, v.Turn.ExitCode)
		}
		// To read about a failed job is not to fail.
		out, _ := w.call(ann, "get_job", args{"job_id": v.ID})
		if r := out.(*mcp.Result); r.IsError {
			t.Error("get_job failed along with the job")
		}
	})
}

// TestOwners is the matrix of who reaches whose task, for every method.
func TestOwners(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		of := map[string]domain.TaskID{
			"ann's":    w.task(ann, "submit_job", args{"prompt": "hang"}),
			"nobody's": w.task(none, "submit_job", args{"prompt": "hang"}),
			"no":       "task-aaaaaaaaaaaaaaaaaaaaaaaaaa",
			"broken":   "task-1",
		}
		twin := caller("", "ann", access.Default)
		halved := caller("default", "", access.Default)
		tests := []struct {
			caller  mcp.Caller
			reaches string
		}{{ann, "ann's"}, {root, "ann's"}, {bob, ""}, {eve, ""}, {twin, ""}, {halved, ""}, {none, "nobody's"}}
		ledger := w.catalogue.Tasks()
		for _, tt := range tests {
			for whose, id := range of {
				if whose == tt.reaches {
					w.get(tt.caller, id)
					continue
				}
				w.denials.list = nil
				before := w.head()
				got, err := ledger.Get(t.Context(), tt.caller, id)
				if got != nil {
					t.Errorf("%s got %s task %+v", tt.caller.Owner, whose, got)
				}
				unknown(t, err)
				unknown(t, ledger.Update(t.Context(), tt.caller, id, map[string]json.RawMessage{"answer-1": json.RawMessage(`{"action":"maybe"}`)}))
				unknown(t, ledger.Cancel(t.Context(), tt.caller, id))
				if w.head() != before {
					t.Errorf("%s changed %s task", tt.caller.Owner, whose)
				}
				o := tt.caller.Owner.String()
				if want := []string{o + " tasks/get", o + " tasks/update", o + " tasks/cancel"}; !slices.Equal(w.denials.list, want) {
					t.Errorf("denied were %v, want %v", w.denials.list, want)
				}
			}
		}
	})
}

func TestAnAdminActsAsItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "ask Go on?\nhang"})
		if err := w.update(root, id, map[string]any{"answer-1": accept("yes")}); err != nil {
			t.Fatal(err)
		}
		if err := w.catalogue.Tasks().Cancel(t.Context(), root, id); err != nil {
			t.Fatal(err)
		}
		w.status(id, mcp.Cancelled)
		// The consent may be the keeper's to record; the answer it is about is not.
		by := map[string]string{}
		for _, stream := range []string{string(id), string(w.jobOf(w.get(ann, id)))} {
			for _, r := range must(w.store.ReadStream(t.Context(), domain.Stream(stream), 0, 100)) {
				by[r.Type] = r.Meta
			}
		}
		contain(t, by["QuestionAnswered"], `"principal":"admin"`)
		contain(t, by["TaskCancelRequested"], `"principal":"admin"`)
		contain(t, by["JobSubmitted"], `"principal":"ann"`)
	})
}

// The scopes of today decide, except on cancel.
func TestScopes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		narrow := ann
		narrow.Scopes = access.Scopes{access.Gateway}
		ended := w.task(ann, "submit_job", args{"prompt": "say hi"})
		waits := w.task(ann, "submit_job", args{"prompt": "ask Go on?"})
		for _, id := range []domain.TaskID{ended, waits} {
			if _, err := w.catalogue.Tasks().Get(t.Context(), narrow, id); domain.CodeOf(err) != domain.Forbidden {
				t.Errorf("got %v", err)
			}
		}
		if err := w.update(narrow, waits, map[string]any{"answer-1": accept("yes")}); domain.CodeOf(err) != domain.Forbidden {
			t.Errorf("got %v", err)
		}
		if err := w.catalogue.Tasks().Cancel(t.Context(), narrow, waits); err != nil {
			t.Error(err)
		}
		w.status(waits, mcp.Cancelled)
	})
}

// Expiry is the same from every door, before the sweeper has been and after.
func TestExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "ask Go on?\nsay done", "idempotency_key": "k"})
		jobID := w.jobOf(w.get(ann, id))
		end := must(domain.ParseTime(w.get(ann, id).CreatedAt)).Add(24 * time.Hour)
		time.Sleep(time.Until(end) - time.Microsecond)
		if got := w.get(ann, id); got.Status != mcp.InputRequests {
			t.Errorf("just before its end the task is %+v", got)
		}
		time.Sleep(time.Microsecond)
		if count(w.events(string(id)), "TaskExpired") != 0 {
			t.Fatal("the sweeper was faster than this test expects")
		}
		gone := func() {
			t.Helper()
			for _, c := range []mcp.Caller{ann, root, bob} {
				_, err := w.catalogue.Tasks().Get(t.Context(), c, id)
				unknown(t, err)
				unknown(t, w.update(c, id, map[string]any{"answer-1": accept("yes")}))
				unknown(t, w.catalogue.Tasks().Cancel(t.Context(), c, id))
			}
		}
		gone()
		if v := w.view(ann, "submit_job", args{"prompt": "ask Go on?\nsay done", "idempotency_key": "k"}); v.ID != jobID {
			t.Errorf("after expiry a repeat gives %+v", v)
		}
		time.Sleep(10 * time.Minute)
		settle()
		gone()
		if got := w.events(string(id)); count(got, "TaskCancelRequested")+count(got, "TaskConsentDecided") != 0 {
			t.Errorf("an expired task has the events %v", got)
		}
	})
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "step digging\nhang"})
		jobID := w.jobOf(w.status(id, mcp.Working))
		for range 2 {
			if err := w.catalogue.Tasks().Cancel(t.Context(), ann, id); err != nil {
				t.Fatal(err)
			}
		}
		got := w.status(id, mcp.Cancelled)
		if got.Result != nil || got.Error != nil || got.InputRequests != nil {
			t.Errorf("got %+v", got)
		}
		if v := w.view(ann, "get_job", args{"job_id": jobID}); v.Status != job.Cancelled {
			t.Errorf("the job is %s", v.Status)
		}
		if n := count(w.events(string(id)), "TaskCancelRequested"); n != 1 {
			t.Errorf("%d cancels are on record", n)
		}
	})
}

func TestCancelOfWhatHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, script := range []string{"say hi", "fail 1", "fail tool_protocol_error"} {
			id := w.task(ann, "submit_job", args{"prompt": script})
			before, head := w.get(ann, id), w.head()
			time.Sleep(time.Minute)
			if err := w.catalogue.Tasks().Cancel(t.Context(), ann, id); err != nil {
				t.Fatal(err)
			}
			w.answered(id, map[string]any{"answer-1": accept("x")})
			settle()
			after := w.get(ann, id)
			if after.Status != before.Status || string(after.Result) != string(before.Result) || after.LastUpdatedAt != before.LastUpdatedAt || w.head() != head {
				t.Errorf("%s: got %+v, want %+v", script, after, before)
			}
		}
	})
}

func TestRestartWithAnOpenQuestion(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "ask Go on?"})
		created := w.status(id, mcp.InputRequests).CreatedAt
		w.restart()
		got := w.status(id, mcp.Completed)
		d, v := w.result("submit_job", got)
		if !d.IsError || v.Error == nil || v.Error.Code != turn.AgentLost || v.Question != nil || got.CreatedAt != created {
			t.Errorf("got %+v, %s", got, d.Structured)
		}
		w.answered(id, map[string]any{"answer-1": accept("yes")})
	})
}

func TestHandlesCannotBeGuessed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var made []domain.TaskID
		for range 50 {
			made = append(made, w.task(ann, "submit_job", args{"prompt": "hang"}))
		}
		for _, id := range made {
			if !domain.ValidID(task.Category, string(id)) {
				t.Errorf("%q is not a handle", id)
			}
		}
		if slices.IsSorted(made) || len(slices.Compact(slices.Sorted(slices.Values(made)))) != len(made) {
			t.Error("the handles are in order, or not unique")
		}
	})
}

func TestALogThatCannotBeWritten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "ask Go on?"})
		w.store.refuse("task")
		err := w.catalogue.Tasks().Cancel(t.Context(), ann, id)
		var e *domain.Error
		if !errors.As(err, &e) || e.Code != domain.Unavailable {
			t.Errorf("a cancel that was not recorded gives %v", err)
		}
		w.store.refuse("")
		w.status(id, mcp.InputRequests)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
