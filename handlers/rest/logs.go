package rest

import (
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
)

// TurnHeader names, in an answer with output, the turn whose it is.
const TurnHeader = "Hangar-Turn"

// jobLogs gives what the agent of a job printed: of its newest turn that has begun,
// or of the turn named. Ranges work as for any file, so "bytes=-4096" is the end.
func (a *api) jobLogs(r *request) error {
	if err := r.require(access.Jobs); err != nil {
		return err
	}
	if err := r.known("turn"); err != nil {
		return err
	}
	n, err := r.number("turn", 0, 1, 1_000_000)
	if err != nil {
		return err
	}
	s, err := a.States.Job(r.Context(), domain.JobID(chi.URLParam(r.Request, "id")))
	if err != nil {
		return err
	}
	if !s.Exists() || !r.reaches(s.Owner) {
		return job.Unknown()
	}
	if n == 0 {
		n = begun(s)
	}
	if s.Turn(n) == nil {
		return domain.Errorf(domain.NotFound, "turn: no agent has begun to work on this job's turn")
	}
	f, err := a.Outputs.OpenOutput(s.ID, n)
	if errors.Is(err, fs.ErrNotExist) {
		return domain.Errorf(domain.NotFound, "nothing that the agent printed in turn %d was kept", n)
	}
	if err != nil {
		return domain.Wrap(domain.Unavailable, err, "the output cannot be read")
	}
	defer f.Close() // it was only read
	h := r.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(TurnHeader, string(domain.TurnOf(s.ID, n)))
	http.ServeContent(r.w, r.Request, "", time.Time{}, f)
	return nil
}

// begun gives the newest turn that an agent has begun, 0 for none.
func begun(s *job.State) int {
	for _, t := range slices.Backward(s.Turns) {
		if !t.StartedAt.IsZero() {
			return t.N
		}
	}
	return 0
}
