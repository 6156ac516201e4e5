package projections_test

import (
	"testing"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/eventstore"
	"hangar/eventstore/memory"
	"hangar/projections"
)

func TestStatesByID(t *testing.T) {
	const (
		jobID  = "job-3knlkxnucflo42q673bap36tns"
		handle = "task-zyj3lso4trdoez4zhpq5sr47yg"
		second = "task-k2cv44ceqbr2av6qja4yb7ahk2"
		token  = "z5ypzifg25kokybkzy5l3oqky5"
	)
	alice := domain.Owner{Tenant: "acme", Principal: "alice"}
	var f *projections.Folds
	store := memory.Open(memory.Options{Observer: func(r []eventstore.Record) { f.Observe(r) }})
	f = projections.NewFolds(store, projections.FoldBytes)
	put(t, store, jobID, alice, job.Submitted{Prompt: "x", Task: &turn.TaskRequest{N: 1, Tool: "submit_job"}}, turn.Queued{Turn: 1})
	put(t, store, handle, alice, task.Created{Handle: handle, Target: task.Hangar, TargetTaskID: jobID + "/1", Tool: "submit_job"})
	put(t, store, second, alice, task.Created{Handle: second, Target: task.Hangar, TargetTaskID: jobID + "/2", Tool: "submit_job"})
	put(t, store, "access-"+token, alice, access.TokenIssued{Tenant: "acme", Principal: "alice", Scopes: access.Default})

	j, err := f.Job(t.Context(), jobID)
	if err != nil || j.ID != jobID || j.Status() != job.Queued {
		t.Errorf("the job is %+v, %v", j, err)
	}
	k, err := f.Token(t.Context(), token)
	if err != nil || k.ID != token || k.Owner.Principal != "alice" {
		t.Errorf("the token is %+v, %v", k, err)
	}
	x, err := f.Task(t.Context(), handle)
	if err != nil || x.Created.Handle != handle {
		t.Fatalf("the task is %+v, %v", x, err)
	}
	put(t, store, jobID, alice, turn.Started{Turn: 1, Agent: "a", BootID: "b"})
	of, sub, err := f.Subject(t.Context(), x)
	if err != nil || of.ID != jobID || sub.Turn != 1 || sub.Status != turn.StatusRunning {
		t.Errorf("the task's subject is %+v, %v", sub, err)
	}
	// The task of a request that the job does not hold has no turn.
	if y, err := f.Task(t.Context(), second); err != nil {
		t.Error(err)
	} else if _, sub, err := f.Subject(t.Context(), y); err != nil || sub.ID != jobID || sub.Turn != 0 || sub.Status != "" {
		t.Errorf("its subject is %+v, %v", sub, err)
	}
}

// What cannot be an id is looked for nowhere, and looks like what was never made.
func TestWhatIsNoIDIsNotLookedFor(t *testing.T) {
	log := newScribe()
	f := projections.NewFolds(log, 1<<20)
	for _, id := range []string{"", "job-", "task-", "audit-log", "job-../x", "task-3knlkxnucflo42q673bap36tn", "access-z5ypzifg25kokybkzy5l3oqky5"} {
		if j, err := f.Job(t.Context(), domain.JobID(id)); err != nil || j.Exists() {
			t.Errorf("the job %q is %+v, %v", id, j, err)
		}
		if x, err := f.Task(t.Context(), domain.TaskID(id)); err != nil || x.Exists() {
			t.Errorf("the task %q is %+v, %v", id, x, err)
		}
	}
	if _, sub, err := f.Subject(t.Context(), &task.State{}); err != nil || sub.Turn != 0 {
		t.Errorf("the subject of nothing is %+v, %v", sub, err)
	}
	if n := log.count(); n != 0 {
		t.Errorf("the log was read %d times", n)
	}
}
