package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/projections"
)

// ViewStatus is how one view stands.
type ViewStatus struct {
	Name     string          `json:"name"`
	Position domain.Position `json:"position"`
	Head     domain.Position `json:"head"`
	Halted   string          `json:"halted,omitempty"`
}

// ViewList is the answer to GET /v1/projections, and to a rebuild.
type ViewList struct {
	Projections []ViewStatus `json:"projections"`
}

// ListViews gives the views as they are listed.
func ListViews(list []projections.Status) ViewList {
	out := ViewList{Projections: make([]ViewStatus, len(list))}
	for i, s := range list {
		out.Projections[i] = ViewStatus{Name: s.View, Position: s.Position, Head: s.Head, Halted: s.Halted}
	}
	return out
}

func (a *api) listViews(r *request) error {
	if err := r.require(access.Admin); err != nil {
		return err
	}
	if err := r.known(); err != nil {
		return err
	}
	list, err := a.Views.Status(r.Context())
	if err != nil {
		return err
	}
	answer(r.w, http.StatusOK, ListViews(list))
	return nil
}

// rebuildViews answers when what it rebuilt has caught up.
func (a *api) rebuildViews(r *request) error {
	if err := r.require(access.Admin); err != nil {
		return err
	}
	if err := r.known(); err != nil {
		return err
	}
	if err := a.Views.Rebuild(r.Context(), chi.URLParam(r.Request, "name")); err != nil {
		return err
	}
	return a.listViews(r)
}
