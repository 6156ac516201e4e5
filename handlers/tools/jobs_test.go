package tools_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/handlers/mcp"
	"hangar/handlers/tools"
)

// listingBytes bounds what a model is shown of the tools: 22.4 KB.
const listingBytes = 22_400

func TestTheListingIsCompact(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		size := 0
		for _, tool := range w.catalogue.Tools() {
			size += len(tool.Name) + len(tool.Description) + len(tool.InputSchema)
			schema := string(tool.InputSchema)
			for _, never := range []string{"\n", "\t", `"title":"`, `"null"`} {
				if strings.Contains(schema, never) {
					t.Errorf("%s: the input schema holds %q", tool.Name, never)
				}
			}
			if strings.Contains(string(tool.OutputSchema), `"additionalProperties":false`) {
				t.Errorf("%s: the output schema is closed", tool.Name)
			}
			if tool.Scope != access.Jobs || tool.Description == "" || len(tool.OutputSchema) == 0 {
				t.Errorf("%s is %+v", tool.Name, tool)
			}
		}
		if size > listingBytes {
			t.Errorf("the listing has %d bytes, want at most %d", size, listingBytes)
		}
	})
}

func TestHints(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		type hints struct{ readOnly, destructive, idempotent, openWorld bool }
		want := map[string]hints{
			"submit_job":    {openWorld: true},
			"follow_up_job": {openWorld: true},
			"get_job":       {readOnly: true, idempotent: true},
			"list_jobs":     {readOnly: true, idempotent: true},
			"cancel_job":    {destructive: true, idempotent: true},
			"get_events":    {readOnly: true, idempotent: true},
			"read_artifact": {readOnly: true, idempotent: true},
			"get_info":      {readOnly: true, idempotent: true},
		}
		got := map[string]hints{}
		for _, tool := range w.catalogue.Tools() {
			got[tool.Name] = hints{tool.ReadOnly, tool.Destructive, tool.Idempotent, tool.OpenWorld}
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	const unknownJob = "job-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	long := strings.Repeat("x", 300)
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("N%d", i)] = "v"
		}
		return m
	}
	with := func(name string, value any) args { return args{"prompt": "say hi", name: value} }
	tests := []struct {
		name string
		tool string
		args args
		want []string
	}{
		{"no prompt", "submit_job", args{}, []string{"prompt"}},
		{"blank prompt", "submit_job", args{"prompt": " \n"}, []string{"prompt", "empty"}},
		{"prompt with NUL", "submit_job", args{"prompt": "a\x00b"}, []string{"prompt", "NUL"}},
		{"huge prompt", "submit_job", args{"prompt": strings.Repeat("x\n", 70<<10)}, []string{"prompt", "196608"}},
		{"prompt with a token", "submit_job", args{"prompt": "use hgr_" + strings.Repeat("a", 43)}, []string{"prompt", "a hangar token", "env"}},
		{"prompt with a known secret", "submit_job", args{"prompt": "use s3cr3t-d3pl0y"}, []string{"prompt", "deploy key"}},
		{"prompt of another type", "submit_job", args{"prompt": 7}, []string{"prompt", "string"}},
		{"not an argument", "submit_job", with("promt", "x"), []string{"promt", "not an argument", "prompt"}},
		{"environment", "submit_job", with("environment", "go"), []string{"environment", "not taken yet"}},
		{"model", "submit_job", with("model", "big"), []string{"model", "not taken yet"}},
		{"draft_pr", "submit_job", with("draft_pr", true), []string{"draft_pr", "not taken yet"}},
		{"secrets", "submit_job", with("secrets", []string{"A"}), []string{"secrets", "not taken yet"}},
		{"unknown agent", "submit_job", with("agent", "gpt"), []string{"agent", "scripted", "shell"}},
		{"not a repository", "submit_job", with("repo", "/nowhere"), []string{"repo", "not a git repository"}},
		{"repo of two lines", "submit_job", with("repo", "/a\n/b"), []string{"repo", "control"}},
		{"branch without repo", "submit_job", with("branch", "x"), []string{"branch", "give repo"}},
		{"base_branch without repo", "submit_job", with("base_branch", "x"), []string{"base_branch", "give repo"}},
		{"open_pr without repo", "submit_job", with("open_pr", true), []string{"open_pr", "give repo"}},
		{"long title", "submit_job", with("title", strings.Repeat("x", 600)), []string{"title", "512"}},
		{"long key", "submit_job", with("idempotency_key", long), []string{"idempotency_key", "255"}},
		{"timeout zero", "submit_job", with("timeout_minutes", 0), []string{"timeout_minutes", "1"}},
		{"timeout too long", "submit_job", with("timeout_minutes", 99999), []string{"timeout_minutes", "10080"}},
		{"timeout in parts", "submit_job", with("timeout_minutes", 1.5), []string{"timeout_minutes"}},
		{"schema not an object", "submit_job", with("output_schema", true), []string{"output_schema", "object"}},
		{"schema of an unknown type", "submit_job", with("output_schema", args{"type": "text"}), []string{"output_schema", "not a JSON Schema"}},
		{"schema elsewhere", "submit_job", with("output_schema", args{"$ref": "https://example.com/s.json"}), []string{"output_schema", "outside"}},
		{"huge schema", "submit_job", with("output_schema", args{"description": strings.Repeat("x", 17<<10)}), []string{"output_schema", "16384"}},
		{"glob that is none", "submit_job", with("artifacts", []string{"a[b"}), []string{"artifacts", "a[b", "pattern"}},
		{"empty glob", "submit_job", with("artifacts", []string{""}), []string{"artifacts"}},
		{"absolute glob", "submit_job", with("artifacts", []string{"/etc/*"}), []string{"artifacts", "out of the workspace"}},
		{"glob leading up", "submit_job", with("artifacts", []string{"a/../../b"}), []string{"artifacts", "out of the workspace"}},
		{"glob with a way up inside", "submit_job", with("artifacts", []string{"{..,a}/b"}), []string{"artifacts", "out of the workspace"}},
		{"glob with a hidden way up", "submit_job", with("artifacts", []string{`\.\./b`}), []string{"artifacts", "out of the workspace"}},
		{"many globs", "submit_job", with("artifacts", strings.Split(strings.Repeat("x,", 20), ",")), []string{"artifacts", "16"}},
		{"globs not strings", "submit_job", with("artifacts", []int{1}), []string{"artifacts", "string"}},
		{"env name", "submit_job", with("env", args{"1A": "x"}), []string{"env", "1A"}},
		{"env name of ours", "submit_job", with("env", args{"HANGAR_TOKEN": "x"}), []string{"env", "HANGAR_TOKEN"}},
		{"env value with NUL", "submit_job", with("env", args{"A": "x\x00"}), []string{"env", "A", "NUL"}},
		{"env value not a string", "submit_job", with("env", args{"A": 1}), []string{"env", "string"}},
		{"many variables", "submit_job", with("env", many(70)), []string{"env", "64"}},
		{"huge env", "submit_job", with("env", args{"A": strings.Repeat("x", 17<<10)}), []string{"env", "16384"}},
		{"label key", "submit_job", with("labels", args{"a=b": "x"}), []string{"labels", "a=b"}},
		{"label value", "submit_job", with("labels", args{"a": long}), []string{"labels", "a", "128"}},
		{"many labels", "submit_job", with("labels", many(17)), []string{"labels", "16"}},

		{"follow-up without job", "follow_up_job", args{"prompt": "x"}, []string{"job_id"}},
		{"follow-up malformed", "follow_up_job", args{"job_id": "job-1", "prompt": "x"}, []string{"job_id", "job-1", "26"}},
		{"follow-up unknown", "follow_up_job", args{"job_id": unknownJob, "prompt": "x"}, []string{"unknown job"}},
		{"follow-up blank", "follow_up_job", args{"job_id": unknownJob, "prompt": ""}, []string{"prompt", "empty"}},
		{"follow-up with model", "follow_up_job", args{"job_id": unknownJob, "prompt": "x", "model": "y"}, []string{"model", "not an argument"}},
		{"get malformed", "get_job", args{"job_id": "task-aaaaaaaaaaaaaaaaaaaaaaaaaa"}, []string{"job_id", "submit_job"}},
		{"get empty", "get_job", args{"job_id": ""}, []string{"job_id", "missing"}},
		{"get unknown", "get_job", args{"job_id": unknownJob}, []string{"unknown job"}},
		{"cancel unknown", "cancel_job", args{"job_id": unknownJob}, []string{"unknown job"}},
		{"cancel with a long reason", "cancel_job", args{"job_id": unknownJob, "reason": strings.Repeat("x", 2000)}, []string{"reason", "1024"}},

		{"info with an argument", "get_info", args{"verbose": true}, []string{"verbose", "not an argument"}},
		{"list status", "list_jobs", args{"status": "done"}, []string{"status", "waiting", "cancelled"}},
		{"list label", "list_jobs", args{"label": "team"}, []string{"label", "key=value"}},
		{"list limit zero", "list_jobs", args{"limit": 0}, []string{"limit", "1"}},
		{"list limit", "list_jobs", args{"limit": 1000}, []string{"limit", "100"}},
		{"list cursor", "list_jobs", args{"cursor": "x"}, []string{"cursor", "next_cursor"}},
	}
	bubble(t, func(t *testing.T, w *world) {
		for _, tt := range tests {
			contain(t, tt.name+": "+w.refused(ann, tt.tool, tt.args), tt.want...)
		}
	})
}

