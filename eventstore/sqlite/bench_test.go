//go:build linux

package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hangar/domain"
	"hangar/eventstore"
)

// benchDraft is an event of the usual size: about 450 bytes with its ids.
func benchDraft(stream eventstore.Stream, n int) eventstore.Draft {
	return eventstore.Draft{
		ID:      domain.RecordID("0190a1b2-0000-7000-8000-000000000000", stream, n),
		Type:    "TurnProgressed",
		Version: 1,
		Time:    "2026-11-03T10:00:00.000000Z",
		Data:    fmt.Sprintf(`{"turn":"%s.1","text":"%0240d"}`, stream, n),
		Meta:    `{"tenant":"acme","principal":"ci","command_id":"0190a1b2-0000-7000-8000-000000000000"}`,
	}
}

func benchStream(n int) eventstore.Stream {
	return eventstore.Stream(domain.EntityID("job", domain.CommandID(fmt.Sprint(n))))
}

// cpu gives the processor time that the process has used. On a machine that others
// use too, it tells more than the clock.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report adds the figures per event to those of the benchmark.
func report(b *testing.B, before time.Duration) {
	b.Helper()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

func openBench(b *testing.B, o Options) *Store {
	b.Helper()
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "hangar.db"), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// BenchmarkAppend writes one event an append, each writer to streams of its own of
// ten events each. Compare with BenchmarkFdatasync.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			var commits atomic.Int64
			s := openBench(b, Options{Observer: func([]eventstore.Record) { commits.Add(1) }})
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			var next atomic.Int64
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					head := eventstore.NoStream
					var stream eventstore.Stream
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if head.Revision == 9 || stream == "" {
							stream, head = benchStream(int(n)), eventstore.NoStream
						}
						records, err := s.Append(b.Context(), stream, head, benchDraft(stream, int(n)))
						if err != nil {
							b.Error(err)
							return
						}
						head = eventstore.HeadOf(records)
					}
				})
			}
			wg.Wait()
			report(b, before)
			b.ReportMetric(float64(b.N)/float64(commits.Load()), "events/commit")
		})
	}
}

// BenchmarkFdatasync is what the disk gives: 450 bytes written at the end of a file
// and synced, again and again.
func BenchmarkFdatasync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 450)
	b.ResetTimer()
	for b.Loop() {
		if _, err := f.Write(buf); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
}

// BenchmarkReplay reads the whole log in pages, an event an operation.
func BenchmarkReplay(b *testing.B) {
	s := openBench(b, Options{})
	fill(b, s, 100_000)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	var after eventstore.Position
	for n := 0; n < b.N; {
		records, err := s.ReadAll(b.Context(), after, min(1000, b.N-n))
		if err != nil {
			b.Fatal(err)
		}
		if len(records) == 0 {
			after = 0
			continue
		}
		n += len(records)
		after = records[len(records)-1].Position
	}
	report(b, before)
}

// BenchmarkLoad reads a stream of ten events.
func BenchmarkLoad(b *testing.B) {
	s := openBench(b, Options{})
	fill(b, s, 100_000)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		records, err := s.ReadStream(b.Context(), benchStream(n%10_000), 0, 100)
		if err != nil || len(records) != 10 {
			b.Fatal(len(records), err)
		}
	}
}

// BenchmarkOpen opens and closes a log of a million events.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "hangar.db")
	s, err := Open(b.Context(), path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	fill(b, s, 1_000_000)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(b.Context(), path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// fill writes events in streams of ten.
func fill(b *testing.B, s *Store, events int) {
	b.Helper()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for n := w; n < events/10; n += 16 {
				stream := benchStream(n)
				drafts := make([]eventstore.Draft, 10)
				for i := range drafts {
					drafts[i] = benchDraft(stream, i)
				}
				if _, err := s.Append(b.Context(), stream, eventstore.NoStream, drafts...); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
