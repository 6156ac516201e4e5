package commands_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/audit"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/eventstore"
)

func TestANameIsGivenOutOnce(t *testing.T) {
	b := newBench(t)
	token, id, err := b.IssueToken(t.Context(), origin("first"), commands.IssueToken{Owner: alice})
	if err != nil {
		t.Fatal(err)
	}
	if of, ok := access.IDOf(token); !ok || of != id {
		t.Errorf("the token's id is %s, not %s", of, id)
	}
	if strings.Contains(b.all(), token) {
		t.Error("the token is in the log")
	}
	taken := func(when string) {
		t.Helper()
		got, _, err := b.IssueToken(t.Context(), origin(when), commands.IssueToken{Owner: alice})
		is(t, when, err, domain.Invalid, `name: "alice" is taken in tenant "acme"`, "never given out twice")
		if got != "" {
			t.Errorf("%s: a token was given all the same", when)
		}
	}
	taken("a second time")
	if err := b.RevokeToken(t.Context(), origin("revoke"), "acme", id, "lost, password=hunter22"); err != nil {
		t.Fatal(err)
	}
	taken("after it was revoked")
	if got := b.types(access.TokenStream(id)); got != "TokenIssued TokenRevoked" || strings.Contains(b.all(), "hunter22") {
		t.Errorf("the log has %s", got)
	}
	// The same name elsewhere is another's.
	if _, _, err := b.IssueToken(t.Context(), origin("other"), commands.IssueToken{Owner: domain.Owner{Tenant: "beta", Principal: "alice"}}); err != nil {
		t.Error(err)
	}
}

func TestANameAskedForAtOnceIsGivenToOne(t *testing.T) {
	b := newBench(t)
	var given atomic.Int64
	atOnce(12, func(i int) {
		_, _, err := b.IssueToken(context.Background(), origin(fmt.Sprint(i)), commands.IssueToken{Owner: alice})
		if err == nil {
			given.Add(1)
		} else if domain.CodeOf(err) != domain.Invalid {
			t.Error(err)
		}
	})
	if n := strings.Count(b.all(), " TokenIssued "); given.Load() != 1 || n != 1 {
		t.Errorf("%d callers have the name, %d tokens were issued", given.Load(), n)
	}
}

// A token made before is issued once, however often it is asked for: so an
// administrator's first token survives a crash in between.
func TestATokenMadeBeforeIsIssuedOnce(t *testing.T) {
	b := newBench(t)
	made := b.NewToken()
	for range 2 {
		token, id, err := b.IssueToken(t.Context(), origin("setup"), commands.IssueToken{Owner: alice, Scopes: access.Scopes{access.Admin}, Token: made})
		if err != nil || token != made {
			t.Fatalf("it gives another token, %v", err)
		}
		if got := b.types(access.TokenStream(id)); got != "TokenIssued" {
			t.Errorf("the log has %s", got)
		}
	}
	_, _, err := b.IssueToken(t.Context(), origin("x"), commands.IssueToken{Owner: alice, Token: "secret-of-mine"})
	is(t, "what is no token", err, domain.Invalid, "token: ")
	if err != nil && strings.Contains(err.Error(), "secret-of-mine") {
		t.Errorf("the error repeats it: %v", err)
	}
}

