package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"hangar/eventstore"
	"hangar/eventstore/sqlite"
)

// crashLog names the log that the test's own binary, run once more, writes to.
const crashLog = "HANGAR_TEST_CRASH_LOG"

const (
	crashWriters = 8
	crashBatch   = 3
)

// writeUntilKilled appends batches to streams of its own and says so on its standard
// output once they are acknowledged, until somebody kills the process.
func writeUntilKilled(path string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for w := range crashWriters {
		wg.Go(func() {
			stream := eventstore.Stream(fmt.Sprintf("node-%d.%d", os.Getpid(), w))
			head := eventstore.NoStream
			for i := 0; ; i++ {
				drafts := make([]eventstore.Draft, crashBatch)
				for n := range drafts {
					drafts[n] = draft(fmt.Sprintf("%s/%d/%d", stream, i, n))
				}
				records, err := s.Append(ctx, stream, head, drafts...)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				head = eventstore.HeadOf(records)
				fmt.Printf("%s %d %s\n", stream, head.Revision, head.Hash)
			}
		})
	}
	wg.Wait()
}

// kill runs a writer, kills it after a number of acknowledgements, and gives all of
// them.
func kill(t *testing.T, path string, after int) (acknowledged []string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), crashLog+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		acknowledged = append(acknowledged, lines.Text())
		if len(acknowledged) == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(acknowledged) < after {
		t.Fatalf("the writer ended by itself after %d acknowledgements: %v", len(acknowledged), err)
	}
	return acknowledged
}

// A writer is killed several times on one log. Every event it acknowledged is there,
// and no batch is there in part.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	var acknowledged []string
	for round := range 5 {
		acknowledged = append(acknowledged, kill(t, e.path, 20+40*round)...)
		if round%2 == 0 {
			r := e.OpenBeside(t) // the first to come after a crash may be a reader
			checkCrash(t, readAll(t, r), acknowledged)
			closeStore(t, r)
		}
	}
	s := e.with(t, sqlite.Options{})
	records := readAll(t, s)
	checkCrash(t, records, acknowledged)
	mustAppend(t, s, "node-after", eventstore.NoStream, draft("after"))
	if got := readAll(t, s); len(got) != len(records)+1 {
		t.Errorf("%d records after one more than %d", len(got), len(records))
	}
	closeStore(t, s)
}

func checkCrash(t *testing.T, records []eventstore.Record, acknowledged []string) {
	t.Helper()
	verifyAll(t, records)
	stored := map[string]bool{}
	length := map[eventstore.Stream]int{}
	for _, r := range records {
		stored[fmt.Sprintf("%s %d %s", r.Stream, r.Revision, r.Hash)] = true
		length[r.Stream]++
	}
	for _, line := range acknowledged {
		if !stored[line] {
			t.Errorf("acknowledged and not there: %s", line)
		}
	}
	for stream, n := range length {
		if n%crashBatch != 0 {
			t.Errorf("%s holds half a batch: %d records", stream, n)
		}
	}
}
