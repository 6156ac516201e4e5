package task_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// Whatever happens, in whatever order: each thing ends once, nothing that was
// shown as the end changes, and the log alone gives every state again.
func TestAnyInterleaving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(t)
		if rapid.IntRange(0, 9).Draw(t, "early") > 0 { // else everything else comes first
			l.submit(t)
		}
		t.Repeat(l.actions())
		l.checkLogs()
	})
}

// check is what holds after each command.
func (l *ledger) check() {
	l.checkQuestions()
	for _, r := range l.tasks {
		l.checkTask(r)
	}
}

// checkJobBatch looks at what one command wrote to the job; open is how many
// turns were not over before it.
func (l *ledger) checkJobBatch(open int, batch []event.Data) {
	s := &l.job.state
	ended := map[int]bool{}
	finished := 0
	for i, d := range batch {
		switch d := d.(type) {
		case turn.Ended:
			ended[d.Turn] = true
		case job.Finished:
			finished++
			if l.unended() > 0 || i != len(batch)-1 {
				l.t.Fatalf("the job is finished with turns to run: %s", dump(s.Turns))
			}
		}
	}
	if len(ended) > 0 && l.unended() == 0 && finished != 1 {
		l.t.Fatalf("the last turn ended, and the job finished %d times", finished)
	}
	if len(ended) == 0 && finished > 0 {
		l.t.Fatal("the job finished with no turn's end")
	}
	for n := range ended {
		at := s.Turn(n)
		if at.CloseRevision != s.Revision || at.CloseHash != s.Hash {
			l.t.Fatalf("turn %d is closed at revision %d, its batch ends at %d", n, at.CloseRevision, s.Revision)
		}
		if q := s.Open(n); len(q) > 0 {
			l.t.Fatalf("turn %d ended with open questions: %v", n, q)
		}
	}
	if l.unended() > 0 && s.Finished != nil {
		l.t.Fatal("a job with a turn to run is finished")
	}
	ends := map[int]int{}
	for _, e := range l.job.events {
		if d, ok := e.Data.(turn.Ended); ok {
			if ends[d.Turn]++; ends[d.Turn] > 1 {
				l.t.Fatalf("turn %d ended twice", d.Turn)
			}
		}
	}
}

func (l *ledger) checkQuestions() {
	asked := map[string]string{}
	perTurn := map[int]int{}
	for i, q := range l.job.state.Questions {
		if q.N != i+1 || q.Turn == 0 {
			l.t.Fatalf("question %d is numbered %d", i+1, q.N)
		}
		perTurn[q.Turn]++
		if q.Ask != perTurn[q.Turn] || q.Text != questionText(q.Turn, q.Ask) {
			l.t.Fatalf("%s is ask %d of turn %d, and says %q", q.Key(), q.Ask, q.Turn, q.Text)
		}
	}
	for _, e := range l.job.events {
		if d, ok := e.Data.(turn.Asked); ok {
			key := (&turn.Question{N: d.N}).Key()
			if other, twice := asked[key]; twice {
				l.t.Fatalf("%s asks %q and %q", key, other, d.Text)
			}
			asked[key] = d.Text
		}
	}
}

func (l *ledger) checkTask(r *registered) {
	terminal, created, expired := 0, 0, 0
	consents := map[string]bool{}
	for _, e := range r.events {
		switch d := e.Data.(type) {
		case task.Created:
			created++
		case task.Completed, task.Failed, task.Cancelled:
			terminal++
		case task.Expired:
			expired++
		case task.ConsentDecided:
			if consents[d.Key] {
				l.t.Fatalf("%s was decided twice", d.Key)
			}
			consents[d.Key] = true
		}
	}
	if terminal > 1 || created != 1 || expired > 1 {
		l.t.Fatalf("a task was created %d times, ended %d times, expired %d times", created, terminal, expired)
	}
	if r.state.Ended() != (terminal == 1) {
		l.t.Fatal("a task's end is not the one on record")
	}
	l.checkFrozen(r)
	l.checkExpiry(r)
}

