package turn_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/turn"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// fold takes events a second apart into a conversation.
func fold(data ...event.Data) *turn.Conversation {
	var c turn.Conversation
	for i, d := range data {
		c.Evolve(event.Event{Revision: int64(i), Time: noon.Add(time.Duration(i) * time.Second), Hash: string(rune('a' + i)), Data: d})
	}
	return &c
}

func ended(n int, s turn.Status) turn.Ended { return turn.Ended{Turn: n, Status: s} }

func TestStatus(t *testing.T) {
	queued, started := turn.Queued{Turn: 1}, turn.Started{Turn: 1, Agent: "a", BootID: "b"}
	asked := turn.Asked{Turn: 1, N: 1, Text: "?"}
	answered := turn.Answered{Turn: 1, N: 1, Answer: json.RawMessage(`"x"`)}
	for _, c := range []struct {
		want   turn.Status
		events []event.Data
	}{
		{"", nil},
		{turn.StatusQueued, []event.Data{queued}},
		{turn.StatusRunning, []event.Data{queued, started}},
		{turn.StatusWaiting, []event.Data{queued, started, asked}},
		{turn.StatusRunning, []event.Data{queued, started, asked, answered}},
		{turn.StatusRunning, []event.Data{queued, started, asked, turn.Withdrawn{Turn: 1, N: 1, Reason: "x"}}},
		{turn.StatusRunning, []event.Data{queued, started, asked, turn.Withdrawn{Turn: 1, N: 1}}},
		{turn.StatusFailed, []event.Data{queued, started, asked, ended(1, turn.StatusFailed)}},
		{turn.StatusCancelled, []event.Data{queued, ended(1, turn.StatusCancelled), started, ended(1, turn.StatusCompleted)}},
	} {
		got := fold(c.events...)
		if s := got.Status(1); s != c.want {
			t.Errorf("after %v the turn is %q, want %q", c.events, s, c.want)
		}
		if final := c.want.Final(); (got.Current() == nil) != (final || c.want == "") {
			t.Errorf("after %v the current turn is %v", c.events, got.Current())
		}
	}
}

// An answer that holds nothing is an answer all the same: what was asked is not
// asked for ever.
func TestAnswersWithoutContentCloseTheQuestion(t *testing.T) {
	for _, answer := range []json.RawMessage{nil, {}, json.RawMessage("null"), json.RawMessage(`""`)} {
		c := fold(turn.Queued{Turn: 1}, turn.Asked{Turn: 1, N: 1}, turn.Answered{Turn: 1, N: 1, Answer: answer, Via: turn.ViaCLI},
			turn.Answered{Turn: 1, N: 1, Answer: json.RawMessage(`"later"`), Via: turn.ViaTask})
		q := c.Question(1)
		if q.Open() || q.Via != turn.ViaCLI || strings.Contains(string(q.Answer), "later") {
			t.Errorf("answered by %q it is %+v", answer, q)
		}
	}
}

func TestKeysAreNotUsedAgain(t *testing.T) {
	c := fold(turn.Queued{Turn: 1},
		turn.Asked{Turn: 1, N: 1, Text: "first"}, turn.Answered{Turn: 1, N: 1, Answer: json.RawMessage(`"yes"`)},
		turn.Asked{Turn: 1, N: 1, Text: "again"}, turn.Asked{Turn: 1, N: 2, Text: "second"})
	if q := c.Question(1); q.Text != "first" || q.Open() || q.Ask != 1 || q.Key() != "answer-1" {
		t.Errorf("the first question has become %+v", q)
	}
	if q := c.Question(2); q.Text != "second" || !q.Open() || q.Ask != 2 || q.Key() != "answer-2" {
		t.Errorf("the second question is %+v", q)
	}
}

func TestWhatIsSaidAfterTheEndChangesNothing(t *testing.T) {
	before := []event.Data{turn.Queued{Turn: 1}, turn.Started{Turn: 1, Agent: "a"}, turn.Progressed{Turn: 1, Text: "half"}, ended(1, turn.StatusCancelled)}
	was := fold(before...)
	for _, late := range []event.Data{turn.Queued{Turn: 1}, turn.Started{Turn: 1, Agent: "b"}, turn.Progressed{Turn: 1, Text: "whole"},
		turn.Asked{Turn: 1, N: 1}, ended(1, turn.StatusCompleted)} {
		c := fold(append(slices.Clone(before), late)...)
		a, b := *c.Turn(1), *was.Turn(1)
		a.End, b.End = nil, nil
		if a != b || c.Status(1) != turn.StatusCancelled || len(c.Questions) != 0 {
			t.Errorf("%T changed the ended turn to %+v", late, a)
		}
	}
}

