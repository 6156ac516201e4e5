package task_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/task"
	"hangar/domain/turn"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const subjectID = "job-3knlkxnucflo42q673bap36tns"

// made is a registered task that every command is taken into.
func made(c task.Created) *task.State {
	c.Handle, c.Target, c.Tool = "task-x", task.Hangar, "submit_job"
	if c.TargetTaskID == "" {
		c.TargetTaskID = subjectID + "/1"
	}
	s := &task.State{}
	s.Evolve(event.Event{Time: noon, Data: c})
	return s
}

func do(t *testing.T, s *task.State, c task.Command) string {
	t.Helper()
	batch, err := task.Decide(s, c)
	if err != nil {
		t.Fatalf("%T: %v", c, err)
	}
	var names []string
	for _, d := range batch {
		names = append(names, string(d.EventType()))
		s.Evolve(event.Event{Revision: s.Revision + 1, Time: noon.Add(time.Minute), Data: d})
	}
	return strings.Join(names, " ")
}

func form() task.Created { return task.Created{Capabilities: turn.Capabilities{Form: true}} }

// asking is a subject with one question open and one answered from elsewhere.
func asking() turn.Subject {
	return turn.Subject{ID: subjectID, Turn: 1, Status: turn.StatusWaiting, Message: "working", Revision: 7, Hash: "h7", ChangedAt: noon.Add(time.Second),
		Questions: []turn.Question{{N: 1, Text: "first?", Answer: json.RawMessage(`"yes"`), Via: turn.ViaCLI}, {N: 2, Text: "second?"}}}
}

func in(s turn.Subject, status turn.Status, code string) turn.Subject {
	s.Status, s.Code, s.Questions = status, code, s.Questions[:1]
	return s
}

// The derivation of handles is permanent: the log names streams by them.
func TestHandlesAreGolden(t *testing.T) {
	var random [32]byte
	for i := range random {
		random[i] = byte(i)
	}
	key := domain.NewSecret(random).Key(domain.ForHandles)
	for _, c := range []struct {
		k    task.Key
		want domain.TaskID
	}{
		{task.Key{Target: task.Hangar, ID: task.SubjectTask(subjectID, 1), Generation: 1}, "task-zyj3lso4trdoez4zhpq5sr47yg"},
		{task.Key{Target: task.Hangar, ID: task.SubjectTask(subjectID, 2), Generation: 1}, "task-k2cv44ceqbr2av6qja4yb7ahk2"},
		{task.Key{Target: "files", ID: "7", CreatedAt: "2026-01-02T03:04:05Z", Generation: 2}, "task-opse6kuyinlgnzyxmzagesumcq"},
	} {
		if got := task.Handle(key, c.k); got != c.want || !domain.ValidID(task.Category, string(got)) {
			t.Errorf("%+v has the handle %s, want %s", c.k, got, c.want)
		}
	}
}

func TestHandlesDifferByEveryPart(t *testing.T) {
	seen := map[domain.TaskID]string{}
	for _, key := range []string{"a", "b"} {
		for _, k := range []task.Key{
			{Target: "x", ID: "y", CreatedAt: "z", Generation: 1}, {Target: "x", ID: "y", CreatedAt: "z", Generation: 2},
			{Target: "x", ID: "yz", Generation: 1}, {Target: "xy", ID: "z", Generation: 1}, {Target: "xy", CreatedAt: "z", Generation: 1},
			{Target: "x", ID: "y", CreatedAt: "z1"}, {Target: "x", ID: "y", CreatedAt: "z", Generation: 10},
		} {
			h := task.Handle([]byte(key), k)
			name := fmt.Sprintf("%s %+v", key, k)
			if other, twice := seen[h]; twice {
				t.Errorf("%s and %s have one handle", name, other)
			}
			seen[h] = name
		}
	}
}

