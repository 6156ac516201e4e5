package react_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/redact"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/eventstore/memory"
	"hangar/handlers/agent/scripted"
	"hangar/handlers/react"
	"hangar/migrations"
	"hangar/projections"
	"hangar/projections/jobs"
	"hangar/projections/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a control plane without wires: a log, views, and the scripted agent.
// It lives in one synctest bubble, restarts included.
type world struct {
	t        *testing.T
	store    *memory.Store
	folds    *projections.Folds
	commands *commands.Commands
	agents   *agents
	places   *places
	limits   react.Limits
	ttl      time.Duration
	views    string
	hook     func(string)
	before   func(*agents) // what the agents did before the server was started
	stop     func()
}

// agents is the scripted runner under one name.
type agents struct {
	*scripted.Runner
	starts atomic.Int32
	kept   []domain.TurnID
}

func (a *agents) Start(ctx context.Context, as turn.Assignment) error {
	a.starts.Add(1)
	return a.Runner.Start(ctx, as)
}

func (a *agents) Next(ctx context.Context, _ string, id domain.TurnID, after int) (turn.Line, error) {
	return a.Runner.Next(ctx, id, after)
}

func (a *agents) Answer(ctx context.Context, _ string, id domain.TurnID, ask int, answer json.RawMessage) error {
	return a.Runner.Answer(ctx, id, ask, answer)
}

func (a *agents) Stop(ctx context.Context, _ string, id domain.TurnID) error {
	return a.Runner.Stop(ctx, id)
}

func (a *agents) Release(ctx context.Context, _ string, id domain.TurnID) error {
	return a.Runner.Release(ctx, id, "")
}

func (a *agents) Kept(context.Context) ([]domain.TurnID, error) { return a.kept, nil }

// places are workspaces that are nowhere.
type places struct {
	prepare func(ctx context.Context) error
	mu      sync.Mutex
	made    map[domain.JobID]bool
}

func (p *places) Prepare(ctx context.Context, id domain.JobID) (turn.Folders, error) {
	if p.prepare != nil {
		if err := p.prepare(ctx); err != nil {
			return turn.Folders{}, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[id] = true
	return turn.Folders{Root: "/nowhere", Repo: "/nowhere/repo"}, nil
}

func (p *places) Collect(context.Context, domain.JobID, turn.Folders, []turn.Line, []string) ([]turn.Artifact, []string, error) {
	return nil, nil, nil
}

func (p *places) Remove(_ context.Context, id domain.JobID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.made, id)
	return nil
}

func (p *places) Kept(context.Context) ([]domain.JobID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []domain.JobID
	for id := range p.made {
		list = append(list, id)
	}
	return list, nil
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: memory.Open(memory.Options{}), places: &places{made: map[domain.JobID]bool{}},
		limits: react.Limits{Running: 2, Timeout: time.Hour, Keep: 24 * time.Hour}, ttl: 24 * time.Hour, views: filepath.Join(t.TempDir(), "views.db")}
	w.start()
	return w
}

// start is a server's start on the world's log.
func (w *world) start() {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	var folds *projections.Folds
	w.store = w.store.Reopen(memory.Options{Observer: func(r []domain.Record) { folds.Observe(r) }})
	folds = projections.NewFolds(w.store, projections.FoldBytes)
	w.folds = folds
	secret := domain.NewSecret([32]byte{1})
	w.commands = commands.New(w.store, domain.SystemClock{}, random{}, secret, redact.New(secret, nil),
		commands.Settings{TaskTTL: w.ttl, PollInterval: 5 * time.Second})
	w.agents = &agents{Runner: scripted.New(string(w.commands.NewID()), domain.SystemClock{})}
	if w.before != nil {
		w.before(w.agents)
	}
	db, err := projections.OpenViews(w.t.Context(), w.views, func(ctx context.Context, db *sql.DB) error {
		return migrations.Up(ctx, db, migrations.ViewFiles, migrations.Views)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan struct{}, 3)
	runners := []*projections.Runner{
		projections.NewRunner(jobs.NewView(), w.store, db, log, nil),
		projections.NewRunner(tasks.NewView(), w.store, db, log, nil),
	}
	for _, r := range runners {
		go func() { r.Run(ctx); done <- struct{}{} }()
	}
	head, _ := w.store.Head(ctx)
	for _, r := range runners {
		if err := r.CatchUp(ctx, head); err != nil {
			w.t.Fatal(err)
		}
	}
	r := react.New(react.Deps{Store: w.store, Commands: w.commands, Folds: w.folds, Jobs: jobs.NewTable(db), Tasks: tasks.NewTable(db),
		Agents: w.agents, Workspaces: w.places, Limits: w.limits, Clock: domain.SystemClock{}, Log: log, Hook: w.hook,
		CaughtUp: func(ctx context.Context) error {
			head, err := w.store.Head(ctx)
			for _, r := range runners {
				err = errors.Join(err, r.CatchUp(ctx, head))
			}
			return err
		},
	})
	go func() {
		if err := r.Run(ctx); err != nil {
			w.t.Error(err)
		}
		done <- struct{}{}
	}()
	w.stop = func() {
		cancel()
		for range 3 {
			<-done
		}
		w.agents.Close()
		db.Close()
	}
}

func (w *world) restart() { w.stop(); w.start() }

type random struct{}

func (random) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return len(b), nil
}

