package rest

import (
	"net/http"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

// The bounds of a list.
const (
	defaultLimit = 50
	maxLimit     = 1000
)

// TaskView is a task as it is listed.
type TaskView struct {
	ID        domain.TaskID    `json:"id"`
	Status    mcp.Status       `json:"status"`
	Message   string           `json:"message,omitempty"`
	Tool      string           `json:"tool"`
	Job       string           `json:"job,omitempty"`
	Owner     domain.Principal `json:"owner"`
	CreatedAt string           `json:"created_at"`
	UpdatedAt string           `json:"updated_at"`
}

// TaskViews is the answer to GET /v1/tasks.
type TaskViews struct {
	Tasks []TaskView `json:"tasks"`
}

// listTasks gives the caller's tasks that are still served, an administrator all
// of its tenant, newest first, each as it stands now.
func (a *api) listTasks(r *request) error {
	if err := r.known("limit"); err != nil {
		return err
	}
	limit, err := r.number("limit", defaultLimit, 1, maxLimit)
	if err != nil {
		return err
	}
	listed, err := a.Tasks.List(r.Context(), r.Owner, r.Scopes.Admin(), a.Clock.Now(), limit)
	if err != nil {
		return domain.Wrap(domain.Unavailable, err, "the list of tasks cannot be read; try again later")
	}
	out := TaskViews{Tasks: []TaskView{}}
	for _, l := range listed {
		v, ok, err := a.taskView(r, l.ID)
		if err != nil {
			return err
		}
		if ok {
			out.Tasks = append(out.Tasks, v)
		}
	}
	answer(r.w, http.StatusOK, out)
	return nil
}

// taskView gives a task of a list from its own stream, which is ahead of lists; ok
// is false where it is not served any more or not to this caller.
func (a *api) taskView(r *request, id domain.TaskID) (v TaskView, ok bool, err error) {
	t, err := a.States.Task(r.Context(), id)
	if err != nil || !t.Visible(a.Clock.Now()) || !r.reaches(t.Created.Owner) {
		return TaskView{}, false, err
	}
	_, sub, err := a.States.Subject(r.Context(), t)
	if err != nil {
		return TaskView{}, false, err
	}
	shown := t.Show(&sub)
	job, _ := t.Subject()
	return TaskView{ID: id, Status: wireStatus(shown), Message: shown.Message, Tool: t.Created.Tool, Job: job,
		Owner: t.Created.Owner.Principal, CreatedAt: domain.FormatTime(shown.CreatedAt), UpdatedAt: domain.FormatTime(shown.LastUpdatedAt)}, true, nil
}

// wireStatus gives the status as tasks/get names it.
func wireStatus(s task.Snapshot) mcp.Status {
	switch s.Status {
	case turn.StatusWaiting:
		return mcp.InputRequests
	case turn.StatusCompleted:
		return mcp.Completed
	case turn.StatusFailed:
		return mcp.Failed
	case turn.StatusCancelled:
		return mcp.Cancelled
	case turn.StatusQueued, turn.StatusRunning:
	}
	return mcp.Working
}

// reaches reports whether the caller may see what an owner has: its own, and an
// administrator that of its tenant.
func (r *request) reaches(o domain.Owner) bool {
	return r.Owner == o || r.Scopes.Allow(access.Admin) && r.Owner.Tenant != "" && r.Owner.Tenant == o.Tenant
}