func TestObserve(t *testing.T) {
	for _, c := range []struct {
		name    string
		created task.Created
		sub     turn.Subject
		events  string
		status  turn.Status
		message string
	}{
		{"it works", form(), in(asking(), turn.StatusRunning, ""), "TaskConsentDecided", turn.StatusRunning, "working"},
		{"it waits", form(), asking(), "TaskConsentDecided", turn.StatusWaiting, "second?"},
		{"it waits for a client that cannot be asked", task.Created{}, asking(),
			strings.Repeat("TaskConsentDecided ", 2) + "TaskCompleted", turn.StatusCompleted, "submit_job ended with an open question"},
		{"it completed", form(), in(asking(), turn.StatusCompleted, ""), "TaskConsentDecided TaskCompleted", turn.StatusCompleted, "submit_job completed"},
		{"it failed", form(), in(asking(), turn.StatusFailed, turn.AgentExited), "TaskConsentDecided TaskCompleted", turn.StatusCompleted, "submit_job failed"},
		{"the call failed", form(), in(asking(), turn.StatusFailed, turn.ProtocolError), "TaskConsentDecided TaskFailed", turn.StatusFailed, "the tool call failed"},
		{"it was cancelled", form(), in(asking(), turn.StatusCancelled, ""), "TaskConsentDecided TaskCancelled", turn.StatusCancelled, "submit_job cancelled"},
		{"there is no turn yet", form(), turn.Subject{ID: subjectID}, "", turn.StatusRunning, "submit_job started"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := made(c.created)
			if got := do(t, s, task.Observe{Subject: c.sub, At: noon}); got != c.events {
				t.Errorf("it gives %q, want %q", got, c.events)
			}
			if again := do(t, s, task.Observe{Subject: c.sub, At: noon}); again != "" {
				t.Errorf("the same once more gives %q", again)
			}
			v := s.Show(&c.sub)
			if v.Status != c.status || v.Message != c.message {
				t.Errorf("it is shown %s %q", v.Status, v.Message)
			}
			if (len(v.Open) > 0) != (c.status == turn.StatusWaiting) {
				t.Errorf("it shows %d questions", len(v.Open))
			}
		})
	}
}

// An observer that looked before the answer came does not refuse what has been
// decided since.
func TestALateLookRefusesNothingDecided(t *testing.T) {
	s := made(task.Created{})
	do(t, s, task.Consent{Key: "answer-1", Answer: json.RawMessage(`"x"`), Via: turn.ViaCLI})
	late := turn.Subject{ID: subjectID, Status: turn.StatusWaiting, Questions: []turn.Question{{N: 1, Text: "?"}}}
	if got := do(t, s, task.Observe{Subject: late}); got != "" || s.Ended() {
		t.Errorf("it gives %q", got)
	}
}

func TestRefuse(t *testing.T) {
	for key, want := range map[string]string{
		"answer-2": "TaskConsentDecided TaskCompleted",
		"answer-1": "", // answered already
		"answer-3": "", // never asked
		"":         "",
	} {
		s := made(form())
		if got := do(t, s, task.Refuse{Key: key, Action: task.Decline, Via: turn.ViaTask, Subject: asking()}); got != want {
			t.Errorf("refusing %q gives %q, want %q", key, got, want)
		}
		if want == "" {
			continue
		}
		if c := s.Completed; c.Subject != subjectID || c.AtRevision != 7 || c.SubjectHash != "h7" || c.IsError || !s.Denied {
			t.Errorf("the end is %+v", c)
		}
		if c := s.Consents[key]; c.Granted || c.Action != task.Decline || c.AnswerHash != "" {
			t.Errorf("the decision is %+v", c)
		}
	}
}

// The hash of an answer is the same whether the client's text or the log's is at
// hand.
func TestAnswerHashIgnoresSpace(t *testing.T) {
	hash := func(c task.Command) domain.Digest {
		s := made(form())
		do(t, s, c)
		return s.Consents["answer-1"].AnswerHash
	}
	want := domain.Sum([]byte(`{"a":"x y"}`))
	sub := turn.Subject{Status: turn.StatusRunning, Questions: []turn.Question{{N: 1, Answer: json.RawMessage(`{"a":"x y"}`)}}}
	for _, c := range []task.Command{task.Consent{Key: "answer-1", Answer: json.RawMessage(` { "a" : "x y" }`)}, task.Observe{Subject: sub}} {
		if got := hash(c); got != want {
			t.Errorf("%T hashes the answer to %s", c, got)
		}
	}
}

