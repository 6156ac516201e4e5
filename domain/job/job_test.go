package job_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/turn"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// built is a job under construction: each command is one batch, a second after
// the one before.
type built struct {
	t *testing.T
	job.State
	commands int
}

func newJob(t *testing.T) *built {
	b := &built{t: t}
	b.do(job.Submit{Submitted: job.Submitted{Prompt: "build", Agent: "a", Task: ask()}})
	return b
}

func ask() *turn.TaskRequest {
	return &turn.TaskRequest{Tool: "submit_job", TTLMs: 1000}
}

// do carries out a command, tells what types of events it gave, and folds them.
func (b *built) do(c job.Command) string {
	b.t.Helper()
	batch, err := job.Decide(&b.State, c)
	if err != nil {
		b.t.Fatalf("%T: %v", c, err)
	}
	b.take(batch...)
	return types(batch)
}

// refuses carries out a command that must be refused, and gives the reason.
func (b *built) refuses(c job.Command) string {
	b.t.Helper()
	batch, err := job.Decide(&b.State, c)
	if err == nil || batch != nil {
		b.t.Fatalf("%T is not refused: %s", c, types(batch))
	}
	return string(domain.CodeOf(err)) + ": " + err.Error()
}

func (b *built) take(batch ...event.Data) {
	b.commands++
	for _, d := range batch {
		b.Evolve(event.Event{ID: fmt.Sprint("e", b.Revision+1), Stream: "job-x", Revision: b.Revision + 1,
			Time: noon.Add(time.Duration(b.commands) * time.Second), Hash: fmt.Sprint("h", b.Revision+1),
			Meta: event.Meta{Tenant: "acme", Principal: "alice", CommandID: domain.CommandID(fmt.Sprint("c", b.commands))}, Data: d})
	}
}

func types(batch []event.Data) string {
	var names []string
	for _, d := range batch {
		names = append(names, string(d.EventType()))
	}
	return strings.Join(names, " ")
}

func started(n int) job.Command {
	return job.Record{Turn: n, Agent: "a", Line: turn.Line{N: 1, BootID: "b", Kind: turn.LineStarted}}
}

func asks(n, ask int, options ...string) job.Command {
	return job.Record{Turn: n, Line: turn.Line{N: 1 + ask, BootID: "b", Kind: turn.LineAsked, Ask: ask, Text: "which?", Options: options}}
}

func closes(n int, s turn.Status) job.Command {
	return job.Close{Ended: turn.Ended{Turn: n, Status: s}}
}

