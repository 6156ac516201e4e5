// Package ops tells operators how a server does: whether it lives, whether it is
// ready, and its figures. It needs no token, so it names views and positions and
// nothing that belongs to anybody.
package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hangar/domain"
	"hangar/projections"
)

// Log is what is asked of the log.
type Log interface {
	Head(ctx context.Context) (domain.Position, error)
}

// Views are what is asked of the views.
type Views interface {
	Status(ctx context.Context) ([]projections.Status, error)
}

// Health is how a server does.
type Health struct {
	log   Log
	views Views
	// serving is whether requests are taken.
	serving func() bool
	figures http.Handler
}

// checkTimeout bounds one look at the log, 2 s.
const checkTimeout = 2 * time.Second

// New makes the health of a server.
func New(log Log, serving func() bool, views Views) *Health {
	h := &Health{log: log, views: views, serving: serving}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), h)
	h.figures = promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	return h
}

var (
	headDesc     = prometheus.NewDesc("hangar_eventstore_head", "Position of the newest record.", nil, nil)
	positionDesc = prometheus.NewDesc("hangar_projection_position", "Position of the record a view took last.", []string{"view"}, nil)
	haltedDesc   = prometheus.NewDesc("hangar_projection_halted", "Whether a view takes no more.", []string{"view"}, nil)
)

// Describe is prometheus.Collector.
func (h *Health) Describe(ch chan<- *prometheus.Desc) {
	ch <- headDesc
	ch <- positionDesc
	ch <- haltedDesc
}

// Collect is prometheus.Collector.
func (h *Health) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if head, err := h.log.Head(ctx); err == nil {
		ch <- prometheus.MustNewConstMetric(headDesc, prometheus.GaugeValue, float64(head))
	}
	list, err := h.views.Status(ctx)
	if err != nil {
		return
	}
	for _, s := range list {
		halted := 0.0
		if s.Halted != "" {
			halted = 1
		}
		ch <- prometheus.MustNewConstMetric(positionDesc, prometheus.GaugeValue, float64(s.Position), s.View)
		ch <- prometheus.MustNewConstMetric(haltedDesc, prometheus.GaugeValue, halted, s.View)
	}
}

// Live answers 200 as long as the process serves at all.
func (h *Health) Live(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("ok\n"))
}

// report is the answer of /readyz.
type report struct {
	Ready bool            `json:"ready"`
	Why   string          `json:"why,omitempty"`
	Head  domain.Position `json:"head"`
	Views []viewReport    `json:"views"`
}

type viewReport struct {
	View     string          `json:"view"`
	Position domain.Position `json:"position"`
	Halted   string          `json:"halted,omitempty"`
}

// Ready answers 200 when requests are taken and the log can be read, else 503
// with the reason. A view that has halted takes down its own lists only.
func (h *Health) Ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	rep := report{Ready: h.serving(), Views: []viewReport{}}
	if !rep.Ready {
		rep.Why = "starting or stopping"
	}
	head, err := h.log.Head(ctx)
	if rep.Head = head; err != nil {
		rep.Ready, rep.Why = false, "the event log cannot be read"
	}
	list, _ := h.views.Status(ctx) // it fails where the log does
	for _, s := range list {
		rep.Views = append(rep.Views, viewReport{View: s.View, Position: s.Position, Halted: s.Halted})
	}
	w.Header().Set("Content-Type", "application/json")
	if !rep.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(rep) //nolint:errcheck,errchkjson // the client has gone
}

// Metrics gives the figures in Prometheus' form.
func (h *Health) Metrics(w http.ResponseWriter, r *http.Request) { h.figures.ServeHTTP(w, r) }
