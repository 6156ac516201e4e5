package modern

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hangar/handlers/mcp"
)

func benchTask() *mcp.Task {
	ttl := int64(86400000)
	return &mcp.Task{
		ID: "task-aaaaaaaaaaaaaaaaaaaaaaaaaa", Status: mcp.Working, StatusMessage: "submit_job started",
		CreatedAt: "2026-08-01T10:00:00.000000Z", LastUpdatedAt: "2026-08-01T10:00:00.000000Z", TTLMs: &ttl, PollIntervalMs: 5000,
		Meta: map[string]any{"hangar/job": "job-aaaaaaaaaaaaaaaaaaaaaaaaaa"},
	}
}

// bare is tasks/get with net/http and encoding/json and not one check: the floor
// that the wire is compared with.
func bare(task *mcp.Task) http.Handler {
	type request struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  struct {
			TaskID string `json:"taskId"`
		} `json:"params"`
	}
	type result struct {
		ResultType string `json:"resultType"`
		*mcp.Task
	}
	type response struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  result          `json:"result"`
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q request
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(response{"2.0", q.ID, result{"complete", task}})
	})
}

// nothing is a ResponseWriter that keeps nothing.
type nothing struct{ h http.Header }

func (n nothing) Header() http.Header         { return n.h }
func (n nothing) Write(b []byte) (int, error) { return len(b), nil }
func (n nothing) WriteHeader(int)             {}

func benchHandlers(b *testing.B) map[string]http.Handler {
	task := benchTask()
	s := setup(b, func(o *Options) {
		o.Log = slog.New(slog.DiscardHandler)
		o.Caller = func(*http.Request) mcp.Caller { return mcp.Caller{Owner: alice} }
	})
	s.ledger.put(alice, task)
	return map[string]http.Handler{"modern": s, "bare": bare(task)}
}

var benchBody = rpc("tasks/get", tasksMeta, `"taskId":"task-aaaaaaaaaaaaaaaaaaaaaaaaaa"`)

// BenchmarkTasksGet is the handler alone.
func BenchmarkTasksGet(b *testing.B) {
	for name, h := range benchHandlers(b) {
		b.Run(name, func(b *testing.B) {
			header := headersOf(benchBody)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(benchBody))
				r.Header = header
				h.ServeHTTP(nothing{http.Header{}}, r)
			}
		})
	}
}

// BenchmarkTasksGetHTTP is the same over loopback, with parallel clients.
func BenchmarkTasksGetHTTP(b *testing.B) {
	for name, h := range benchHandlers(b) {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(h)
			defer server.Close()
			server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 64
			b.SetParallelism(8)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					resp := send(b.Context(), b, server, benchBody)
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		})
	}
}