func TestLifeOfAJob(t *testing.T) {
	b := &built{t: t}
	steps := []struct {
		do     job.Command
		events string
		status job.Status
	}{
		{job.Submit{Submitted: job.Submitted{Prompt: "build", Agent: "a"}}, "JobSubmitted TurnQueued", job.Queued},
		{job.ChangeStep{Turn: 1, Name: job.StepPrepare, Status: job.StepRunning}, "JobStepChanged", job.Starting},
		{job.ChangeStep{Turn: 1, Name: job.StepPrepare, Status: job.StepRunning}, "", job.Starting},
		{started(1), "TurnStarted", job.Running},
		{started(1), "", job.Running},
		{asks(1, 1, "yes", "no"), "QuestionAsked", job.Waiting},
		{asks(1, 1, "yes", "no"), "", job.Waiting},
		{asks(1, 2), "QuestionAsked", job.Waiting},
		{job.Answer{N: 1, Answer: json.RawMessage(`"yes"`), Via: turn.ViaTask}, "QuestionAnswered", job.Waiting},
		{job.Answer{N: 1, Answer: json.RawMessage(`"no"`), Via: turn.ViaCLI}, "", job.Waiting},
		{job.Answer{N: 9, Answer: json.RawMessage(`"no"`), Via: turn.ViaCLI}, "", job.Waiting},
		{job.FollowUp{Prompt: "free\n"}, "JobFollowUpRequested QuestionAnswered", job.Running},
		{job.FollowUp{Prompt: "and more", Task: ask()}, "JobFollowUpRequested TurnQueued", job.Running},
		{closes(1, turn.StatusCompleted), "TurnEnded", job.Queued},
		{closes(1, turn.StatusFailed), "", job.Queued},
		{started(2), "TurnStarted", job.Running},
		{asks(2, 1), "QuestionAsked", job.Waiting},
		{closes(2, turn.StatusFailed), "QuestionWithdrawn TurnEnded JobFinished", job.Failed},
		{job.Cancel{}, "", job.Failed},
		{started(2), "", job.Failed},
		{job.ChangeStep{Turn: 2, Name: "late"}, "", job.Failed},
		{job.FollowUp{Prompt: "once more"}, "JobFollowUpRequested TurnQueued", job.Queued},
		{job.Cancel{Reason: "no"}, "JobCancelRequested", job.Queued},
		{job.Cancel{Reason: "no"}, "", job.Queued},
		{closes(3, turn.StatusCancelled), "TurnEnded JobFinished", job.Cancelled},
	}
	for i, s := range steps {
		if got := b.do(s.do); got != s.events {
			t.Errorf("step %d, %T gives %q, want %q", i, s.do, got, s.events)
		}
		if got := b.Status(); got != s.status {
			t.Errorf("step %d, after %T the job is %s, want %s", i, s.do, got, s.status)
		}
		if done := b.Done(); done != (s.status == job.Waiting || s.status.Final()) {
			t.Errorf("step %d: a job that is %s is done: %t", i, s.status, done)
		}
	}
	if got := string(b.Question(2).Answer); got != `"free"` {
		t.Errorf("the follow-up's answer is %s", got)
	}
	if got := []string{b.Prompt(0).Text, b.Prompt(1).Text, b.Prompt(2).Text, b.Prompt(3).Text, b.Prompt(4).Text}; !slices.Equal(got, []string{"", "build", "and more", "once more", ""}) {
		t.Errorf("the prompts are %q", got)
	}
	if b.Task(1) == nil || b.Task(1).Turn != 2 || b.Task(2) != nil {
		t.Errorf("the tasks are %+v", b.Tasks)
	}
}

func TestFollowUpAnswersTheOldestQuestion(t *testing.T) {
	b := newJob(t)
	b.do(started(1))
	b.do(asks(1, 1, "yes", "no"))
	b.do(job.Record{Turn: 1, Line: turn.Line{Kind: turn.LineAsked, Ask: 2, Schema: json.RawMessage(`{"type":"object"}`)}})

	if got, want := b.refuses(job.FollowUp{Prompt: "maybe"}), "invalid: prompt: it answers the open question answer-1: the answer is one of: yes, no"; got != want {
		t.Errorf("it is refused with %q, want %q", got, want)
	}
	b.do(job.FollowUp{Prompt: "yes\n", Task: ask()})
	if got := b.Tasks[1]; got.N != 2 || got.Turn != 1 {
		t.Errorf("the follow-up's task is %+v", got)
	}
	if got, want := b.refuses(job.FollowUp{Prompt: "text"}), "invalid: prompt: the open question answer-2 wants a JSON object as its schema says"; got != want {
		t.Errorf("it is refused with %q, want %q", got, want)
	}
	if got, want := b.refuses(job.FollowUp{Prompt: "[]"}), "invalid: prompt: it answers the open question answer-2: the answer is an object, as the question's schema says"; got != want {
		t.Errorf("it is refused with %q, want %q", got, want)
	}
	b.do(job.FollowUp{Prompt: `{"a":1}`})
	if len(b.Open(0)) != 0 || string(b.Question(2).Answer) != `{"a":1}` || len(b.Turns) != 1 {
		t.Errorf("the second is answered %s", b.Question(2).Answer)
	}
}

func TestACancelledJobTakesNoFollowUp(t *testing.T) {
	b := newJob(t)
	b.do(started(1))
	b.do(job.Cancel{Reason: "x"})
	if got := b.refuses(job.FollowUp{Prompt: "more"}); !strings.HasPrefix(got, "conflict: the job is being cancelled") {
		t.Error(got)
	}
	b.do(closes(1, turn.StatusCancelled))
	if got := b.refuses(job.FollowUp{Prompt: "more"}); !strings.HasPrefix(got, "conflict: the job is cancelled") {
		t.Error(got)
	}
}