func TestClonesAreApart(t *testing.T) {
	c := fold(turn.Queued{Turn: 1}, turn.Asked{Turn: 1, N: 1})
	clone := c.Clone()
	clone.Evolve(event.Event{Time: noon, Data: turn.Answered{Turn: 1, N: 1, Answer: json.RawMessage(`"x"`)}})
	clone.Evolve(event.Event{Time: noon, Data: ended(1, turn.StatusFailed)})
	if !c.Question(1).Open() || c.Turn(1).End != nil {
		t.Error("what a clone took changed the first")
	}
}

func TestForeignEventsAreNotTaken(t *testing.T) {
	var c turn.Conversation
	if c.Evolve(event.Event{Data: other{}}) {
		t.Error("an event of something else was taken for a conversation's")
	}
}

type other struct{}

func (other) EventType() event.Type { return "Other" }

func TestCheckAnswer(t *testing.T) {
	plain := &turn.Question{N: 1}
	options := &turn.Question{N: 2, Options: []string{"red", "dark blue", ""}}
	form := &turn.Question{N: 3, Schema: json.RawMessage(`{"type":"object"}`)}
	long := `"` + strings.Repeat("x", turn.MaxAnswerBytes) + `"`
	for _, c := range []struct {
		q      *turn.Question
		answer string
		want   string // "" where it is right
	}{
		{plain, `"anything"`, ""},
		{plain, ` "spaced" `, ""},
		{plain, `""`, ""},
		{plain, ``, "answer-1: the answer is a string"},
		{plain, `null`, "answer-1: the answer is a string"},
		{plain, `7`, "answer-1: the answer is a string"},
		{plain, `{"answer":"x"}`, "answer-1: the answer is a string"},
		{plain, `"open`, "answer-1: the answer is a string"},
		{plain, long, "answer-1: an answer has at most 65536 bytes"},
		{options, `"dark blue"`, ""},
		{options, `""`, ""},
		{options, `"green"`, "answer-2: the answer is one of: red, dark blue, "},
		{options, `null`, "answer-2: the answer is a string"},
		{form, ` {"a":1}`, ""},
		{form, `"text"`, "answer-3: the answer is an object, as the question's schema says"},
		{form, `[1]`, "answer-3: the answer is an object, as the question's schema says"},
		{form, `{"a":`, "answer-3: the answer is an object, as the question's schema says"},
		{form, `null`, "answer-3: the answer is an object, as the question's schema says"},
		{form, ``, "answer-3: the answer is an object, as the question's schema says"},
		{form, `{"a":` + long + `}`, "answer-3: an answer has at most 65536 bytes"},
	} {
		err := c.q.CheckAnswer(json.RawMessage(c.answer))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%.40s to %s: %q, want %q", c.answer, c.q.Key(), got, c.want)
		}
		if want := domain.Invalid; err != nil && domain.CodeOf(err) != want && len(c.answer) < 1000 {
			t.Errorf("%.40s is refused with the code %s", c.answer, domain.CodeOf(err))
		}
	}
}

func TestFormSchema(t *testing.T) {
	for want, q := range map[string]*turn.Question{
		`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`:                    {},
		`{"type":"object","properties":{"answer":{"type":"string","enum":["a","<b>"]}},"required":["answer"]}`: {Options: []string{"a", "<b>"}},
		`{"type":"object","title":"mine"}`: {Schema: json.RawMessage(`{"type":"object","title":"mine"}`)},
	} {
		var got, expect any
		if err := json.Unmarshal(q.FormSchema(), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &expect); err != nil {
			t.Fatal(err)
		}
		if a, b := mustJSON(t, got), mustJSON(t, expect); a != b {
			t.Errorf("the form is %s, want %s", a, b)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSubjectOpen(t *testing.T) {
	c := fold(turn.Queued{Turn: 1}, turn.Asked{Turn: 1, N: 1}, turn.Asked{Turn: 1, N: 2}, turn.Asked{Turn: 1, N: 3},
		turn.Answered{Turn: 1, N: 2, Answer: json.RawMessage(`"x"`)})
	sub := turn.Subject{Questions: c.Questions}
	var keys []string
	for _, q := range sub.Open() {
		keys = append(keys, q.Key())
	}
	if want := []string{"answer-1", "answer-3"}; !slices.Equal(keys, want) {
		t.Errorf("%v are open, want %v", keys, want)
	}
	if open := c.Open(0); len(open) != 2 {
		t.Errorf("of all turns %d questions are open", len(open))
	}
	if open := c.Open(2); len(open) != 0 {
		t.Errorf("of a turn that is not %d questions are open", len(open))
	}
}
