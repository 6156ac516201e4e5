package commands_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// at once runs a function n times at the same time.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-start; f(i) })
	}
	close(start)
	wg.Wait()
}

func TestASubmitRepeatedIsOneJob(t *testing.T) {
	b := newBench(t)
	first := b.submit()
	b.line(first, turn.Line{N: 1, Kind: turn.LineStarted}) // the stream has grown since
	again, err := b.SubmitJob(t.Context(), origin("submit"), b.submission("hash-1"))
	if err != nil || again.Job.ID != first.ID || !again.Repeated {
		t.Fatalf("the repeat gives %+v, %v", again, err)
	}
	if again.Job.Status() != job.Running || again.Asked == nil || again.Asked.N != 1 {
		t.Errorf("the repeat gives a job that is %s and the task %+v", again.Job.Status(), again.Asked)
	}
	if got := b.types(domain.Stream(first.ID)); got != "JobSubmitted TurnQueued TurnStarted" {
		t.Errorf("the log has %s", got)
	}
}

func TestASubmitRepeatedAtOnceIsOneJob(t *testing.T) {
	b := newBench(t)
	var fresh atomic.Int64
	ids := make([]domain.JobID, 16)
	atOnce(len(ids), func(i int) {
		r, err := b.SubmitJob(context.Background(), origin("submit"), b.submission("hash-1"))
		if err != nil {
			t.Error(err)
			return
		}
		ids[i] = r.Job.ID
		if !r.Repeated {
			fresh.Add(1)
		}
	})
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("one command made the jobs %s and %s", ids[0], id)
		}
	}
	if got := b.types(domain.Stream(ids[0])); got != "JobSubmitted TurnQueued" || fresh.Load() != 1 {
		t.Errorf("the log has %s, and %d calls made it", got, fresh.Load())
	}
}

func TestAKeyUsedForOtherArgumentsIsAConflictThatNamesIt(t *testing.T) {
	b := newBench(t)
	first := b.submit()
	_, err := b.SubmitJob(t.Context(), origin("submit"), b.submission("hash-2"))
	is(t, "another job under the same key", err, domain.Invalid, "idempotency_key", `"key-1"`, string(first.ID))
	if got := b.types(domain.Stream(first.ID)); got != "JobSubmitted TurnQueued" {
		t.Errorf("the log has %s", got)
	}
}

func TestACommandRepeatedDecidesNothing(t *testing.T) {
	b := newBench(t)
	s := b.asking()
	for range 3 {
		s = b.line(s, turn.Line{N: 3, Kind: turn.LineStep, Text: "on it"})
		taken, err := b.AnswerQuestion(t.Context(), origin("answer"), s.ID, job.Answer{N: 1, Answer: json.RawMessage(`"red"`), Via: turn.ViaCLI})
		if err != nil || !taken {
			t.Errorf("the answer was taken: %t, %v", taken, err)
		}
		r, err := b.FollowUpJob(t.Context(), origin("more"), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: "more", Task: b.Request(turn.TaskRequest{})}}, nil)
		if err != nil || r.Asked == nil || r.Asked.N != 2 || r.Asked.Turn != 2 {
			t.Errorf("the follow-up gives the task %+v, %v", r.Asked, err)
		}
		if _, err := b.CancelJob(t.Context(), origin("cancel"), s.ID, "enough", nil); err != nil {
			t.Error(err)
		}
	}
	if got, want := b.types(domain.Stream(s.ID)), "JobSubmitted TurnQueued TurnStarted QuestionAsked TurnProgressed QuestionAnswered JobFollowUpRequested TurnQueued JobCancelRequested"; got != want {
		t.Errorf("the log has %s", got)
	}
}

// Of many answers at once, by many callers, one is taken and all are told.
func TestTheFirstAnswerWins(t *testing.T) {
	b := newBench(t)
	s := b.asking()
	var taken atomic.Int64
	atOnce(24, func(i int) {
		ok, err := b.AnswerQuestion(context.Background(), origin(fmt.Sprint("answer-", i)), s.ID, job.Answer{N: 1, Answer: json.RawMessage(fmt.Sprintf(`"%d"`, i)), Via: turn.ViaTask})
		if err != nil {
			t.Error(err)
		}
		if ok {
			taken.Add(1)
		}
	})
	if n := count(b.types(domain.Stream(s.ID)), "QuestionAnswered"); n != 1 || taken.Load() != 1 {
		t.Errorf("%d answers are on record, %d callers were told theirs was taken", n, taken.Load())
	}
	if ok, err := b.AnswerQuestion(t.Context(), origin("late"), s.ID, job.Answer{N: 1, Answer: json.RawMessage(`"x"`), Via: turn.ViaTask}); ok || err != nil {
		t.Errorf("a late answer is taken: %t, %v", ok, err)
	}
}