// A wish to cancel that came too late is over with the end that came instead:
// the job can be taken up again, and the next turn is not cancelled by it.
func TestALateCancelIsForgottenWithTheEnd(t *testing.T) {
	b := newJob(t)
	b.do(started(1))
	b.do(job.Cancel{Reason: "x"})
	b.do(closes(1, turn.StatusCompleted))
	if b.Status() != job.Completed || b.CancelRequested {
		t.Fatalf("the job is %s, its cancel requested: %t", b.Status(), b.CancelRequested)
	}
	b.do(job.FollowUp{Prompt: "more"})
	b.do(job.FollowUp{Prompt: "and more"})
	if got := b.do(closes(2, turn.StatusCompleted)); got != "TurnEnded" {
		t.Errorf("the second turn ends with %s", got)
	}
}

// A cancelled job ends the turns behind, each with its questions, and says that
// it was cancelled although the turn that ran did complete.
func TestCloseOfACancelledJob(t *testing.T) {
	for _, c := range []struct {
		turn   int
		status turn.Status
		events string
	}{
		{1, turn.StatusCancelled, "QuestionWithdrawn" + strings.Repeat(" TurnEnded", 3) + " JobFinished"},
		{1, turn.StatusCompleted, "QuestionWithdrawn" + strings.Repeat(" TurnEnded", 3) + " JobFinished"},
		{3, turn.StatusCompleted, "TurnEnded QuestionWithdrawn" + strings.Repeat(" TurnEnded", 2) + " JobFinished"},
	} {
		b := newJob(t)
		b.do(started(1))
		b.do(job.FollowUp{Prompt: "2"})
		b.do(job.FollowUp{Prompt: "3"})
		b.do(asks(1, 1))
		b.do(job.Cancel{})
		pr := &job.PR{Branch: "b", State: "none"}
		if got := b.do(job.Close{Ended: turn.Ended{Turn: c.turn, Status: c.status}, PR: pr}); got != c.events {
			t.Errorf("turn %d closed %s gives %s, want %s", c.turn, c.status, got, c.events)
		}
		if b.Status() != job.Cancelled || b.Finished.Turn != 3 || b.PR == nil || len(b.Open(0)) != 0 {
			t.Errorf("turn %d closed %s: the job is %s by turn %d, its PR %v", c.turn, c.status, b.Status(), b.Finished.Turn, b.PR)
		}
		for n := 1; n <= 3; n++ {
			sub := b.Subject(n)
			if sub.Revision != b.Revision || sub.Hash != b.Hash {
				t.Errorf("turn %d is frozen at %d %s, its batch ends at %d", n, sub.Revision, sub.Hash, b.Revision)
			}
		}
		if b.Subject(c.turn).Status != c.status {
			t.Errorf("turn %d ended %s", c.turn, b.Subject(c.turn).Status)
		}
	}
}

func TestATurnEndsOnlyInAnEnd(t *testing.T) {
	b := newJob(t)
	for _, s := range []turn.Status{"", turn.StatusQueued, turn.StatusRunning, turn.StatusWaiting, "done"} {
		if got := b.refuses(closes(1, s)); !strings.HasPrefix(got, "internal: ") {
			t.Errorf("closed %q: %s", s, got)
		}
	}
}

// A turn's facts are frozen at the last record of its own closing batch, not
// where the stream has got to since.
func TestSubjectIsFrozenAtItsClosingBatch(t *testing.T) {
	b := newJob(t)
	b.do(started(1))
	b.do(closes(1, turn.StatusFailed))
	at := b.Revision
	was := b.Subject(1)
	b.do(job.FollowUp{Prompt: "more"})
	b.do(started(2))
	b.do(asks(2, 1))
	b.do(job.ChangeStep{Turn: 2, Name: job.StepAgent, Status: job.StepDone})
	b.do(closes(2, turn.StatusCompleted))
	now := b.Subject(1)
	now.EventID = was.EventID // the newest of the stream, by intent
	if d := cmp.Diff(was, now); d != "" {
		t.Errorf("the first turn has changed:\n%s", d)
	}
	if now.Revision != at || now.Hash != fmt.Sprint("h", at) {
		t.Errorf("it is frozen at %d, its batch ended at %d", now.Revision, at)
	}
}