// The end is the first one on record, also in a log that holds more of them.
func TestTheEndIsFinalInTheFold(t *testing.T) {
	ends := []event.Data{task.Completed{Subject: "job-x"}, task.Failed{Message: "the tool call failed"}, task.Cancelled{}}
	for _, first := range ends {
		s := made(form())
		s.Evolve(event.Event{Time: noon.Add(time.Hour), Data: first})
		shown := fmt.Sprint(s.Show(&turn.Subject{}))
		late := append([]event.Data{task.ConsentDecided{Key: "answer-1"}, task.CancelRequested{}, task.Expired{}}, ends...)
		for _, d := range late {
			s.Evolve(event.Event{Time: noon.Add(2 * time.Hour), Data: d})
			if now := fmt.Sprint(s.Show(&turn.Subject{ID: "job-x", Status: turn.StatusRunning, ChangedAt: noon.Add(3 * time.Hour)})); now != shown {
				t.Errorf("after %T, %T makes it\n%s, not\n%s", first, d, now, shown)
			}
		}
		if n := strings.Count(fmt.Sprint(s.Completed == nil, s.Failed == nil, s.Cancelled == nil), "false"); n != 1 {
			t.Errorf("after %T it has %d ends", first, n)
		}
	}
}

func TestATaskIsRegisteredOnce(t *testing.T) {
	s := made(form())
	s.Evolve(event.Event{Time: noon.Add(time.Hour), Data: task.Created{Handle: "task-y", Owner: domain.Owner{Tenant: "evil"}}})
	if s.Created.Handle != "task-x" || s.Created.Owner.Tenant != "" || !s.CreatedAt.Equal(noon) {
		t.Errorf("a second TaskCreated made it %+v", s.Created)
	}
	if _, err := task.Decide(s, task.Create{}); domain.CodeOf(err) != domain.Conflict {
		t.Errorf("it is created again: %v", err)
	}
}

func TestNothingIsDoneToATaskThatIsNot(t *testing.T) {
	for _, c := range []task.Command{task.Consent{}, task.Refuse{}, task.Cancel{}, task.Observe{}, task.Expire{At: noon}} {
		batch, err := task.Decide(&task.State{}, c)
		if domain.CodeOf(err) != domain.NotFound || err.Error() != "unknown task" || batch != nil {
			t.Errorf("%T: %v, %v", c, batch, err)
		}
	}
	if (&task.State{}).Visible(noon) {
		t.Error("a task that is not is visible")
	}
}

func TestDeadline(t *testing.T) {
	for _, c := range []struct {
		ttl   int64
		after time.Duration
		gone  bool
	}{
		{1000, time.Second - 1, false},
		{1000, time.Second, true},
		{0, 1e6 * time.Hour, false},
		{-1, 1e6 * time.Hour, false},
		{math.MaxInt64, 0, false}, // not a deadline in the past
		{math.MaxInt64 / 1_000_000, 0, false},
	} {
		s := made(task.Created{TTLMs: c.ttl})
		at := noon.Add(c.after)
		if visible := s.Visible(at); visible == c.gone {
			t.Errorf("with %d ms, after %v, it is served: %t", c.ttl, c.after, visible)
		}
		if got := do(t, s, task.Expire{At: at}); (got == "TaskExpired") != c.gone {
			t.Errorf("with %d ms, after %v, expiry gives %q", c.ttl, c.after, got)
		}
		if c.gone && (s.Visible(noon) || do(t, s, task.Expire{At: at}) != "") {
			t.Error("what has expired is served again, or expires again")
		}
	}
}

func TestSubjectOfATask(t *testing.T) {
	for id, want := range map[string]int{subjectID + "/1": 1, subjectID + "/12": 12, subjectID + "/": 0, subjectID: 0, "/": 0, subjectID + "/x": 0,
		subjectID + "/-1": 0, subjectID + "/1/2": 0, subjectID + "/99999999999999999999999": 0} {
		s := made(task.Created{TargetTaskID: id})
		if _, n := s.Subject(); n != want {
			t.Errorf("%q is the task %d, want %d", id, n, want)
		}
	}
	s := made(form())
	s.Created.Target = "files"
	if id, n := s.Subject(); id != "" || n != 0 {
		t.Errorf("another target's task leads to %s/%d", id, n)
	}
}