// A handler refuses the same without a wire that knows the schema.
func TestHandlersJudgeByThemselves(t *testing.T) {
	tests := []struct {
		tool, args string
		want       []string
	}{
		{"submit_job", `{"prompt":7}`, []string{"prompt", "a string"}},
		{"submit_job", `{"prompt":"x","agent":"gpt"}`, []string{"agent", "scripted, shell"}},
		{"submit_job", `{"prompt":"x","timeout_minutes":0}`, []string{"timeout_minutes", "from 1 to 10080"}},
		{"submit_job", `{"prompt":"x","timeout_minutes":"1"}`, []string{"timeout_minutes", "a number"}},
		{"submit_job", `{"prompt":"x","open_pr":"yes"}`, []string{"open_pr", "true or false"}},
		{"submit_job", `{"prompt":"x","artifacts":"a"}`, []string{"artifacts", "a list of strings"}},
		{"submit_job", `{"prompt":"x","env":[]}`, []string{"env", "values are strings"}},
		{"submit_job", `{"prompt":"x","output_schema":[]}`, []string{"output_schema", "object"}},
		{"submit_job", `[]`, []string{"JSON object"}},
		{"follow_up_job", `{"job_id":"job-aaaaaaaaaaaaaaaaaaaaaaaaaa"}`, []string{"prompt"}},
		{"get_job", `{}`, []string{"job_id", "missing"}},
		{"list_jobs", `{"status":"done"}`, []string{"status", "queued"}},
		{"list_jobs", `{"limit":101}`, []string{"limit", "from 1 to 100"}},
	}
	bubble(t, func(t *testing.T, w *world) {
		for _, tt := range tests {
			tool, _ := w.registry.Lookup(tt.tool, access.Default)
			_, err := tool.Handle(t.Context(), &mcp.Call{Caller: ann, Tool: tt.tool, Arguments: json.RawMessage(tt.args)})
			if domain.CodeOf(err) != domain.Invalid {
				t.Errorf("%s %s: got %v", tt.tool, tt.args, err)
				continue
			}
			contain(t, err.Error(), tt.want...)
		}
	})
}

