package projections_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/eventstore"
	"hangar/eventstore/memory"
	"hangar/migrations"
	"hangar/projections"
	"hangar/projections/jobs"
	"hangar/projections/tasks"
	"hangar/projections/tokens"
)

// house is a log with its views, in a bubble.
type house struct {
	t       *testing.T
	store   *memory.Store
	db      *sql.DB
	path    string
	runners []*projections.Runner
	rebuilt *notes
	stop    func()
}

// notes are what several goroutines said.
type notes struct {
	mu   sync.Mutex
	said []string
}

func (n *notes) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said = append(n.said, s)
}

func newHouse(t *testing.T, store *memory.Store, path string) *house {
	t.Helper()
	h := &house{t: t, store: store, path: path, rebuilt: &notes{}}
	db, err := projections.OpenViews(t.Context(), path, func(ctx context.Context, db *sql.DB) error {
		return migrations.Up(ctx, db, migrations.ViewFiles, migrations.Views)
	})
	if err != nil {
		t.Fatal(err)
	}
	h.db = db
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	for _, v := range []projections.View{jobs.NewView(), tasks.NewView(), tokens.NewView()} {
		r := projections.NewRunner(v, store, db, slog.New(slog.DiscardHandler), func(view, reason string) {
			h.rebuilt.add(view + ": " + reason)
		})
		h.runners = append(h.runners, r)
		go func() { r.Run(ctx); done <- struct{}{} }()
	}
	h.stop = func() {
		cancel()
		for range h.runners {
			<-done
		}
		db.Close()
	}
	return h
}

// caughtUp waits until the views know the whole log, but for those that halted.
func (h *house) caughtUp() (halted []string) {
	h.t.Helper()
	head, err := h.store.Head(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range h.runners {
		if err := r.CatchUp(h.t.Context(), head); err != nil {
			halted = append(halted, r.Name()+": "+err.Error())
		}
	}
	return halted
}

// dump is every row of every table but the checkpoints, in a canonical order.
func (h *house) dump() string {
	h.t.Helper()
	var b strings.Builder
	for _, table := range []string{"jobs", "tasks", "tokens"} {
		h.dumpTable(&b, table)
	}
	return b.String()
}

func (h *house) dumpTable(b *strings.Builder, table string) {
	h.t.Helper()
	rows, err := h.db.QueryContext(h.t.Context(), "SELECT * FROM "+table+" ORDER BY id")
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		h.t.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			h.t.Fatal(err)
		}
		b.WriteString(table)
		for i, c := range columns {
			fmt.Fprintf(b, " %s=%v", c, *(values[i].(*any)))
		}
		b.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
}

// put appends events to a stream, wherever it ends.
func put(t *testing.T, store eventstore.Store, stream domain.Stream, owner domain.Owner, data ...event.Data) {
	t.Helper()
	have, err := store.ReadStream(t.Context(), stream, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	head := eventstore.HeadOf(have)
	id := domain.DerivedCommand(string(stream), fmt.Sprint(head.Revision))
	meta, err := event.EncodeMeta(event.Meta{Tenant: owner.Tenant, Principal: owner.Principal, CommandID: id})
	if err != nil {
		t.Fatal(err)
	}
	var drafts []eventstore.Draft
	for i, d := range data {
		typ, version, text, err := event.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		drafts = append(drafts, eventstore.Draft{ID: domain.RecordID(id, stream, i), Type: string(typ), Version: version,
			Time: domain.FormatTime(time.Now()), Data: text, Meta: meta})
	}
	if _, err := store.Append(t.Context(), stream, head, drafts...); err != nil {
		t.Fatal(err)
	}
}

var ann = domain.Owner{Tenant: "default", Principal: "ann"}

func jobStream(n int) domain.Stream {
	return domain.Stream(domain.EntityID(job.Category, domain.CommandID(fmt.Sprint(n))))
}

// fill makes a log of jobs at every status, a task for each, and a token.
func fill(t *testing.T, store eventstore.Store) {
	t.Helper()
	for n := range 12 {
		stream := jobStream(n)
		put(t, store, stream, ann, job.Submitted{Prompt: "x", Agent: "shell", Labels: map[string]string{"n": fmt.Sprint(n)}}, turn.Queued{Turn: 1})
		handle := task.Handle([]byte("k"), task.Key{Target: task.Hangar, ID: task.SubjectTask(string(stream), 1), Generation: 1})
		put(t, store, domain.Stream(handle), ann, task.Created{Handle: handle, Target: task.Hangar,
			TargetTaskID: task.SubjectTask(string(stream), 1), Generation: 1, Owner: ann, Tool: "submit_job", TTLMs: 60_000})
		if n%3 > 0 {
			put(t, store, stream, ann, turn.Started{Turn: 1, Agent: "shell", BootID: "b"}, turn.Asked{Turn: 1, N: 1, Text: "?", Kind: turn.KindQuestion})
		}
		if n%3 > 1 {
			put(t, store, stream, ann, turn.Ended{Turn: 1, Status: turn.StatusCompleted}, job.Finished{Turn: 1, Status: turn.StatusCompleted})
			put(t, store, domain.Stream(handle), ann, task.Completed{Subject: string(stream)})
		}
	}
	put(t, store, access.TokenStream("abc"), ann, access.TokenIssued{Tenant: "default", Principal: "ann", Scopes: access.Default})
}

func inHouse(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open(memory.Options{})
		h := newHouse(t, store, filepath.Join(t.TempDir(), "views.db"))
		test(t, h)
		h.stop()
		store.Close()
	})
}

