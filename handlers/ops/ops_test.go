package ops_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hangar/domain"
	"hangar/handlers/ops"
	"hangar/projections"
)

// log is a log at a position, or one that cannot be read.
type log struct{ err error }

func (l log) Head(context.Context) (domain.Position, error) { return 42, l.err }

type views []projections.Status

func (v views) Status(context.Context) ([]projections.Status, error) { return v, nil }

func TestReady(t *testing.T) {
	t.Parallel()
	halted := views{{View: "jobs", Position: 40, Halted: "an event of tomorrow"}, {View: "tasks", Position: 42}}
	for _, c := range []struct {
		name    string
		log     log
		serving bool
		status  int
		want    string
	}{
		{"serving", log{}, true, http.StatusOK, `"ready":true,"head":42`},
		{"a halted view takes down its own lists only", log{}, true, http.StatusOK, `{"view":"jobs","position":40,"halted":"an event of tomorrow"}`},
		{"starting", log{}, false, http.StatusServiceUnavailable, "starting or stopping"},
		{"no log", log{errors.New("disk I/O error on /secret/path")}, true, http.StatusServiceUnavailable, "the event log cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			ops.New(c.log, func() bool { return c.serving }, halted).Ready(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, c.status, c.want)
			}
			if strings.Contains(w.Body.String(), "/secret/path") {
				t.Error("the cause is shown to everybody")
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	h := ops.New(log{}, func() bool { return true }, views{{View: "jobs", Position: 40, Halted: "x"}, {View: "tasks", Position: 42}})
	w := httptest.NewRecorder()
	h.Metrics(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		"hangar_eventstore_head 42", `hangar_projection_position{view="jobs"} 40`,
		`hangar_projection_halted{view="jobs"} 1`, `hangar_projection_halted{view="tasks"} 0`, "go_goroutines",
	} {
		if !strings.Contains(w.Body.String(), want+"\n") && !strings.Contains(w.Body.String(), want+" ") {
			t.Errorf("no %s in the figures", want)
		}
	}
}

func TestLive(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	ops.New(log{errors.New("gone")}, func() bool { return false }, views{}).Live(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
}
