package app_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hangar/cmd/internal/app"
	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/redact"
	"hangar/domain/turn"
	"hangar/eventstore/sqlite"
)

// BenchmarkRestart measures a server's start, from opening the data folder to the
// ready line, on a log of 100,000 events of finished jobs: with its views, and
// without them.
func BenchmarkRestart(b *testing.B) {
	data := filepath.Join(b.TempDir(), "data")
	fillLog(b, data, 100_000)
	start := func(b *testing.B) {
		b.Helper()
		ready := newReadyLine()
		a, err := app.New(testConfig(data), app.Options{Notices: ready})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		<-ready.seen
		b.StopTimer()
		s := &server{t: nil, data: data, url: a.URL()}
		waitForViews(b, s)
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		if err := a.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.Run("views=none", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				os.Remove(filepath.Join(data, "views.db"+suffix))
			}
			b.StartTimer()
			start(b)
		}
	})
	b.Run("views=there", func(b *testing.B) {
		for b.Loop() {
			start(b)
		}
	})
}

// readyLine is a writer that waits for the line that says ready.
type readyLine struct {
	seen chan struct{}
	once sync.Once
}

func newReadyLine() *readyLine { return &readyLine{seen: make(chan struct{})} }

func (r *readyLine) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "ready on") {
		r.once.Do(func() { close(r.seen) })
	}
	return len(p), nil
}

// fillLog makes a log of n events: jobs that came to their end, each with a task.
func fillLog(b *testing.B, data string, n int) {
	b.Helper()
	if err := os.MkdirAll(data, 0o700); err != nil {
		b.Fatal(err)
	}
	store, err := sqlite.Open(b.Context(), filepath.Join(data, "hangar.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	secret := domain.NewSecret([32]byte{1})
	if err := os.WriteFile(filepath.Join(data, "secret.key"), []byte(secret.Hex()+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	c := commands.New(store, domain.SystemClock{}, rand.Reader, secret, redact.New(secret, nil),
		commands.Settings{TaskTTL: 24 * time.Hour, PollInterval: 5 * time.Second})
	if err := c.OpenLog(b.Context(), store.ID(), []domain.Secret{secret}); err != nil {
		b.Fatal(err)
	}
	const perJob, writers = 7, 64
	var left atomic.Int64
	left.Store(int64(n / perJob))
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := finishedJob(b.Context(), c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

func finishedJob(ctx context.Context, c *commands.Commands) error {
	owner := domain.Owner{Tenant: "default", Principal: "ann"}
	r, err := c.SubmitJob(ctx, commands.Origin{Owner: owner, ID: c.NewID()}, commands.SubmitJob{Submitted: job.Submitted{
		Prompt: "do it", Agent: "shell", Task: c.Request(turn.TaskRequest{Owner: owner, Tool: "submit_job"}),
	}})
	if err != nil {
		return err
	}
	t, err := c.CreateTask(ctx, r.Job, r.Asked)
	if err != nil {
		return err
	}
	line := turn.Line{N: 1, BootID: string(r.Job.ID), Kind: turn.LineStarted}
	if _, err := c.RecordLine(ctx, r.Job, job.Record{Turn: 1, Agent: "shell", Line: line}); err != nil {
		return err
	}
	s, err := c.CloseTurn(ctx, r.Job, job.Close{Ended: turn.Ended{Turn: 1, Status: turn.StatusCompleted, Summary: "done"}})
	if err != nil {
		return err
	}
	_, err = c.ObserveTask(ctx, t, s.Subject(1))
	return err
}

// waitForViews waits until the views know the whole log, outside the measure.
func waitForViews(b *testing.B, s *server) {
	b.Helper()
	for {
		var rep struct {
			Head  int64
			Views []struct{ Position int64 }
		}
		resp, err := http.Get(strings.TrimSuffix(s.url, "/mcp") + "/readyz")
		if err != nil {
			b.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&rep)
		resp.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
		behind := slices.ContainsFunc(rep.Views, func(v struct{ Position int64 }) bool { return v.Position < rep.Head })
		if !behind {
			return
		}
	}
}
