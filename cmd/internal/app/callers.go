package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/auth"
	"hangar/handlers/mcp"
	"hangar/projections"
)

// authenticator knows bearer tokens by their ids.
type authenticator struct {
	folds *projections.Folds
	clock domain.Clock
}

// Authenticate gives whom a token speaks for. A token that was never issued, has
// expired or was revoked gets one answer.
func (t *authenticator) Authenticate(ctx context.Context, token string) (auth.Identity, error) {
	id, ok := access.IDOf(token)
	if !ok {
		return auth.Identity{}, domain.Errorf(domain.Unauthorized, "the token is not valid")
	}
	tok, err := t.folds.Token(ctx, id)
	if err != nil {
		return auth.Identity{}, err
	}
	if !tok.Valid(t.clock.Now()) {
		return auth.Identity{}, domain.Errorf(domain.Unauthorized, "the token is not valid")
	}
	return auth.Identity{Owner: tok.Owner, Scopes: tok.Scopes, TokenID: tok.ID}, nil
}

// denials writes down that callers asked for tasks which are not theirs: off the
// request's path, and at most once an hour for a principal and a task.
type denials struct {
	commands *commands.Commands
	clock    domain.Clock
	log      *slog.Logger
	queue    chan denial

	mu   sync.Mutex
	last map[denialKey]time.Time
}

type denialKey struct {
	owner domain.Owner
	task  domain.TaskID
}

type denial struct {
	denialKey
	method      string
	correlation string
}

// Bounds of what is remembered and waits.
const (
	denialsEvery  = time.Hour
	denialsWait   = 256    // in the queue; more are not written down
	denialsMemory = 10_000 // principals and tasks remembered
)

func newDenials(c *commands.Commands, clock domain.Clock, log *slog.Logger) *denials {
	return &denials{commands: c, clock: clock, log: log, queue: make(chan denial, denialsWait), last: map[denialKey]time.Time{}}
}

// Denied notes a refusal and returns at once. Of callers without a name there is
// nobody to write it down about.
func (d *denials) Denied(caller mcp.Caller, method string, id domain.TaskID) {
	if caller.Owner == (domain.Owner{}) {
		return
	}
	key := denialKey{caller.Owner, id}
	now := d.clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.last[key]; ok && now.Sub(last) < denialsEvery {
		return
	}
	if len(d.last) >= denialsMemory {
		for k, at := range d.last {
			if now.Sub(at) >= denialsEvery || len(d.last) >= denialsMemory {
				delete(d.last, k)
			}
		}
	}
	select {
	case d.queue <- denial{key, method, caller.CorrelationID}:
		d.last[key] = now
	default:
	}
}

// run writes down what was noted, until ctx ends.
func (d *denials) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-d.queue:
			o := commands.Origin{Owner: n.owner, ID: d.commands.NewID(), CorrelationID: n.correlation}
			if err := d.commands.RecordDenial(ctx, o, n.method, n.task); err != nil {
				d.log.Warn("a denial cannot be recorded", "error", err)
			}
		}
	}
}