func TestWhatATokenIsIssuedWith(t *testing.T) {
	b := newBench(t)
	_, id, err := b.IssueToken(t.Context(), origin("x"), commands.IssueToken{Owner: alice, ExpiresAt: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"tenant":"acme","principal":"alice","scopes":["jobs","sandboxes","gateway"],"expires_at":"2026-06-01T00:00:00.000000Z"}`
	if got := b.records(access.TokenStream(id))[0].Data; got != want {
		t.Errorf("the record says %s", got)
	}
	for field, o := range map[string]domain.Owner{
		"tenant": {Tenant: "Acme", Principal: "a"}, "name": {Tenant: "acme", Principal: "a.b"}, "name: ": {Tenant: "acme"}, "tenant: ": {Principal: "a"},
	} {
		_, _, err := b.IssueToken(t.Context(), origin(field), commands.IssueToken{Owner: o})
		is(t, fmt.Sprint(o), err, domain.Invalid, strings.TrimSuffix(field, ": ")+": ", "1 to 64")
	}
	is(t, "revoking another tenant's", b.RevokeToken(t.Context(), origin("a"), "beta", id, ""), domain.NotFound, "unknown token")
	is(t, "revoking none", b.RevokeToken(t.Context(), origin("b"), "acme", "none", ""), domain.NotFound, "unknown token")
	if got := b.types(access.TokenStream(id)); got != "TokenIssued" {
		t.Errorf("the log has %s", got)
	}
}

func TestOpenLog(t *testing.T) {
	b := newBench(t)
	open := func(secrets ...domain.Secret) error {
		return b.under(secrets...).OpenLog(t.Context(), "store-1", secrets)
	}
	for range 3 {
		is(t, "opened by its own secret", open(secret(1)), "")
	}
	is(t, "opened by another", open(secret(2)), domain.Conflict, secret(1).ID(), secret(2).ID(), "`hangar secret rotate --lost`", "secret.key", "HANGAR_SECRET")
	is(t, "opened by a new one, the old one shown", open(secret(2), secret(1)), "")
	is(t, "opened by the new one alone", open(secret(2)), "")
	is(t, "opened by the old one alone", open(secret(1)), domain.Conflict, "`hangar secret rotate --lost`")
	is(t, "rotated with the old one lost", b.RotateSecret(t.Context(), secret(3), true), "")
	is(t, "rotated again", b.RotateSecret(t.Context(), secret(3), true), "")
	is(t, "opened after it", open(secret(3)), "")
	if got := b.types(audit.Stream); got != "StoreOpened"+strings.Repeat(" SecretRotated", 2) {
		t.Errorf("the log has %s", got)
	}
	if first := b.all(); !strings.HasPrefix(first, "[{") || !strings.Contains(strings.SplitAfter(first, "}")[0], "StoreOpened") {
		t.Error("StoreOpened is not the log's first record")
	}
	for _, s := range []domain.Secret{secret(1), secret(2), secret(3)} {
		if strings.Contains(b.all(), s.Hex()) {
			t.Error("a secret is in the log")
		}
	}
}

// A log that begins otherwise is told, and not taken over.
func TestOpenLogOfAnother(t *testing.T) {
	b := newBench(t)
	d := eventstore.Draft{ID: "foreign", Type: "ReactionFailed", Version: 1, Time: "2026-05-01T12:00:00.000000Z", Data: "{}", Meta: "{}"}
	if _, err := b.store.Append(t.Context(), audit.Stream, eventstore.NoStream, d); err != nil {
		t.Fatal(err)
	}
	is(t, "a log of another", b.OpenLog(t.Context(), "store-1", []domain.Secret{secret(1)}), domain.Conflict, "does not begin with StoreOpened", "`hangar audit verify`")
}

func TestWhatIsRecordedOfTheLogItself(t *testing.T) {
	b := newBench(t)
	if err := b.RecordFailure(t.Context(), audit.ReactionFailed{Subject: "job-x", Step: "close", Reason: "a password=hunter22, " + strings.Repeat("é", 2000)}); err != nil {
		t.Error(err)
	}
	if err := b.RecordRebuild(t.Context(), "jobs", "it was deleted"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := b.RecordDenial(t.Context(), origin("denied"), "tasks/get", "task-secret"); err != nil {
			t.Error(err)
		}
	}
	if got := b.types(audit.Stream) + " " + b.types(access.DenialsStream(alice)); got != "ReactionFailed ProjectionRebuilt AccessDenied" {
		t.Errorf("the log has %s", got)
	}
	if log := b.all(); strings.Contains(log, "hunter22") || strings.Contains(log, "task-secret") || strings.Contains(log, "\ufffd") || !strings.Contains(log, "[…]") {
		t.Errorf("the log has %s", log)
	}
}

// What a keeper records follows from a record, under the tenant, in the chain of
// the request that began it.
func TestWhatFollowsNamesItsCause(t *testing.T) {
	b := newBench(t)
	s := b.asking()
	registered, err := b.CreateTask(t.Context(), s, s.Task(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.CancelTask(t.Context(), origin("cancel"), registered.Created.Handle, ""); err != nil {
		t.Fatal(err)
	}
	if err := b.ExpireTask(t.Context(), registered.Created.Handle, b.clock.Now().Add(25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{"": true}
	for _, r := range append(b.records(domain.Stream(s.ID)), b.records(domain.Stream(registered.Created.Handle))...) {
		var m struct {
			Tenant      string `json:"tenant"`
			CausationID string `json:"causation_id"`
			Correlation string `json:"correlation_id"`
		}
		unmarshal(t, r.Meta, &m)
		if !ids[m.CausationID] {
			t.Errorf("%s follows from %q, which is no record before it", r.Type, m.CausationID)
		}
		if m.Tenant != "acme" {
			t.Errorf("%s is of the tenant %q", r.Type, m.Tenant)
		}
		if !strings.HasPrefix(r.Type, "Task") && m.Correlation != "call-submit" {
			t.Errorf("%s belongs to %q", r.Type, m.Correlation)
		}
		ids[r.ID] = true
	}
}

// A task's cancel is carried to its own turn, not to one that was asked for since.
func TestACancelIsCarriedToItsOwnTurn(t *testing.T) {
	b := newBench(t)
	s := b.asking()
	first, err := b.CreateTask(t.Context(), s, s.Task(1))
	if err != nil {
		t.Fatal(err)
	}
	ended, err := b.CloseTurn(t.Context(), s, closed(turn.StatusCompleted))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.FollowUpJob(t.Context(), origin("more"), commands.FollowUpJob{Job: s.ID, FollowUp: followUp("more")}, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.CancelSubject(t.Context(), first, s.ID); err != nil {
		t.Fatal(err)
	}
	if n := count(b.types(domain.Stream(s.ID)), "JobCancelRequested"); n != 0 {
		t.Error("the next turn was cancelled by the first one's task")
	}
	second := *first
	second.Created.TargetTaskID = task.SubjectTask(string(s.ID), 2)
	if err := b.CancelSubject(t.Context(), &second, s.ID); err != nil {
		t.Fatal(err)
	}
	if n := count(b.types(domain.Stream(s.ID)), "JobCancelRequested"); n != 1 {
		t.Errorf("a task's own turn was asked to end %d times", n)
	}
	// The first task's end is the first turn's, frozen where it closed.
	sub := ended.Subject(1)
	for range 2 {
		got, err := b.ObserveTask(t.Context(), first, sub)
		if err != nil || got.Completed == nil || got.Completed.AtRevision != sub.Revision || string(got.Completed.SubjectHash) != sub.Hash {
			t.Errorf("it ended %+v, %v", got.Completed, err)
		}
	}
	if got := b.types(domain.Stream(first.Created.Handle)); got != "TaskCreated TaskCompleted" {
		t.Errorf("the log has %s", got)
	}
}

func TestExpireTask(t *testing.T) {
	b := newBench(t)
	s := b.submit()
	registered, err := b.CreateTask(t.Context(), s, s.Task(1))
	if err != nil {
		t.Fatal(err)
	}
	id := registered.Created.Handle
	deadline, ok := registered.Deadline()
	if !ok {
		t.Fatal("it lives for ever")
	}
	for _, at := range []time.Time{deadline.Add(-1), deadline, deadline.Add(time.Hour)} {
		if err := b.ExpireTask(t.Context(), id, at); err != nil {
			t.Error(err)
		}
		want := 1
		if at.Before(deadline) {
			want = 0
		}
		if n := count(b.types(domain.Stream(id)), "TaskExpired"); n != want {
			t.Errorf("at %v it has expired %d times", at, n)
		}
	}
	is(t, "a task that is not", b.ExpireTask(t.Context(), "task-none", deadline), domain.NotFound)
}