func TestListsShowWhatTheLogSays(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		fill(t, h.store)
		if halted := h.caughtUp(); halted != nil {
			t.Fatal(halted)
		}
		table := jobs.NewTable(h.db)
		for status, want := range map[job.Status]int{job.Queued: 4, job.Waiting: 4, job.Completed: 4, job.Failed: 0, "": 12} {
			got, err := table.List(t.Context(), jobs.Query{Owner: ann, Status: status, Limit: 100})
			if err != nil || len(got) != want {
				t.Errorf("%q lists %d jobs, want %d (%v)", status, len(got), want, err)
			}
		}
		got, err := table.List(t.Context(), jobs.Query{Owner: ann, LabelKey: "n", LabelValue: "7", Limit: 10})
		if err != nil || len(got) != 1 || got[0].ID != domain.JobID(jobStream(7)) {
			t.Errorf("the label finds %v, %v", got, err)
		}
		if got, _ := table.List(t.Context(), jobs.Query{Owner: domain.Owner{Tenant: "default", Principal: "bob"}, Limit: 10}); len(got) != 0 {
			t.Errorf("bob sees %v", got)
		}
		live, err := table.Live(t.Context())
		if err != nil || len(live) != 8 || live[0].ID != domain.JobID(jobStream(0)) {
			t.Errorf("live are %v, %v", live, err)
		}
		list := tasks.NewTable(h.db)
		if due, err := list.Due(t.Context(), time.Now().Add(time.Minute), 100); err != nil || len(due) != 12 {
			t.Errorf("%d tasks are due in a minute (%v)", len(due), err)
		}
		if due, err := list.Due(t.Context(), time.Now(), 100); err != nil || len(due) != 0 {
			t.Errorf("%d tasks are due now (%v)", len(due), err)
		}
		if l, err := list.Live(t.Context()); err != nil || len(l) != 8 {
			t.Errorf("%d tasks are live (%v)", len(l), err)
		}
	})
}

func TestRebuildGivesTheSameRows(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		fill(t, h.store)
		h.caughtUp()
		want := h.dump()
		if strings.Count(want, "\n") != 25 {
			t.Fatalf("rows:\n%s", want)
		}
		for range 2 {
			if _, err := h.db.ExecContext(t.Context(), `INSERT OR REPLACE INTO jobs VALUES ('ghost', 1, 'default', 'ann', 'running', 0, '', '{}', '')`); err != nil {
				t.Fatal(err)
			}
			for _, r := range h.runners {
				if err := r.Rebuild(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(want, h.dump()); d != "" {
				t.Error(d)
			}
		}
		path := filepath.Join(t.TempDir(), "other.db")
		h.stop()
		*h = *newHouse(t, h.store, path)
		h.caughtUp()
		if d := cmp.Diff(want, h.dump()); d != "" {
			t.Error(d)
		}
	})
}

func TestViewGoesOnWhereItStood(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		fill(t, h.store)
		h.caughtUp()
		h.stop()
		put(t, h.store, jobStream(0), ann, turn.Started{Turn: 1, Agent: "shell", BootID: "b"})
		*h = *newHouse(t, h.store, h.path)
		h.caughtUp()
		got, err := jobs.NewTable(h.db).List(t.Context(), jobs.Query{Owner: ann, Status: job.Running, Limit: 10})
		if err != nil || len(got) != 1 || len(h.rebuilt.said) != 0 {
			t.Errorf("running are %v (%v), rebuilt %v", got, err, h.rebuilt.said)
		}
	})
}

func TestLogThatWentBackIsNoticed(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		fill(t, h.store)
		h.caughtUp()
		h.stop()
		h.store.Close()
		other := memory.Open(memory.Options{})
		put(t, other, jobStream(3), ann, job.Submitted{Prompt: "x", Agent: "shell"}, turn.Queued{Turn: 1})
		*h = *newHouse(t, other, h.path)
		h.caughtUp()
		if strings.Count(h.dump(), "\n") != 1 || len(h.rebuilt.said) != 3 {
			t.Errorf("rebuilt %v, rows:\n%s", h.rebuilt.said, h.dump())
		}
	})
}

func TestUnknownEventHaltsItsViewAlone(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		fill(t, h.store)
		h.caughtUp()
		stream := domain.Stream("job-aaaaaaaaaaaaaaaaaaaaaaaaaa")
		_, err := h.store.Append(t.Context(), stream, eventstore.NoStream, eventstore.Draft{ID: "x", Type: "JobPraised", Version: 1,
			Time: domain.FormatTime(time.Now()), Data: "{}", Meta: `{"command_id":"x"}`})
		if err != nil {
			t.Fatal(err)
		}
		put(t, h.store, access.TokenStream("def"), ann, access.TokenIssued{Tenant: "default", Principal: "bob", Scopes: access.Default})
		halted := h.caughtUp()
		if len(halted) != 1 || !strings.Contains(halted[0], "JobPraised") {
			t.Errorf("halted: %v", halted)
		}
		if list, err := tokens.NewTable(h.db).List(t.Context(), "default"); err != nil || len(list) != 2 {
			t.Errorf("tokens %v, %v", list, err)
		}
		s, err := h.runners[0].Status(t.Context())
		if err != nil || !strings.Contains(s.Halted, "JobPraised") {
			t.Errorf("status %+v, %v", s, err)
		}
	})
}