var owner = domain.Owner{Tenant: "default", Principal: "ann"}

// submit submits a script, with a task that may be asked where form is true.
func (w *world) submit(script string, form bool) (domain.JobID, domain.TaskID) {
	w.t.Helper()
	r, err := w.commands.SubmitJob(w.t.Context(), commands.Origin{Owner: owner, ID: w.commands.NewID()}, commands.SubmitJob{
		Submitted: job.Submitted{Prompt: script, Agent: "scripted", Task: w.commands.Request(turn.TaskRequest{
			Owner: owner, Tool: "submit_job", Capabilities: turn.Capabilities{Form: form},
		})},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	created, err := w.commands.CreateTask(w.t.Context(), r.Job, r.Asked)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Job.ID, created.Created.Handle
}

func (w *world) job(id domain.JobID) *job.State {
	w.t.Helper()
	s, err := w.folds.Job(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) task(id domain.TaskID) (*task.State, task.Snapshot) {
	w.t.Helper()
	s, err := w.folds.Task(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	_, sub, err := w.folds.Subject(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return s, s.Show(&sub)
}

// until waits until a job is as wanted.
func (w *world) until(id domain.JobID, want job.Status) *job.State {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	s, err := projections.Await(ctx, w.folds, projections.Jobs, domain.Stream(id), func(s *job.State) bool { return s.Status() == want })
	if err != nil {
		if s == nil {
			s = &job.State{}
		}
		w.t.Fatalf("job is %s, not %s: %v", s.Status(), want, err)
	}
	synctest.Wait()
	return w.job(id)
}

// in runs a test in a bubble with a world of its own.
func in(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(w)
		w.stop()
		w.store.Close()
	})
}

func TestJobRunsToItsEnd(t *testing.T) {
	in(t, func(w *world) {
		id, handle := w.submit("step reading\nwork 3s\nsay done", true)
		s := w.until(id, job.Completed)
		if got := s.Turns[0].End; got.Summary != "reading" || got.Status != turn.StatusCompleted {
			t.Errorf("the turn ended as %+v", got)
		}
		ts, shown := w.task(handle)
		if shown.Status != turn.StatusCompleted || ts.Completed.AtRevision != s.Revision || string(ts.Completed.SubjectHash) != s.Hash {
			t.Errorf("task shows %v, completed %+v at job revision %d", shown, ts.Completed, s.Revision)
		}
	})
}

func TestFailuresSayWhyAndNotWhatWasPrinted(t *testing.T) {
	in(t, func(w *world) {
		id, _ := w.submit("say no luck\nfail 7", true)
		s := w.until(id, job.Failed)
		if got := s.Finished; got.Code != turn.AgentExited || got.Message != "the agent ended with exit code 7" {
			t.Errorf("finished as %+v", got)
		}
		if got := s.Turns[0].End.Message; got != "no luck" && got != "no luck\n" {
			t.Errorf("message %q", got)
		}
	})
}

func TestQuestionIsAnsweredByTask(t *testing.T) {
	in(t, func(w *world) {
		id, handle := w.submit("ask Which? | red | blue\nsay chose {answer}", true)
		w.until(id, job.Waiting)
		_, shown := w.task(handle)
		if shown.Status != turn.StatusWaiting || shown.Open[0].Key() != "answer-1" {
			t.Fatalf("task shows %+v", shown)
		}
		o := commands.Origin{Owner: owner, ID: domain.DerivedCommand(string(handle), "answer-1")}
		if _, err := w.commands.AnswerQuestion(t.Context(), o, id, job.Answer{N: 1, Answer: json.RawMessage(`"blue"`), Via: turn.ViaTask}); err != nil {
			t.Fatal(err)
		}
		s := w.until(id, job.Completed)
		if got := s.Turns[0].End.Message; got != "chose blue" && got != "chose blue\n" {
			t.Errorf("message %q", got)
		}
		ts, shown := w.task(handle)
		if shown.Status != turn.StatusCompleted || !ts.Consents["answer-1"].Granted {
			t.Errorf("task shows %v with consents %v", shown, ts.Consents)
		}
	})
}

func TestQuestionNobodyCanBeAskedEndsTheTask(t *testing.T) {
	in(t, func(w *world) {
		id, handle := w.submit("ask Which?\nsay {answer}", false)
		s := w.until(id, job.Waiting)
		ts, shown := w.task(handle)
		if shown.Status != turn.StatusCompleted || !ts.Denied || ts.Completed.AtRevision != s.Revision {
			t.Errorf("task shows %v, completed %+v", shown, ts.Completed)
		}
		o := commands.Origin{Owner: owner, ID: w.commands.NewID()}
		if _, err := w.commands.FollowUpJob(t.Context(), o, commands.FollowUpJob{Job: id, FollowUp: job.FollowUp{Prompt: "blue"}}, nil); err != nil {
			t.Fatal(err)
		}
		w.until(id, job.Completed)
		if _, after := w.task(handle); after.LastUpdatedAt != shown.LastUpdatedAt || after.Message != shown.Message {
			t.Errorf("what a final task shows changed from %v to %v", shown, after)
		}
	})
}

func TestCancelReachesTheAgent(t *testing.T) {
	in(t, func(w *world) {
		id, handle := w.submit("step on it\nhang", true)
		w.until(id, job.Running)
		if err := w.commands.CancelTask(t.Context(), commands.Origin{Owner: owner, ID: w.commands.NewID()}, handle, ""); err != nil {
			t.Fatal(err)
		}
		w.until(id, job.Cancelled)
		if _, shown := w.task(handle); shown.Status != turn.StatusCancelled {
			t.Errorf("task shows %v", shown)
		}
	})
}

func TestAgentsWaitInLine(t *testing.T) {
	in(t, func(w *world) {
		var ids []domain.JobID
		for range 5 {
			id, _ := w.submit("work 10s\nsay done", true)
			ids = append(ids, id)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for i, want := range []job.Status{job.Running, job.Running, job.Queued, job.Queued, job.Queued} {
			if got := w.job(ids[i]).Status(); got != want {
				t.Errorf("job %d is %s, want %s", i, got, want)
			}
		}
		var last time.Time
		for _, id := range ids {
			s := w.until(id, job.Completed)
			if s.Turns[0].StartedAt.Before(last) {
				t.Error("a job overtook another")
			}
			last = s.Turns[0].StartedAt
		}
	})
}

func TestWaitingTurnHoldsNoSlot(t *testing.T) {
	in(t, func(w *world) {
		for range 2 {
			id, _ := w.submit("ask Go on?\nsay yes", true)
			w.until(id, job.Waiting)
		}
		id, _ := w.submit("say done", true)
		w.until(id, job.Completed)
	})
}

func TestRestartLosesScriptedAgentsHonestly(t *testing.T) {
	in(t, func(w *world) {
		w.limits.Running = 1
		w.restart()
		running, handle := w.submit("ask Which?\nsay {answer}", true)
		w.until(running, job.Waiting)
		hanging, _ := w.submit("hang", true)
		w.until(hanging, job.Running)
		queued, _ := w.submit("say done", true)
		w.restart()
		s := w.until(running, job.Failed)
		if got := s.Turns[0].End.Code; got != turn.AgentLost {
			t.Errorf("the turn ended with code %s", got)
		}
		if q := s.Questions[0]; q.Withdrawn == "" {
			t.Error("the question of a lost agent stays open")
		}
		if ts, shown := w.task(handle); shown.Status != turn.StatusCompleted || !ts.Completed.IsError {
			t.Errorf("task shows %v", shown)
		}
		w.until(queued, job.Completed)
	})
}

func TestAgentThatBeganTooLateIsStopped(t *testing.T) {
	in(t, func(w *world) {
		id, _ := w.submit("hang", true)
		w.until(id, job.Running)
		if _, err := w.commands.CancelJob(t.Context(), commands.Origin{Owner: owner, ID: w.commands.NewID()}, id, "", nil); err != nil {
			t.Fatal(err)
		}
		w.until(id, job.Cancelled)
		late := domain.TurnOf(id, 1)
		w.before = func(a *agents) {
			a.kept = []domain.TurnID{late}
			if err := a.Runner.Start(t.Context(), turn.Assignment{Turn: late, Prompt: "hang"}); err != nil {
				t.Fatal(err)
			}
		}
		w.restart()
		time.Sleep(time.Minute)
		if line, err := w.agents.Runner.Next(t.Context(), late, 0); !errors.Is(err, turn.ErrUnknownTurn) {
			t.Errorf("the agent is still there: %+v, %v", line, err)
		}
	})
}

func TestFinishedJobsStayFinishedWithoutViews(t *testing.T) {
	in(t, func(w *world) {
		w.limits.Running = 8
		w.restart()
		var ids []domain.JobID
		for range 100 {
			id, _ := w.submit("say done", true)
			ids = append(ids, id)
		}
		for _, id := range ids {
			w.until(id, job.Completed)
		}
		head, _ := w.store.Head(t.Context())
		w.stop()
		w.views = filepath.Join(t.TempDir(), "other.db")
		w.start()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if after, _ := w.store.Head(t.Context()); after != head || w.agents.starts.Load() != 0 {
			t.Errorf("the log went from %d to %d and %d agents were started", head, after, w.agents.starts.Load())
		}
	})
}

func TestTaskAskedForIsRegisteredByItsKeeper(t *testing.T) {
	in(t, func(w *world) {
		r, err := w.commands.SubmitJob(t.Context(), commands.Origin{Owner: owner, ID: w.commands.NewID()}, commands.SubmitJob{
			Submitted: job.Submitted{Prompt: "work 10s\nsay done", Agent: "scripted", Task: w.commands.Request(turn.TaskRequest{Owner: owner, Tool: "submit_job"})},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.until(r.Job.ID, job.Completed)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, shown := w.task(w.commands.HandleOf(string(r.Job.ID), 1)); shown.Status != turn.StatusCompleted {
			t.Errorf("task shows %v", shown)
		}
	})
}

func TestHandleExpiresAndTheJobGoesOn(t *testing.T) {
	in(t, func(w *world) {
		w.ttl = 5 * time.Minute
		w.restart()
		id, handle := w.submit("ask Which?\nsay {answer}", true)
		w.until(id, job.Waiting)
		time.Sleep(w.ttl + time.Minute)
		synctest.Wait()
		ts, _ := w.task(handle)
		if !ts.Expired || ts.Ended() || ts.Visible(time.Now()) {
			t.Errorf("expired %v, ended %v", ts.Expired, ts.Ended())
		}
		if got := w.job(id).Status(); got != job.Waiting {
			t.Errorf("the job is %s", got)
		}
	})
}

func TestStepThatFailsForGoodEndsTheTurn(t *testing.T) {
	in(t, func(w *world) {
		w.places.prepare = func(context.Context) error { return domain.Errorf(domain.Unsupported, "no room") }
		id, _ := w.submit("say done", true)
		s := w.until(id, job.Failed)
		if s.Finished.Code != turn.Workspace || s.Finished.Message != "no room" {
			t.Errorf("finished as %+v", s.Finished)
		}
	})
}

func TestStepThatFailsForNowIsTriedAgain(t *testing.T) {
	in(t, func(w *world) {
		var times atomic.Int32
		w.places.prepare = func(context.Context) error {
			if times.Add(1) < 4 {
				return errors.New("the disk is slow today")
			}
			return nil
		}
		id, _ := w.submit("say done", true)
		w.until(id, job.Completed)
	})
}

func TestStepThatNeverEndsHoldsItsOwnSubject(t *testing.T) {
	in(t, func(w *world) {
		never := make(chan struct{})
		var times atomic.Int32
		w.places.prepare = func(context.Context) error {
			if times.Add(1) == 1 {
				<-never
			}
			return nil
		}
		stuck, _ := w.submit("say done", true)
		other, _ := w.submit("say done", true)
		w.until(other, job.Completed)
		w.until(stuck, job.Completed)
		close(never)
	})
}
