package task_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hangar/domain"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// A log in which records are missing, doubled, in another order or hold numbers
// that no hangar wrote still folds, and what it gives can be read and decided
// upon. That it was damaged is for the chain to say.
func TestDamagedLogsFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(t)
		l.submit(t)
		t.Repeat(l.actions())

		j := replayDamaged(t, l.job)
		if n := len(j.Turns); n > 10_000 || len(j.Questions) > 10_000 || len(j.Prompts) > 10_000 {
			t.Fatalf("a damaged log makes %d turns, %d questions, %d prompts", n, len(j.Questions), len(j.Prompts))
		}
		useJob(&j)
		for _, r := range l.tasks {
			s := replayDamaged(t, r.stream)
			useTask(l, &s, &j)
		}
	})
}

var numbers = regexp.MustCompile(`"(turn|n|ttl_ms|at_revision|generation)":-?\d+`)

// damage draws what may have happened to a log on its disk.
func damage(t *rapid.T, records []domain.Record) []domain.Record {
	records = slices.Clone(records)
	for range rapid.IntRange(1, 6).Draw(t, "faults") {
		if len(records) == 0 {
			return records
		}
		at := rapid.IntRange(0, len(records)-1)
		i, j := at.Draw(t, "at"), at.Draw(t, "other")
		switch rapid.IntRange(0, 6).Draw(t, "fault") {
		case 0: // missing
			records = slices.Delete(records, i, i+1)
		case 1: // doubled, there or later
			records = slices.Insert(records, max(i, j), records[i])
		case 2: // out of order
			records[i], records[j] = records[j], records[i]
		case 3: // cut behind
			records = records[:i]
		case 4: // cut before
			records = records[i:]
		case 5: // a number that no hangar wrote
			n := rapid.SampledFrom([]string{"-9223372036854775808", "-1", "0", "2", "1000", "2000000", "9223372036854775807"}).Draw(t, "number")
			records[i].Data = numbers.ReplaceAllString(records[i].Data, `"$1":`+n)
		case 6: // members missing
			records[i].Data = "{}"
		}
	}
	return records
}

func replayDamaged[S any](t *rapid.T, s *stream[S]) S {
	records := damage(t, s.records)
	value, inPlace := s.replay(records)
	if d := diff(value, inPlace); d != "" {
		t.Fatalf("a damaged log gives two states:\n%s", d)
	}
	return value
}

// useJob does with a state what its readers do.
func useJob(s *job.State) {
	for _, n := range []int{-1, 0, 1, 2, 3, 1 << 40} {
		s.Subject(n)
		s.Prompt(n)
		s.Task(n)
		s.Turn(n)
		s.Conversation.Status(n)
		s.Open(n)
		if q := s.Question(n); q != nil {
			q.FormSchema()
			_ = q.CheckAnswer(json.RawMessage(`"x"`))
		}
		for _, c := range []job.Command{
			job.Answer{N: n, Answer: json.RawMessage(`"yes"`)}, job.ChangeStep{Turn: n},
			job.Record{Turn: n, Line: turn.Line{Kind: turn.LineStarted}}, job.Record{Turn: n, Line: turn.Line{Kind: turn.LineAsked, Ask: 1}},
			job.Close{Ended: turn.Ended{Turn: n, Status: turn.StatusFailed}},
		} {
			_, _ = job.Decide(s, c)
		}
	}
	s.Status()
	s.Done()
	s.SizeBytes()
	s.Current()
	for _, c := range []job.Command{job.Submit{}, job.FollowUp{Prompt: "yes", Task: &turn.TaskRequest{}}, job.Cancel{}} {
		_, _ = job.Decide(s, c)
	}
}

func useTask(l *ledger, s *task.State, j *job.State) {
	_, n := s.Subject()
	sub := j.Subject(n)
	s.Show(&sub)
	s.Visible(l.now)
	s.Deadline()
	s.SizeBytes()
	for _, c := range []task.Command{task.Create{}, task.Consent{Key: "answer-1"}, task.Refuse{Key: "answer-1", Subject: sub},
		task.Cancel{}, task.Observe{Subject: sub, At: l.now}, task.Expire{At: l.now}} {
		_, _ = task.Decide(s, c)
	}
}

// Numbers that no hangar wrote cost nothing, one by one and all together.
func TestDamagedNumbersAllocateLittle(t *testing.T) {
	s := newJob("job-x")
	for i, n := range []string{"-5", "0", "5000", "100000", "3000000", "1000000000", "9223372036854775807"} {
		s.records = append(s.records,
			damaged(i, turn.Queued{}, `{"turn":`+n+`}`), damaged(i, turn.Asked{}, `{"turn":1,"n":`+n+`}`),
			damaged(i, job.FollowUpRequested{}, `{"turn":`+n+`}`), damaged(i, turn.Ended{}, `{"turn":`+n+`,"status":"completed"}`))
	}
	value, _ := s.replay(s.records)
	if n := len(value.Turns) + len(value.Questions) + len(value.Prompts); n > 1 {
		t.Errorf("the fold made %d things of a damaged log", n)
	}
}

func damaged(i int, of event.Data, data string) domain.Record {
	return domain.Record{ID: "x", Stream: "job-x", Revision: int64(i), Type: string(of.EventType()), Version: 1,
		Time: "2026-05-01T12:00:00.000000Z", Data: data, Meta: "{}"}
}
