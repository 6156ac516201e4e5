package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hangar/handlers/mcp"
)

// happened is what get_events answers.
type happened struct {
	Events []struct {
		Seq   int64           `json:"seq"`
		At    string          `json:"at"`
		Type  string          `json:"type"`
		Actor string          `json:"actor"`
		Text  string          `json:"text"`
		Data  json.RawMessage `json:"data"`
	} `json:"events"`
	Next string `json:"next"`
	More bool   `json:"more"`
	Done bool   `json:"done"`
}

func (h happened) types() []string {
	var list []string
	for _, e := range h.Events {
		list = append(list, e.Type)
	}
	return list
}

func (w *world) happened(a args) happened {
	w.t.Helper()
	out, err := w.call(ann, "get_events", a)
	r, ok := out.(*mcp.Result)
	if err != nil || !ok || r.IsError {
		w.t.Fatalf("get_events answered with %s, %v", show(out), err)
	}
	return decode[happened](w.t, r.Structured)
}

func TestEventsAreReadOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.view(plain(ann), "submit_job", args{"prompt": "# plan\nstep one\nstep two\nsay hi",
			"env": args{"KEY": "hunter2hunter2", "ALSO": "hunter3hunter3"}}).ID
		settle()
		want := w.events(string(id))
		for _, limit := range []int{1, 2, 3, 500} {
			var got []string
			for after, more := "", true; more; {
				h := w.happened(args{"job_id": id, "after": after, "limit": limit})
				if len(h.Events) == 0 || len(h.Events) > limit || h.Done == h.More || h.Next != strconv.FormatInt(h.Events[len(h.Events)-1].Seq, 10) {
					t.Fatalf("limit %d: got %+v", limit, h)
				}
				got, after, more = append(got, h.types()...), h.Next, h.More
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: got %v, want %v", limit, got, want)
			}
		}
		h := w.happened(args{"job_id": id})
		first := h.Events[0]
		if first.Actor != "ann" || first.Text != "# plan" || first.Seq != 1 || h.Events[1].Seq != 2 || h.Events[len(h.Events)-1].Actor != "hangar" {
			t.Errorf("got %+v", h)
		}
		data := decode[map[string]any](t, first.Data)
		if env, _ := json.Marshal(data["env"]); string(env) != `["ALSO","KEY"]` || data["task"] != nil || data["prompt"] == nil {
			t.Errorf("got %s", first.Data)
		}
		if got := w.happened(args{"job_id": id, "types": []string{"TurnProgressed", "JobFinished"}}); got.More || !got.Done ||
			got.Next != strconv.Itoa(len(want)) || slices.Contains(got.types(), "TurnQueued") || !slices.Contains(got.types(), "JobFinished") {
			t.Errorf("got %+v", got)
		}
		start := time.Now()
		if got := w.happened(args{"job_id": id, "after": h.Next, "wait_seconds": 60}); len(got.Events) > 0 || !got.Done || time.Since(start) != 0 {
			t.Errorf("a job that is done is waited for: %+v", got)
		}
	})
}

func TestEventsAreWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.view(plain(ann), "submit_job", args{"prompt": "work 1m\nstep half\nwork 1h\nsay hi"}).ID
		settle()
		h := w.happened(args{"job_id": id})
		start := time.Now()
		got := w.happened(args{"job_id": id, "after": h.Next, "wait_seconds": 100})
		if took := time.Since(start); !slices.Equal(got.types(), []string{"TurnProgressed"}) || got.Done || took < 50*time.Second || took > 61*time.Second {
			t.Errorf("after %v: got %+v", took, got)
		}
		if again := w.happened(args{"job_id": id, "after": h.Next, "wait_seconds": 100}); len(again.Events) != 1 {
			t.Errorf("got %+v", again)
		}
		// The server's own bound cuts a long wait, and what is filtered is waited over.
		for _, a := range []args{{"after": got.Next}, {"after": h.Next, "types": []string{"JobFinished"}}} {
			start = time.Now()
			a["job_id"], a["wait_seconds"] = id, 9999
			if none := w.happened(a); len(none.Events) > 0 || none.Next != got.Next || none.More || none.Done || time.Since(start) != 150*time.Second {
				t.Errorf("after %v: got %+v", time.Since(start), none)
			}
		}
	})
}

// Who hangs up is not waited for.
func TestEventsForNobody(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.view(plain(ann), "submit_job", args{"prompt": "hang"}).ID
		settle()
		h := w.happened(args{"job_id": id})
		ctx, hangUp := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			raw, _ := json.Marshal(args{"job_id": id, "after": h.Next, "wait_seconds": 100})
			tool, _ := w.registry.Lookup("get_events", ann.Scopes)
			_, err := tool.Handle(ctx, &mcp.Call{Caller: ann, Tool: "get_events", Arguments: raw})
			failed <- err
		}()
		synctest.Wait()
		hangUp()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestEventsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.view(plain(ann), "submit_job", args{"prompt": "hang"}).ID
		settle()
		for _, tt := range []struct {
			args args
			want []string
		}{
			{args{"types": []string{"TurnExploded"}}, []string{"types", "TurnExploded", "JobSubmitted", "QuestionWithdrawn", "TurnEnded"}},
			{args{"types": []string{"TaskCreated"}}, []string{"types", "JobFinished"}},
			{args{"after": "yesterday"}, []string{"after", "yesterday", "next"}},
			{args{"after": "-1"}, []string{"after"}},
			{args{"after": "999"}, []string{"after", "999", "last event"}},
			{args{"limit": 0}, []string{"limit"}},
			{args{"limit": 501}, []string{"limit", "500"}},
			{args{"wait_seconds": -1}, []string{"wait_seconds"}},
			{args{"wait_seconds": 1e9}, []string{"wait_seconds", "86400"}},
		} {
			tt.args["job_id"] = id
			contain(t, w.refused(ann, "get_events", tt.args), tt.want...)
		}
		for _, c := range []mcp.Caller{bob, eve, none} {
			if got := w.refused(c, "get_events", args{"job_id": id}); got != "unknown job" {
				t.Errorf("%s is told %q", c.Owner, got)
			}
		}
	})
}

// Large events are told in several answers.
func TestEventsAreBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		prompt := "hang\n# " + strings.Repeat("x", 120<<10)
		id := w.view(plain(ann), "submit_job", args{"prompt": prompt}).ID
		for range 3 {
			w.view(plain(ann), "follow_up_job", args{"job_id": id, "prompt": prompt})
		}
		settle()
		var got []string
		answers := 0
		for after, more := "", true; more; answers++ {
			out, err := w.registry.Invoke(t.Context(), slog.New(slog.DiscardHandler), &mcp.Call{Caller: ann, Tool: "get_events",
				Arguments: json.RawMessage(`{"job_id":"` + string(id) + `","after":"` + after + `"}`)})
			if err != nil {
				t.Fatal(err)
			}
			r := out.(*mcp.Result)
			if len(r.Structured) > 300<<10 {
				t.Errorf("an answer has %d bytes", len(r.Structured))
			}
			h := decode[happened](t, r.Structured)
			got, after, more = append(got, h.types()...), h.Next, h.More
		}
		if want := w.events(string(id)); !slices.Equal(got, want) || answers < 2 {
			t.Errorf("%d answers: got %v, want %v", answers, got, want)
		}
	})
}
