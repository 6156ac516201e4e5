package commands_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/redact"
	"hangar/domain/turn"
	"hangar/eventstore"
	"hangar/eventstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faulty is a log whose appends a test can watch and spoil.
type faulty struct {
	eventstore.Store
	calls atomic.Int64
	// spoil is asked instead of each append, with how many there were and the
	// append itself; nil for none.
	spoil func(ctx context.Context, call int64, do func() ([]eventstore.Record, error)) ([]eventstore.Record, error)
}

func (f *faulty) Append(ctx context.Context, s eventstore.Stream, expected eventstore.Head, d ...eventstore.Draft) ([]eventstore.Record, error) {
	do := func() ([]eventstore.Record, error) { return f.Store.Append(ctx, s, expected, d...) }
	n := f.calls.Add(1)
	if f.spoil == nil {
		return do()
	}
	return f.spoil(ctx, n, do)
}

// ticking is a clock that no two events share an instant of.
type ticking struct{ ticks atomic.Int64 }

func (c *ticking) Now() time.Time {
	return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(c.ticks.Add(1)) * time.Millisecond)
}

// bench is a log and its commands.
type bench struct {
	*commands.Commands
	t     *testing.T
	store *faulty
	clock *ticking
}

func secret(first byte) domain.Secret { return domain.NewSecret([32]byte{first}) }

// configured is a secret that the server knows from its configuration.
const configured = "c0nf1gured-s3cret"

func newBench(t *testing.T) *bench {
	b := &bench{t: t, store: &faulty{Store: memory.Open(memory.Options{})}, clock: &ticking{}}
	b.Commands = b.under(secret(1))
	return b
}

// under gives the commands of a server that holds other secrets, newest first,
// on the same log.
func (b *bench) under(secrets ...domain.Secret) *commands.Commands {
	r := redact.New(secrets[0], map[string]string{"forge token": configured}, secrets[1:]...)
	return commands.New(b.store, b.clock, rand.Reader, secrets[0], r, commands.Settings{TaskTTL: 24 * time.Hour, PollInterval: 5 * time.Second})
}

// records gives a stream as it is stored.
func (b *bench) records(s domain.Stream) []domain.Record {
	b.t.Helper()
	list, err := b.store.ReadStream(context.Background(), s, 0, 10_000)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// all gives the whole log as one text.
func (b *bench) all() string {
	b.t.Helper()
	list, err := b.store.ReadAll(context.Background(), 0, 10_000)
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprint(list)
}

// types lists the types of a stream's events.
func (b *bench) types(s domain.Stream) string {
	b.t.Helper()
	var names []string
	for _, r := range b.records(s) {
		names = append(names, r.Type)
	}
	return strings.Join(names, " ")
}

var alice = domain.Owner{Tenant: "acme", Principal: "alice"}

// origin names a command of alice's.
func origin(id string) commands.Origin {
	return commands.Origin{Owner: alice, ID: domain.DerivedCommand("test", id), CorrelationID: "call-" + id}
}

func (b *bench) submission(hash string) commands.SubmitJob {
	return commands.SubmitJob{Key: "key-1", Submitted: job.Submitted{ArgsHash: domain.Digest(hash), Prompt: "build", Agent: "scripted",
		Task: b.Request(turn.TaskRequest{Owner: alice, Tool: "submit_job", Capabilities: turn.Capabilities{Form: true}})}}
}

// submit makes the job that most tests work on.
func (b *bench) submit() *job.State {
	b.t.Helper()
	r, err := b.SubmitJob(context.Background(), origin("submit"), b.submission("hash-1"))
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Job
}

// line records a line of the first turn's journal.
func (b *bench) line(s *job.State, l turn.Line) *job.State {
	b.t.Helper()
	l.BootID = "boot-1"
	after, err := b.RecordLine(context.Background(), s, job.Record{Turn: 1, Agent: "scripted", Line: l})
	if err != nil {
		b.t.Fatal(err)
	}
	return after
}

// asking makes a job that waits for the answer to a question.
func (b *bench) asking() *job.State {
	b.t.Helper()
	s := b.line(b.submit(), turn.Line{N: 1, Kind: turn.LineStarted})
	return b.line(s, turn.Line{N: 2, Kind: turn.LineAsked, Ask: 1, Text: "which?"})
}

func count(text, of string) int { return strings.Count(" "+text+" ", " "+of+" ") }

// is checks an error's code and what it says.
func is(t *testing.T, what string, err error, code domain.Code, says ...string) {
	t.Helper()
	if domain.CodeOf(err) != code {
		t.Errorf("%s: the code is %q, want %q: %v", what, domain.CodeOf(err), code, err)
		return
	}
	for _, s := range says {
		if err != nil && !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q is not in %q", what, s, err)
		}
	}
}

func unmarshal(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatal(err)
	}
}

func closed(s turn.Status) job.Close { return job.Close{Ended: turn.Ended{Turn: 1, Status: s}} }

func followUp(prompt string) job.FollowUp {
	return job.FollowUp{Prompt: prompt, Task: &turn.TaskRequest{Tool: "follow_up_job"}}
}
