package tools_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

func TestAnswersGivenTwice(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "ask One?\nsay {answer}\nask Two?\nsay {answer}"})
		jobID := w.jobOf(w.status(id, mcp.InputRequests))
		w.answered(id, map[string]any{"answer-1": accept("first"), "answer-2": accept("early"), "whatever": 7})
		w.answered(id, map[string]any{"answer-1": accept("first")})
		w.answered(id, map[string]any{"answer-1": accept("second")})
		got := w.status(id, mcp.InputRequests)
		if _, ok := got.InputRequests["answer-2"]; !ok || len(got.InputRequests) != 1 {
			t.Fatalf("got %+v", got.InputRequests)
		}
		w.answered(id, map[string]any{"answer-1": accept("late")})
		w.status(id, mcp.InputRequests)

		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if err := w.catalogue.Tasks().Update(t.Context(), ann, id, map[string]json.RawMessage{
					"answer-2": json.RawMessage(fmt.Sprintf(`{"action":"accept","content":{"answer":"a%d"}}`, i)),
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		_, v := w.result("submit_job", w.status(id, mcp.Completed))
		s := must(w.folds.Job(t.Context(), jobID))
		var second string
		if err := json.Unmarshal(s.Question(2).Answer, &second); err != nil {
			t.Fatal(err)
		}
		if want := "first\n" + second; v.Turn.Message != want {
			t.Errorf("the agent said %q, want %q", v.Turn.Message, want)
		}
		if n := count(w.events(string(jobID)), "QuestionAnswered"); n != 2 {
			t.Errorf("%d answers are on record", n)
		}
		if n := count(w.events(string(id)), "TaskConsentDecided"); n != 2 {
			t.Errorf("%d consents are on record", n)
		}
		consent := must(w.folds.Task(t.Context(), id)).Consents["answer-2"]
		if consent.AnswerHash != domain.Sum(s.Question(2).Answer) {
			t.Error("the consent is for another answer than the one that was taken")
		}
	})
}

func TestPartialAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		script := `pose {"text":"A?"}` + "\n" + `pose {"text":"B?"}` + "\n" + `pose {"text":"C?"}` + "\nawait\nwork 1s"
		id := w.task(ann, "submit_job", args{"prompt": script})
		w.answered(id, map[string]any{"answer-3": accept("c"), "answer-1": accept("a")})
		got := w.status(id, mcp.InputRequests)
		if _, ok := got.InputRequests["answer-2"]; !ok || len(got.InputRequests) != 1 {
			t.Fatalf("got %+v", got.InputRequests)
		}
		w.answered(id, map[string]any{"answer-2": accept("b")})
		w.status(id, mcp.Working)
		time.Sleep(time.Second)
		w.status(id, mcp.Completed)
	})
}

// What is malformed is refused by its key; nothing is recorded, and the key stays.
func TestMalformedAnswers(t *testing.T) {
	const form = `{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}`
	ok := accept("yes")
	content := func(v any) map[string]any { return map[string]any{"action": "accept", "content": v} }
	tests := []struct {
		name, script string
		answer       any
		want         []string
	}{
		{"not an object", "ask Q", 7, []string{"answer-1"}},
		{"no action", "ask Q", args{"content": args{"answer": "x"}}, []string{"answer-1", "action"}},
		{"unknown action", "ask Q", args{"action": "maybe"}, []string{"answer-1", "accept, decline, cancel"}},
		{"no content", "ask Q", args{"action": "accept"}, []string{"answer-1", "content.answer"}},
		{"content not an object", "ask Q", content("x"), []string{"answer-1", "content"}},
		{"no answer", "ask Q", content(args{"reply": "x"}), []string{"answer-1", "content.answer"}},
		{"answer not a string", "ask Q", content(args{"answer": 7}), []string{"answer-1", "string"}},
		{"no such option", "ask Q | a | b", accept("c"), []string{"answer-1", "a, b"}},
		{"answer too long", "ask Q", accept(strings.Repeat("x", 70<<10)), []string{"answer-1", "65536"}},
		{"answer with a secret", "ask Q", accept("s3cr3t-d3pl0y"), []string{"answer-1", "deploy key"}},
		{"form without its member", `pose {"text":"Q","schema":` + form + `}` + "\nawait", content(args{}), []string{"answer-1", "'n'"}},
		{"form with a wrong member", `pose {"text":"Q","schema":` + form + `}` + "\nawait", content(args{"n": 0}), []string{"answer-1", "minimum"}},
	}
	bubble(t, func(t *testing.T, w *world) {
		for _, tt := range tests {
			id := w.task(ann, "submit_job", args{"prompt": tt.script})
			before := w.head()
			err := w.update(ann, id, map[string]any{"answer-1": tt.answer, "answer-7": ok})
			if code := domain.CodeOf(err); code != domain.Invalid && code != domain.TooLarge {
				t.Errorf("%s: got %v", tt.name, err)
				continue
			}
			contain(t, tt.name+": "+err.Error(), tt.want...)
			if w.head() != before {
				t.Errorf("%s: something was recorded", tt.name)
			}
			if got := w.status(id, mcp.InputRequests); len(got.InputRequests) != 1 {
				t.Errorf("%s: the key is gone", tt.name)
			}
		}
	})
}

// One malformed answer keeps the well-formed ones of its update out too.
func TestAMalformedAnswerBesideARightOne(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": `pose {"text":"A?"}` + "\n" + `pose {"text":"B?"}` + "\nawait"})
		if err := w.update(ann, id, map[string]any{"answer-1": accept("a"), "answer-2": args{"action": "no"}}); domain.CodeOf(err) != domain.Invalid {
			t.Errorf("got %v", err)
		}
		if got := w.status(id, mcp.InputRequests); len(got.InputRequests) != 2 {
			t.Errorf("got %+v", got.InputRequests)
		}
	})
}