func TestSubmitWithoutTasks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		v := w.view(plain(ann), "submit_job", args{"prompt": "# plan\nsay hi <b>&\nresult {\"n\":1}", "repo": "/src/app",
			"labels": args{"team": "web"}, "output_schema": args{"type": "object", "required": []string{"n"}}, "env": args{"KEY": "hunter2hunter2"}})
		if v.Status != job.Queued || v.Done || v.Agent != "scripted" || v.Title != "# plan" || v.Repo != "/src/app" ||
			v.Branch != "hangar/"+string(v.ID) || v.BaseBranch != "main" || v.Labels["team"] != "web" || v.Turns != 1 {
			t.Errorf("got %+v", v)
		}
		settle()
		w.kept = nil
		got := w.view(ann, "get_job", args{"job_id": v.ID})
		if got.Status != job.Completed || !got.Done || got.FinishedAt == "" || got.PR == nil || got.PR.Branch != v.Branch ||
			string(got.Result) != `{"n":1}` || got.Summary != "hi <b>&" || got.Error != nil {
			t.Errorf("got %+v", got)
		}
		records, _ := w.store.ReadAll(t.Context(), 0, 1000)
		for _, r := range records {
			if strings.Contains(r.Data, "hunter2") {
				t.Errorf("%s holds a value of env", r.Type)
			}
		}
	})
}