// checkFrozen: what is shown of an ended task never changes, whatever becomes of
// its subject. Its result is pinned at a record of the subject that is there.
func (l *ledger) checkFrozen(r *registered) {
	if !r.state.Ended() {
		return
	}
	now := l.job.state.Subject(r.asked.Turn)
	for _, sub := range []*turn.Subject{&now, &r.subject, {}} {
		if shown := dump(r.state.Show(sub)); shown != r.atEnd {
			l.t.Fatalf("an ended task is shown otherwise:\n%s\n%s", r.atEnd, shown)
		}
	}
	if c := r.state.Completed; c != nil {
		at := l.job.records[c.AtRevision]
		if string(c.SubjectHash) != at.Hash {
			l.t.Fatalf("the result is pinned at revision %d by another hash", c.AtRevision)
		}
	}
	for _, c := range []task.Command{task.Cancel{}, task.Observe{Subject: now, At: l.now}, task.Consent{Key: "answer-1"}, task.Refuse{Key: "answer-1", Subject: now}} {
		if batch, err := task.Decide(&r.state, c); err != nil || len(batch) > 0 {
			l.t.Fatalf("%T adds to an ended task: %v, %v", c, batch, err)
		}
	}
}

// checkExpiry: the door that shows and the sweeper that writes judge alike, at
// every instant.
func (l *ledger) checkExpiry(r *registered) {
	instants := []time.Time{l.now, r.state.CreatedAt, r.state.CreatedAt.Add(1000 * time.Hour)}
	if deadline, ok := r.state.Deadline(); ok {
		instants = append(instants, deadline, deadline.Add(-time.Nanosecond), deadline.Add(time.Nanosecond))
	}
	for _, at := range instants {
		batch, err := task.Decide(&r.state, task.Expire{At: at})
		if err != nil {
			l.t.Fatal(err)
		}
		if visible := r.state.Visible(at); visible != (!r.state.Expired && len(batch) == 0) {
			l.t.Fatalf("at %v the handle is served: %t, and expiry writes %d events", at, visible, len(batch))
		}
	}
}

// checkLogs is what holds of whole logs.
func (l *ledger) checkLogs() {
	checkLog(l.t, l.job)
	for _, r := range l.tasks {
		checkLog(l.t, r.stream)
	}
	for _, k := range l.seen {
		if dump(k.value) != k.text {
			l.t.Fatalf("a subject that was handed out has changed:\n%s\n%s", k.text, dump(k.value))
		}
	}
}

// checkLog: the fold of the log is the state that was reached, at every length,
// by value and in place, and no state that was handed out has changed.
func checkLog[S any](t *rapid.T, s *stream[S]) {
	if d := diff(s.state, s.fold); d != "" {
		t.Fatalf("evolved by value and in place, %s differs:\n%s", s.name.Category(), d)
	}
	// Two that continue from one state, such as a cache and a command, are apart.
	for i := range len(s.kept) - 1 {
		e := s.events[i+1]
		e.ID, e.Meta.CommandID = "another", "another"
		s.evolve(s.kept[i].value, e)
	}
	for i := range s.kept {
		if now := dump(s.kept[i].value); now != s.kept[i].text {
			t.Fatalf("the state handed out at revision %d has changed:\n%s", i, cmp.Diff(s.kept[i].text, now))
		}
	}
	value, inPlace := s.replay(s.records)
	for _, folded := range []S{value, inPlace} {
		if d := diff(s.state, folded); d != "" {
			t.Fatalf("the fold of the log is not the state reached:\n%s", d)
		}
	}
	// Cut anywhere, a log gives the state that was reached there; and goes on
	// from it.
	if len(s.records) == 0 {
		return
	}
	cut := rapid.IntRange(0, len(s.records)-1).Draw(t, "cut")
	_, head := s.replay(s.records[:cut+1])
	if d := cmp.Diff(s.kept[cut].text, dump(head)); d != "" {
		t.Fatalf("cut after revision %d the log gives another state:\n%s", cut, d)
	}
	for _, r := range s.records[cut+1:] {
		s.inPlace(&head, decode(r))
	}
	if d := diff(s.state, head); d != "" {
		t.Fatalf("continued from revision %d the fold gives another state:\n%s", cut, d)
	}
}