// Writers that meet on one stream all land: none overwrites what it has not seen.
func TestNoUpdateIsLost(t *testing.T) {
	b := newBench(t)
	s := b.submit()
	const writers = 12
	turns := make([]int, writers)
	atOnce(writers, func(i int) {
		r, err := b.FollowUpJob(context.Background(), origin(fmt.Sprint("more-", i)), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: "more", Task: b.Request(turn.TaskRequest{})}}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		turns[i] = r.Asked.Turn
	})
	seen := map[int]bool{}
	for _, n := range turns {
		if seen[n] || n < 2 || n > writers+1 {
			t.Errorf("the follow-ups opened the turns %v", turns)
		}
		seen[n] = true
	}
	records := b.records(domain.Stream(s.ID))
	if len(records) != 2+2*writers {
		t.Fatalf("%d follow-ups made %d records", writers, len(records))
	}
	for i, r := range records {
		if r.Revision != int64(i) || i > 0 && r.Prev != records[i-1].Hash {
			t.Errorf("record %d does not follow the one before", i)
		}
	}
}

// The call that asked for a task and the task's keeper both register it.
func TestATaskIsRegisteredOnce(t *testing.T) {
	b := newBench(t)
	s := b.submit()
	handle := b.HandleOf(string(s.ID), 1)
	atOnce(8, func(int) {
		got, err := b.CreateTask(context.Background(), s, s.Task(1))
		if err != nil {
			t.Error(err)
			return
		}
		c := got.Created
		if c.Handle != handle || c.TargetTaskID != string(s.ID)+"/1" || c.Owner != alice || c.TTLMs != 86_400_000 || c.PollIntervalMs != 5000 || !c.Capabilities.Form {
			t.Errorf("it is registered as %+v", c)
		}
	})
	if got := b.types(domain.Stream(handle)); got != "TaskCreated" {
		t.Errorf("the log has %s", got)
	}
	if err := b.CancelTask(t.Context(), origin("cancel"), handle, "enough"); err != nil {
		t.Fatal(err)
	}
	got, err := b.CreateTask(t.Context(), s, s.Task(1))
	if err != nil || !got.CancelRequested {
		t.Errorf("registered again it gives %+v, %v", got, err)
	}
	r := b.records(domain.Stream(handle))[0]
	if r.ID != domain.RecordID(domain.DerivedCommand(s.Tasks[0].EventID, "task"), domain.Stream(handle), 0) {
		t.Error("the record's id does not follow from the event that asked")
	}
}

func TestATaskIsAnsweredOnce(t *testing.T) {
	b := newBench(t)
	s := b.asking()
	registered, err := b.CreateTask(t.Context(), s, s.Task(1))
	if err != nil {
		t.Fatal(err)
	}
	id := registered.Created.Handle
	for i := range 3 {
		if err := b.ConsentTask(t.Context(), origin(fmt.Sprint("c", i)), id, "answer-1", json.RawMessage(`"x"`), turn.ViaTask); err != nil {
			t.Error(err)
		}
	}
	if err := b.RefuseTask(t.Context(), origin("r"), id, task.Refuse{Key: "answer-1", Action: task.Decline, Subject: s.Subject(1)}); err != nil {
		t.Error(err)
	}
	if got := b.types(domain.Stream(id)); got != "TaskCreated TaskConsentDecided" {
		t.Errorf("the log has %s", got)
	}
	is(t, "a task that is not", b.CancelTask(t.Context(), origin("x"), "task-none", ""), domain.NotFound, "unknown task")
}

// That an answer was agreed to stands on the task's record as its giver's, whoever
// writes it down, and once.
func TestAnAnswerIsItsGivers(t *testing.T) {
	b := newBench(t)
	s := b.asking()
	registered, err := b.CreateTask(t.Context(), s, s.Task(1))
	if err != nil {
		t.Fatal(err)
	}
	id := registered.Created.Handle
	o := commands.Origin{Owner: domain.Owner{Tenant: "acme", Principal: "bob"}, ID: commands.AnswerID(id, "answer-1")}
	if _, err := b.AnswerQuestion(t.Context(), o, s.ID, job.Answer{N: 1, Answer: json.RawMessage(`{"a": 1}`), Via: turn.ViaCLI}); err == nil {
		t.Fatal("an object was taken for a plain answer")
	}
	if _, err := b.AnswerQuestion(t.Context(), o, s.ID, job.Answer{N: 1, Answer: json.RawMessage(`"red"`), Via: turn.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	answered, err := b.CancelJob(t.Context(), origin("look"), s.ID, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	atOnce(6, func(i int) {
		var err error
		if i%2 == 0 {
			_, err = b.ObserveTask(context.Background(), registered, answered.Job.Subject(1))
		} else {
			err = b.ConsentTask(context.Background(), o, id, "answer-1", json.RawMessage(`"red"`), turn.ViaCLI)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if got := b.types(domain.Stream(id)); got != "TaskCreated TaskConsentDecided" {
		t.Fatalf("the log has %s", got)
	}
	r := b.records(domain.Stream(id))[1]
	var m struct{ Principal string }
	var d task.ConsentDecided
	unmarshal(t, r.Meta, &m)
	unmarshal(t, r.Data, &d)
	if m.Principal != "bob" || d.Via != turn.ViaCLI || d.AnswerHash != domain.Sum([]byte(`"red"`)) {
		t.Errorf("it stands there as %s of %q", r.Data, m.Principal)
	}
}