func TestTheSameKey(t *testing.T) {
	base := func() args {
		return args{"prompt": "hang", "repo": "/src/app", "idempotency_key": "k-1", "env": args{"A": "one"}}
	}
	bubble(t, func(t *testing.T, w *world) {
		first := w.task(ann, "submit_job", base())
		id := w.jobOf(w.get(ann, first))

		if again := w.task(ann, "submit_job", base()); again != first {
			t.Errorf("the repeat has the handle %s, want %s", again, first)
		}
		explicit := base()
		explicit["agent"], explicit["open_pr"] = "scripted", true
		if again := w.task(ann, "submit_job", explicit); again != first {
			t.Errorf("with the defaults spelt out the handle is %s, want %s", again, first)
		}
		if v := w.view(plain(ann), "submit_job", base()); v.ID != id || v.Note == "" {
			t.Errorf("without tasks the repeat gives %+v", v)
		}
		for _, change := range []args{{"prompt": "say other"}, {"env": args{"A": "two"}}, {"open_pr": false}, {"timeout_minutes": 5}} {
			other := base()
			maps.Copy(other, change)
			contain(t, w.refused(ann, "submit_job", other), "idempotency_key", `"k-1"`, "other arguments", string(id))
		}
		if got := w.task(bob, "submit_job", args{"prompt": "hang", "idempotency_key": "k-1"}); got == first {
			t.Error("another caller's key is this caller's")
		}

		w.restart()
		settle() // the scripted agent is lost with its process
		v := w.view(ann, "submit_job", base())
		if v.ID != id || v.Status != job.Failed || v.Error == nil || v.Error.Code != "agent_lost" {
			t.Errorf("after the task has ended a repeat gives %+v", v)
		}
		if got := count(w.events(string(id)), "JobSubmitted"); got != 1 {
			t.Errorf("%d jobs were submitted", got)
		}
	})
}

func TestFiftyOfOneKeyMakeOneJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		handles := make([]domain.TaskID, 50)
		var all sync.WaitGroup
		for i := range handles {
			all.Go(func() {
				out, err := w.call(ann, "submit_job", args{"prompt": "hang", "idempotency_key": "k"})
				if h, ok := out.(*mcp.Task); ok && err == nil {
					handles[i] = h.ID
				}
			})
		}
		all.Wait()
		if handles[0] == "" || len(slices.Compact(handles)) != 1 {
			t.Errorf("the handles are %v", slices.Compact(handles))
		}
	})
}

func TestATaskThatCannotBeRegistered(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.store.refuse("task")
		out, err := w.call(ann, "submit_job", args{"prompt": "say hi", "idempotency_key": "k"})
		r, ok := out.(*mcp.Result)
		if err != nil || !ok || !r.IsError {
			t.Fatalf("answered with %s, %v", show(out), err)
		}
		contain(t, text(r), "cannot be written")
		w.store.refuse("")
		w.status(w.task(ann, "submit_job", args{"prompt": "say hi", "idempotency_key": "k"}), mcp.Completed)
	})
}

func TestJobsOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mine := w.view(plain(ann), "submit_job", args{"prompt": "hang"}).ID
		theirs := w.view(plain(none), "submit_job", args{"prompt": "hang"}).ID
		tests := []struct {
			name    string
			caller  mcp.Caller
			id      domain.JobID
			reaches bool
		}{
			{"the owner", ann, mine, true},
			{"the tenant's admin", root, mine, true},
			{"another of the tenant", bob, mine, false},
			{"an admin of another tenant", eve, mine, false},
			{"nobody", none, mine, false},
			{"nobody, nobody's", none, theirs, true},
			{"somebody, nobody's", ann, theirs, false},
			{"an admin, nobody's", root, theirs, false},
		}
		for _, tt := range tests {
			for _, call := range []struct {
				tool string
				args args
			}{
				{"get_job", args{"job_id": tt.id}},
				{"follow_up_job", args{"job_id": tt.id, "prompt": "say more"}},
				{"cancel_job", args{"job_id": tt.id}},
			} {
				if !tt.reaches {
					if got := w.refused(plain(tt.caller), call.tool, call.args); got != "unknown job" {
						t.Errorf("%s, %s: got %q", tt.name, call.tool, got)
					}
				} else if call.tool == "get_job" {
					w.view(plain(tt.caller), call.tool, call.args)
				}
			}
		}
	})
}

func TestListJobs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var ids []domain.JobID
		for i := range 5 {
			a := args{"prompt": "say hi", "labels": args{"n": fmt.Sprint(i % 2)}}
			if i == 4 {
				a["prompt"], a["repo"] = "hang", "/src/app"
			}
			ids = append(ids, w.view(plain(ann), "submit_job", a).ID)
		}
		w.view(plain(bob), "submit_job", args{"prompt": "say hi"})
		w.caughtUp()

		list := func(c mcp.Caller, a args) (got []domain.JobID, cursor string) {
			out, err := w.call(c, "list_jobs", a)
			if err != nil {
				t.Fatal(err)
			}
			p := decode[struct {
				Jobs       []tools.JobView `json:"jobs"`
				NextCursor string          `json:"next_cursor"`
			}](t, out.(*mcp.Result).Structured)
			for _, v := range p.Jobs {
				got = append(got, v.ID)
			}
			return got, p.NextCursor
		}
		same := func(what string, got, want []domain.JobID) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		newest := slices.Clone(ids)
		slices.Reverse(newest)

		all, cursor := list(ann, nil)
		same("all", all, newest)
		if cursor != "" {
			t.Errorf("the only page has the cursor %q", cursor)
		}
		page1, cursor := list(ann, args{"limit": 2})
		same("first page", page1, newest[:2])
		page2, cursor := list(ann, args{"limit": 2, "cursor": cursor})
		same("second page", page2, newest[2:4])
		page3, cursor := list(ann, args{"limit": 2, "cursor": cursor})
		same("last page", page3, newest[4:])
		if cursor != "" {
			t.Errorf("the last page has the cursor %q", cursor)
		}
		running, _ := list(ann, args{"status": "running"})
		same("running", running, ids[4:])
		repo, _ := list(ann, args{"repo": "/src/app"})
		same("repo", repo, ids[4:])
		label, _ := list(ann, args{"label": "n=1"})
		same("label", label, []domain.JobID{ids[3], ids[1]})
		if tenant, _ := list(root, nil); len(tenant) != 6 {
			t.Errorf("the admin sees %d jobs, want 6", len(tenant))
		}
		if other, _ := list(eve, nil); len(other) != 0 {
			t.Errorf("another tenant sees %v", other)
		}
	})
}

func TestCancelJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.view(plain(ann), "submit_job", args{"prompt": "hang"}).ID
		settle()
		if v := w.view(ann, "cancel_job", args{"job_id": id, "reason": "enough"}); !v.CancelRequested || v.Done {
			t.Errorf("got %+v", v)
		}
		settle()
		for range 2 {
			if v := w.view(ann, "cancel_job", args{"job_id": id}); v.Status != job.Cancelled || v.CancelRequested || !v.Done {
				t.Errorf("got %+v", v)
			}
		}
		contain(t, w.refused(ann, "follow_up_job", args{"job_id": id, "prompt": "more"}), "cancelled", "submit a new one")

		// One that waits for an answer is not done once it is to end.
		id = w.view(plain(ann), "submit_job", args{"prompt": "ask Go on?"}).ID
		settle()
		if v := w.view(ann, "cancel_job", args{"job_id": id}); v.Status != job.Waiting || !v.CancelRequested || v.Done {
			t.Errorf("got %+v", v)
		}
		settle()
		if v := w.view(ann, "get_job", args{"job_id": id}); v.Status != job.Cancelled || !v.Done {
			t.Errorf("got %+v", v)
		}
	})
}

func TestFollowUpOpensATurn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.view(plain(ann), "submit_job", args{"prompt": "say one\nresult {\"n\":1}"}).ID
		settle()
		v := w.view(plain(ann), "follow_up_job", args{"job_id": id, "prompt": "say two", "idempotency_key": "f"})
		if v.Turns != 2 || v.Done || v.Note != "turn 2 was opened" {
			t.Errorf("got %+v", v)
		}
		settle()
		if again := w.view(plain(ann), "follow_up_job", args{"job_id": id, "prompt": "say two", "idempotency_key": "f"}); again.Turns != 2 {
			t.Errorf("the repeat opened another turn: %+v", again)
		}
		for _, other := range []args{{"prompt": "say three"}, {"prompt": "say two", "open_pr": false}, {"prompt": "say two", "output_schema": args{}}} {
			other["job_id"], other["idempotency_key"] = id, "f"
			contain(t, w.refused(ann, "follow_up_job", other), "idempotency_key", `"f"`, "other arguments")
		}
		contain(t, w.refused(ann, "follow_up_job", args{"job_id": id, "prompt": "x", "open_pr": true}), "open_pr", "no repo")
		v = w.view(ann, "get_job", args{"job_id": id})
		if v.Summary != "two" || string(v.Result) != `{"n":1}` || v.Status != job.Completed {
			t.Errorf("got %+v", v)
		}
	})
}

func TestFollowUpAnswersTheOldestQuestion(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		script := strings.Join([]string{`pose {"text":"Which?","options":["a","b"]}`,
			`pose {"text":"How many?","schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`, "await", "say got {answer}"}, "\n")
		id := w.view(plain(ann), "submit_job", args{"prompt": script}).ID
		settle()
		v := w.view(ann, "get_job", args{"job_id": id})
		if v.Status != job.Waiting || !v.Done || v.Question == nil || v.Question.Key != "answer-1" || len(v.Questions) != 2 {
			t.Fatalf("got %+v", v)
		}
		follow := func(prompt string) args { return args{"job_id": id, "prompt": prompt} }
		contain(t, w.refused(ann, "follow_up_job", follow("c")), "prompt", "answer-1", "a, b")
		bad := follow("a")
		bad["output_schema"] = args{"type": "object"}
		contain(t, w.refused(ann, "follow_up_job", bad), "output_schema", "answer-1")
		v = w.view(plain(ann), "follow_up_job", follow("b\n"))
		contain(t, v.Note, "answered the question answer-1", "still open: answer-2")
		contain(t, w.refused(ann, "follow_up_job", follow("three")), "prompt", "answer-2", "JSON object")
		contain(t, w.refused(ann, "follow_up_job", follow(`{"n":"three"}`)), "prompt", "answer-2", "integer")
		v = w.view(plain(ann), "follow_up_job", follow(`{"n":3}`))
		if v.Note != "the prompt answered the question answer-2 of turn 1" {
			t.Errorf("the note is %q", v.Note)
		}
		settle()
		if v = w.view(ann, "get_job", args{"job_id": id}); v.Status != job.Completed || v.Turns != 1 || v.Summary != `got {"n":3}` {
			t.Errorf("got %+v", v)
		}
	})
}