func TestAFormIsTakenWhole(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": `pose {"text":"Q","schema":{"type":"object"}}` + "\nawait\nsay {answer}"})
		w.answered(id, map[string]any{"answer-1": args{"action": "accept", "content": args{"n": 3, "s": "<x>"}}})
		_, v := w.result("submit_job", w.status(id, mcp.Completed))
		if v.Summary != `{"n":3,"s":"<x>"}` && v.Summary != `{"n":3,"s":"\u003cx\u003e"}` {
			t.Errorf("the agent got %s", v.Summary)
		}
	})
}

// Declining ends the task with the question; the turn waits on, and a follow-up
// answers it.
func TestDeclined(t *testing.T) {
	for _, action := range []string{"decline", "cancel"} {
		bubble(t, func(t *testing.T, w *world) {
			id := w.task(ann, "submit_job", args{"prompt": `pose {"text":"A?"}` + "\n" + `pose {"text":"B?"}` + "\nawait\nsay on with {answer}"})
			w.answered(id, map[string]any{"answer-1": accept("a"), "answer-2": args{"action": action}})
			got := w.status(id, mcp.Completed)
			d, v := w.result("submit_job", got)
			if d.IsError || v.Status != job.Waiting || v.Turn == nil || v.Turn.Status != turn.StatusWaiting || len(v.Turn.Questions) != 2 {
				t.Errorf("the result is %s", d.Structured)
			}
			contain(t, v.Turn.Note, "declined", "follow_up_job")
			types := w.events(string(id))
			if want := []string{"TaskCreated", "TaskConsentDecided", "TaskCompleted"}; !slices.Equal(types, want) {
				t.Errorf("the task's events are %v", types)
			}
			if n := count(w.events(string(v.ID)), "QuestionAnswered"); n != 0 {
				t.Error("an answer of a refused update was taken")
			}

			w.answered(id, map[string]any{"answer-1": accept("late")})
			w.view(plain(ann), "follow_up_job", args{"job_id": v.ID, "prompt": "alpha"})
			w.view(plain(ann), "follow_up_job", args{"job_id": v.ID, "prompt": "beta"})
			settle()
			if now := w.view(ann, "get_job", args{"job_id": v.ID}); now.Summary != "on with beta" || now.Turns != 1 {
				t.Errorf("got %+v", now)
			}
			if again := w.get(ann, id); string(again.Result) != string(got.Result) {
				t.Error("the result changed when the question was answered")
			}
		})
	}
}

func TestACallerThatCannotBeAsked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(mute(ann), "submit_job", args{"prompt": "ask Which? | a | b\nsay {answer}"})
		// The creating request decides, not the one that polls.
		d, v := w.result("submit_job", w.status(id, mcp.Completed))
		if d.IsError || v.Question == nil || v.Question.Text != "Which?" || v.Turn.Question == nil || !v.Done {
			t.Errorf("the result is %s", d.Structured)
		}
		contain(t, v.Turn.Note, "no elicitation", "follow_up_job")

		next := w.task(ann, "follow_up_job", args{"job_id": v.ID, "prompt": "a"})
		d, v = w.result("follow_up_job", w.status(next, mcp.Completed))
		if d.IsError || v.Turn.Turn != 1 || v.Turn.Summary != "a" {
			t.Errorf("the result is %s", d.Structured)
		}
	})
}

func TestAQuestionAnsweredByAFollowUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := w.task(ann, "submit_job", args{"prompt": "ask Go on?\nwork 1s\nask Still?\nhang"})
		jobID := w.jobOf(w.status(id, mcp.InputRequests))
		w.view(plain(ann), "follow_up_job", args{"job_id": jobID, "prompt": "yes"})
		if got := w.get(ann, id); got.InputRequests != nil {
			t.Errorf("the key is still outstanding: %+v", got)
		}
		settle()
		w.answered(id, map[string]any{"answer-1": accept("no")})
		consent := must(w.folds.Task(t.Context(), id)).Consents["answer-1"]
		if !consent.Granted || consent.Via != turn.ViaFollowUp {
			t.Errorf("the consent is %+v", consent)
		}
		time.Sleep(time.Second)
		if got := w.status(id, mcp.InputRequests); got.InputRequests["answer-2"].Method == "" {
			t.Errorf("got %+v", got)
		}
	})
}

// Keys are not used again by a later turn, nor by another task on the same turn.
func TestKeysOfLaterTurns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := w.task(ann, "submit_job", args{"prompt": "ask One?"})
		jobID := w.jobOf(w.get(ann, first))
		w.answered(first, map[string]any{"answer-1": accept("x")})
		w.status(first, mcp.Completed)
		second := w.task(ann, "follow_up_job", args{"job_id": jobID, "prompt": "ask Two?\nsay {answer}"})
		if second == first {
			t.Fatal("two tasks have one handle")
		}
		got := w.status(second, mcp.InputRequests)
		if len(got.InputRequests) != 1 || got.InputRequests["answer-2"].Method == "" {
			t.Errorf("got %+v", got.InputRequests)
		}
		w.answered(second, map[string]any{"answer-1": accept("late")})
		w.answered(first, map[string]any{"answer-2": accept("another's")})
		w.status(second, mcp.InputRequests)
		w.answered(second, map[string]any{"answer-2": accept("right")})
		if _, v := w.result("follow_up_job", w.status(second, mcp.Completed)); v.Turn.Turn != 2 || v.Summary != "right" {
			t.Errorf("got %+v", v)
		}
	})
}