// A second first event would give the job another owner: it is not taken.
func TestAJobIsSubmittedOnce(t *testing.T) {
	b := newJob(t)
	if got := b.refuses(job.Submit{}); got != "conflict: the job exists already" {
		t.Error(got)
	}
	b.do(job.FollowUp{Prompt: "2"})
	b.Evolve(event.Event{Stream: "job-y", Revision: 9, Time: noon, Meta: event.Meta{Tenant: "evil"}, Data: job.Submitted{Prompt: "other", Task: ask()}})
	if b.ID != "job-x" || b.Owner.Tenant != "acme" || b.Prompt(1).Text != "build" || b.Prompt(2).Text != "2" || len(b.Tasks) != 1 {
		t.Errorf("a second JobSubmitted made it %+v", b.State)
	}
}

func TestNothingIsDoneToAJobThatIsNot(t *testing.T) {
	b := &built{t: t}
	for _, c := range []job.Command{job.FollowUp{Prompt: "x"}, job.Cancel{}, job.Answer{N: 1}, job.ChangeStep{Turn: 1}, started(1), closes(1, turn.StatusFailed)} {
		if got := b.refuses(c); got != "not_found: unknown job" {
			t.Errorf("%T: %s", c, got)
		}
	}
}

func TestWhatATaskIsTold(t *testing.T) {
	b := newJob(t)
	says := func(what, want string) {
		t.Helper()
		if got := b.Subject(1).Message; got != want {
			t.Errorf("%s it says %q, want %q", what, got, want)
		}
	}
	says("at first", "")
	b.do(job.ChangeStep{Turn: 1, Name: job.StepPrepare, Status: job.StepRunning})
	says("with a step", job.StepPrepare)
	b.do(started(1))
	says("with the agent started", job.StepPrepare)
	b.do(job.Record{Turn: 1, Line: turn.Line{Kind: turn.LineStep, Text: "reading"}})
	says("with progress", "reading")
	b.do(job.ChangeStep{Turn: 1, Name: job.StepCollect, Status: job.StepRunning})
	says("with a step after it", job.StepCollect)
	b.do(job.FollowUp{Prompt: "2"})
	if got := b.Subject(2).Message; got != "" {
		t.Errorf("the second turn says %q", got)
	}
	if got := b.Subject(3); got.Status != "" || got.ID != "job-x" {
		t.Errorf("a turn that is not is told as %+v", got)
	}
}

// The cache of states is bounded in bytes, so every field that may be large
// counts.
func TestSizeFollowsContent(t *testing.T) {
	large := strings.Repeat("x", 10_000)
	schema := json.RawMessage(`"` + large + `"`)
	for _, d := range []event.Data{
		job.FollowUpRequested{Turn: 2, Prompt: large},
		job.FollowUpRequested{Turn: 2, OutputSchema: schema},
		turn.Progressed{Turn: 1, Text: large},
		turn.Asked{Turn: 1, N: 1, Text: large},
		turn.Asked{Turn: 1, N: 1, Options: []string{large}},
		turn.Asked{Turn: 1, N: 1, Schema: schema},
		turn.Ended{Turn: 1, Message: large},
		turn.Ended{Turn: 1, Summary: large},
		turn.Ended{Turn: 1, Result: schema},
		job.Finished{PR: &job.PR{Body: large}},
		job.Finished{PR: &job.PR{Commits: []job.Commit{{Subject: large}}}},
	} {
		b := newJob(t)
		before := b.SizeBytes()
		b.take(d)
		if after := b.SizeBytes(); after < before+10_000 {
			t.Errorf("10,000 bytes of %T make it %d bytes from %d", d, after, before)
		}
	}
	for _, s := range []job.Submitted{{Prompt: large}, {OutputSchema: schema}, {Env: map[string]string{"A": large}}, {Labels: map[string]string{"A": large}}} {
		b := &built{t: t}
		b.do(job.Submit{Submitted: s})
		if n := b.SizeBytes(); n < 10_000 {
			t.Errorf("10,000 bytes of a submit make it %d bytes", n)
		}
	}
}
