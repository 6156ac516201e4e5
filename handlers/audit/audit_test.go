package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"hangar/domain"
	"hangar/domain/access"
	logevents "hangar/domain/audit"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/eventstore"
	"hangar/eventstore/chain"
	"hangar/handlers/audit"
)

var update = flag.Bool("update", false, "write what came out into the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// records is a log in memory, which a test may change.
type records []domain.Record

func (l records) ReadAll(_ context.Context, after domain.Position, limit int) ([]domain.Record, error) {
	var page []domain.Record
	for _, r := range l {
		if r.Position > after && len(page) < limit {
			page = append(page, r)
		}
	}
	return page, nil
}

func (l records) ReadStream(_ context.Context, stream domain.Stream, from int64, limit int) ([]domain.Record, error) {
	var page []domain.Record
	for _, r := range l {
		if r.Stream == stream && r.Revision >= from && len(page) < limit {
			page = append(page, r)
		}
	}
	return page, nil
}

// writer builds a log, an event a second.
type writer struct {
	log   records
	heads map[domain.Stream]eventstore.Head
	at    time.Time
}

var (
	ann    = domain.Owner{Tenant: "default", Principal: "ann"}
	hangar = domain.Owner{Tenant: "default"}
	begin  = time.Date(2026, 12, 1, 23, 59, 50, 0, time.UTC)
)

func (w *writer) append(t testing.TB, stream domain.Stream, by domain.Owner, data ...event.Data) {
	t.Helper()
	head, ok := w.heads[stream]
	if !ok {
		head = eventstore.NoStream
	}
	id := domain.DerivedCommand(fmt.Sprint(len(w.log)))
	meta, err := event.EncodeMeta(event.Meta{Tenant: by.Tenant, Principal: by.Principal, CommandID: id})
	if err != nil {
		t.Fatal(err)
	}
	var drafts []eventstore.Draft
	for i, d := range data {
		kind, version, text, err := event.Encode(d)
		if err != nil {
			t.Fatal(err)
		}
		drafts = append(drafts, eventstore.Draft{ID: domain.RecordID(id, stream, i), Type: string(kind), Version: version,
			Time: domain.FormatTime(w.at), Data: text, Meta: meta})
	}
	w.at = w.at.Add(time.Second)
	for _, r := range chain.Seal(stream, head, drafts) {
		r.Position = domain.Position(len(w.log) + 1)
		w.log = append(w.log, r)
		head = eventstore.Head{Revision: r.Revision, Hash: r.Hash}
	}
	w.heads[stream] = head
}

const (
	jobStream  = domain.Stream("job-abcdefghijklmnopqrstuvwxyz")
	taskStream = domain.Stream("task-abcdefghijklmnopqrstuvwxy2")
)

// mainJob is a log of a job with a question, by way of a task.
func mainJob(t testing.TB) records {
	t.Helper()
	w := &writer{heads: map[domain.Stream]eventstore.Head{}, at: begin}
	zero, one := 0, 1
	w.append(t, logevents.Stream, domain.Owner{}, logevents.StoreOpened{StoreID: "s", KeyID: "00ff"})
	w.append(t, access.PrincipalStream(ann), hangar, access.PrincipalReserved{Tenant: "default", Principal: "ann", Token: "tok"})
	w.append(t, access.TokenStream("tok"), hangar, access.TokenIssued{Tenant: "default", Principal: "ann", Scopes: access.Default})
	w.append(t, jobStream, ann, job.Submitted{Prompt: "fix the\x1b[31m tests\n" + strings.Repeat("and more ", 40), Agent: "shell", Repo: "/src/app",
		Task: &turn.TaskRequest{N: 1, Owner: ann, Tool: "submit_job", TTLMs: 20_000, PollMs: 5000}}, turn.Queued{Turn: 1})
	w.append(t, taskStream, ann, task.Created{Handle: domain.TaskID(taskStream), Target: task.Hangar, TargetTaskID: task.SubjectTask(string(jobStream), 1),
		Generation: 1, Owner: ann, Tool: "submit_job", TTLMs: 20_000, PollIntervalMs: 5000, Capabilities: turn.Capabilities{Form: true}})
	w.append(t, jobStream, hangar, job.StepChanged{Turn: 1, Name: job.StepAgent, Status: job.StepRunning}, turn.Started{Turn: 1, Agent: "shell", BootID: "b"})
	w.append(t, jobStream, hangar, turn.Progressed{Turn: 1, Text: "reading"}, turn.Asked{Turn: 1, N: 1, Text: "Which colour?", Options: []string{"red", "blue"}, Kind: turn.KindQuestion})
	w.append(t, jobStream, ann, turn.Answered{Turn: 1, N: 1, Answer: json.RawMessage(`"blue"`), Via: turn.ViaTask})
	w.append(t, taskStream, ann, task.ConsentDecided{Key: "answer-1", Granted: true, Action: task.Accept, Via: turn.ViaTask})
	w.append(t, jobStream, hangar, turn.Ended{Turn: 1, Status: turn.StatusCompleted, ExitCode: &zero, Summary: "all green", Artifacts: []turn.Artifact{{Name: "a"}}, Output: &turn.Output{Bytes: 12}},
		job.Finished{Turn: 1, Status: turn.StatusCompleted, PR: &job.PR{Branch: "hangar/x", Commits: []job.Commit{{Hash: "1"}, {Hash: "2"}}}})
	w.append(t, taskStream, hangar, task.Completed{Subject: string(jobStream), AtRevision: 8})
	w.append(t, jobStream, ann, job.FollowUpRequested{Turn: 2, Prompt: "again"}, turn.Queued{Turn: 2})
	w.append(t, jobStream, ann, job.CancelRequested{Reason: "enough"})
	w.append(t, jobStream, hangar, turn.Ended{Turn: 2, Status: turn.StatusFailed, Code: turn.AgentExited, ExitCode: &one},
		job.Finished{Turn: 2, Status: turn.StatusFailed, Code: turn.AgentExited, Message: "exit code 1"})
	w.append(t, taskStream, hangar, task.Expired{Deadline: domain.FormatTime(begin.Add(time.Minute))})
	w.append(t, access.TokenStream("tok"), ann, access.TokenRevoked{Reason: "lost"})
	w.append(t, logevents.Stream, domain.Owner{}, logevents.SecretRotated{KeyID: "11", Lost: true}, logevents.ProjectionRebuilt{View: "jobs", Reason: "asked for"},
		logevents.ReactionFailed{Subject: "task", Step: "collect", Reason: "disk full"})
	return w.log
}

// render shows a state by what tells it from others.
func renderJob(s *job.State) (json.RawMessage, error) {
	return fmt.Appendf(nil, `{"id":%q,"status":%q,"revision":%d}`, s.ID, s.Status(), s.Revision), nil
}

func renderTask(ctx context.Context, p *audit.Past, s *task.State) (json.RawMessage, error) {
	page, err := p.ReadStream(ctx, jobStream, 0, 100)
	return fmt.Appendf(nil, `{"taskId":%q,"ended":%t,"job_records":%d,"at":%q}`, s.Created.Handle, s.Ended(), len(page), domain.FormatTime(p.At)), err
}

// TestReplay runs testdata/*.txtar: the comment's last line is the arguments.
func TestReplay(t *testing.T) {
	t.Parallel()
	log := mainJob(t)
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(a.Comment)), "\n")
			o := options(t, strings.Fields(lines[len(lines)-1]))
			var b bytes.Buffer
			if err := audit.Replay(t.Context(), log, &b, o); err != nil {
				fmt.Fprintln(&b, "error:", err)
			}
			got := b.String()
			if *update {
				a.Files = []txtar.File{{Name: "want", Data: []byte(got)}}
				if err := os.WriteFile(path, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(a.Files[0].Data), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func options(t *testing.T, args []string) audit.Options {
	t.Helper()
	o := audit.Options{RenderJob: renderJob, RenderTask: renderTask, Zone: time.FixedZone("CET", 3600)}
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	f.StringVar((*string)(&o.Task), "task", "", "")
	f.StringVar((*string)(&o.Stream), "stream", "", "")
	f.Uint64Var((*uint64)(&o.Position), "position", 0, "")
	f.BoolVar(&o.JSON, "json", false, "")
	f.Bool("all", false, "")
	at := f.String("at", "", "")
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	if *at != "" {
		var err error
		if o.At, err = audit.ParseAt(*at, time.UTC); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// TestJSONIsTheLog: what --json writes is the records, byte for byte.
func TestJSONIsTheLog(t *testing.T) {
	t.Parallel()
	log := mainJob(t)
	var b bytes.Buffer
	if err := audit.Replay(t.Context(), log, &b, audit.Options{JSON: true}); err != nil {
		t.Fatal(err)
	}
	var got records
	for d := json.NewDecoder(&b); d.More(); {
		var r domain.Record
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if d := cmp.Diff(log, got); d != "" {
		t.Error(d)
	}
	for _, r := range got {
		if chain.Hash(r) != r.Hash {
			t.Errorf("position %d: the hash is not that of what was written", r.Position)
		}
	}
}

// TestPages: a log of many pages comes out whole and in order, also merged.
func TestPages(t *testing.T) {
	t.Parallel()
	w := &writer{heads: map[domain.Stream]eventstore.Head{}, at: begin}
	w.append(t, taskStream, ann, task.Created{Handle: domain.TaskID(taskStream), Target: task.Hangar, TargetTaskID: task.SubjectTask(string(jobStream), 1)})
	for i := range 300 {
		w.append(t, jobStream, ann, turn.Progressed{Turn: 1, Text: fmt.Sprint(i)})
		w.append(t, taskStream, ann, task.CancelRequested{})
	}
	for name, o := range map[string]audit.Options{"all": {}, "task": {Task: domain.TaskID(taskStream)}} {
		o.JSON = true
		var b bytes.Buffer
		if err := audit.Replay(t.Context(), w.log, &b, o); err != nil {
			t.Fatal(err)
		}
		var last domain.Position
		lines := 0
		for d := json.NewDecoder(&b); d.More(); lines++ {
			var r domain.Record
			if err := d.Decode(&r); err != nil || r.Position != last+1 {
				t.Fatalf("%s: position %d after %d, %v", name, r.Position, last, err)
			}
			last = r.Position
		}
		if lines != len(w.log) {
			t.Errorf("%s: %d records, want %d", name, lines, len(w.log))
		}
	}
	if r, err := audit.Verify(t.Context(), w.log, audit.VerifyOptions{Dense: true}); err != nil || !r.OK || r.Records != 601 || r.Streams != 2 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

func TestVerifyNamesTheFirstWrongRecord(t *testing.T) {
	t.Parallel()
	cut := func(at int) func(records) records {
		return func(l records) records { return slices.Delete(l, at-1, at) }
	}
	reseal := func(r *domain.Record) { r.Hash = chain.Hash(*r) }
	for name, c := range map[string]struct {
		tamper func(records) records
		at     domain.Position // of the wrong record, with positions given anew
		reason string
		sparse bool // the engine promises no dense positions
	}{
		"data changed": {func(l records) records { l[3].Data = strings.Replace(l[3].Data, "fix", "fox", 1); return l },
			4, "its hash is not that of its contents", true},
		"time changed":  {func(l records) records { l[5].Time = "2026-12-01T00:00:00.000000Z"; return l }, 6, "its hash is not that of its contents", true},
		"owner changed": {func(l records) records { l[3].Meta = strings.Replace(l[3].Meta, "ann", "bob", 1); return l }, 4, "its hash is not that of its contents", true},
		"hash changed":  {func(l records) records { l[4].Hash = strings.Repeat("0", 64); return l }, 5, "its hash is not that of its contents", true},
		"changed and sealed again": {func(l records) records { l[3].Data = `{}`; reseal(&l[3]); return l },
			5, "it does not point to the record before it", true},
		"moved to another stream": {func(l records) records { l[3].Stream = "job-b"; reseal(&l[3]); return l }, 5, "revision 0 was due", true},
		"taken out of the middle": {cut(5), 7, "revision 1 was due", true},
		"the head of a stream":    {cut(4), 5, "revision 0 was due", true},
		"twice":                   {func(l records) records { d := l[4]; d.Position = 99; return append(l, d) }, 99, "revision 14 was due", true},
		"positions swapped": {func(l records) records {
			l[1].Position, l[2].Position = l[2].Position, l[1].Position
			slices.SortFunc(l, func(a, b domain.Record) int { return int(a.Position) - int(b.Position) })
			l[1].Position, l[2].Position = 3, 2
			return l
		}, 2, "its position is not after 3, that of the record before it", true},
		"a hole where positions have none": {cut(2), 3, "position 2 was due: what was there is gone", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := c.tamper(mainJob(t))
			got, err := audit.Verify(t.Context(), log, audit.VerifyOptions{Dense: !c.sparse})
			if err != nil {
				t.Fatal(err)
			}
			if got.OK || got.Wrong == nil || got.Wrong.Position != c.at || got.Wrong.Reason != c.reason {
				t.Fatalf("got %+v (%+v), want position %d: %s", got, got.Wrong, c.at, c.reason)
			}
			var b bytes.Buffer
			if err := got.WriteText(&b); err != nil || !strings.Contains(b.String(), c.reason) {
				t.Errorf("text %q, %v", b.String(), err)
			}
		})
	}
}

func TestVerifyAWholeLog(t *testing.T) {
	t.Parallel()
	log := mainJob(t)
	got, err := audit.Verify(t.Context(), log, audit.VerifyOptions{Dense: true})
	if err != nil || !got.OK || got.Records != len(log) || got.HeadHash != log[len(log)-1].Hash {
		t.Fatalf("got %+v, %v", got, err)
	}
	var b bytes.Buffer
	if err := got.WriteText(&b); err != nil || !strings.Contains(b.String(), "unseen") {
		t.Errorf("text %q, %v", b.String(), err)
	}
	if empty, err := audit.Verify(t.Context(), records{}, audit.VerifyOptions{Dense: true}); err != nil || !empty.OK || empty.Records != 0 {
		t.Errorf("an empty log: %+v, %v", empty, err)
	}
}

// TestEveryEventHasWords: a story passes over no type that this build knows.
func TestEveryEventHasWords(t *testing.T) {
	t.Parallel()
	for _, kind := range event.Types() {
		r := domain.Record{Position: 1, Type: string(kind), Version: event.Version(kind), Time: domain.FormatTime(begin), Data: "{}", Meta: "{}"}
		var b bytes.Buffer
		if err := audit.Replay(t.Context(), records{r}, &b, audit.Options{}); err != nil || strings.Contains(b.String(), "("+string(kind)+")") {
			t.Errorf("%s has no words: %s %v", kind, b.String(), err)
		}
	}
}

func TestParseAt(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("CET", 3600)
	for text, want := range map[string]string{
		"2026-12-01T10:00:00Z":             "2026-12-01T10:00:00.000000Z",
		"2026-12-01T10:00:00.123456+02:00": "2026-12-01T08:00:00.123456Z",
		"2026-12-01 10:00:00":              "2026-12-01T09:00:00.000000Z",
		"2026-12-01 10:00":                 "2026-12-01T09:00:00.000000Z",
		"2026-12-01":                       "2026-11-30T23:00:00.000000Z",
	} {
		if got, err := audit.ParseAt(text, zone); err != nil || domain.FormatTime(got) != want {
			t.Errorf("%s: got %v, %v; want %s", text, got, err, want)
		}
	}
	if _, err := audit.ParseAt("yesterday", zone); domain.CodeOf(err) != domain.Invalid {
		t.Errorf("got %v, want an invalid argument", err)
	}
}

// FuzzStory: whatever a log holds, the story is text that a terminal can show.
func FuzzStory(f *testing.F) {
	for _, r := range mainJob(f) {
		f.Add(r.Type, r.Time, r.Data, r.Meta, r.Hash, string(r.Stream))
	}
	f.Add("TurnEnded", "", "{", "\x1b]0;x\x07", "short", "-")
	f.Fuzz(func(t *testing.T, kind, at, data, meta, hash, stream string) {
		log := records{{ID: "1", Stream: domain.Stream(stream), Position: 1, Type: kind, Version: 1, Time: at, Data: data, Meta: meta, Hash: hash}}
		var b bytes.Buffer
		if err := audit.Replay(t.Context(), log, &b, audit.Options{}); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }); i >= 0 {
			t.Errorf("a control character at %d of %q", i, b.String())
		}
		if _, err := audit.Verify(t.Context(), log, audit.VerifyOptions{}); err != nil {
			t.Error(err)
		}
	})
}
