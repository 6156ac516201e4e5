package imports

// A pattern names rooms: "a/b" is that package alone, "a/..." is a and all that
// is below it.

// rule says what the non-test files of some rooms may import of this module.
// The standard library is open to all of them, but for what pure forbids.
type rule struct {
	rooms []string
	ours  []string
	// kin adds the packages above and below a package, within its room.
	kin bool
	// pure rooms do no I/O, know no wall clock and draw no randomness; they import
	// no library but those in libs.
	pure bool
	libs []string
}

// rules are the rooms of the house. Every package is in exactly one of them, so
// a new room begins with a line here.
var rules = []rule{
	{
		rooms: []string{"domain"},
		pure:  true,
	},
	{
		rooms: []string{"domain/event"},
		ours:  []string{"domain"},
		pure:  true,
	},
	{
		rooms: []string{"domain/turn"},
		ours:  []string{"domain", "domain/event"},
		pure:  true,
	},
	{
		rooms: []string{
			"domain/access", "domain/audit", "domain/environment", "domain/job", "domain/redact",
			"domain/run", "domain/sandbox", "domain/session", "domain/task", "domain/tool",
		},
		ours: []string{"domain", "domain/event", "domain/turn"},
		pure: true,
		libs: []string{"github.com/gowebpki/jcs"}, // RFC 8785, for digests
	},
	{
		rooms: []string{"migrations"},
	},
	{
		rooms: []string{"eventstore"},
		ours:  []string{"domain", "migrations"},
	},
	{
		rooms: []string{"eventstore/chain"},
		ours:  []string{"domain", "eventstore"},
	},
	{
		rooms: []string{"eventstore/kurrent", "eventstore/memory", "eventstore/postgres", "eventstore/sqlite"},
		ours:  []string{"domain", "eventstore", "eventstore/chain", "migrations"},
	},
	{
		rooms: []string{"eventstore/eventstoretest"},
		ours:  []string{"domain", "eventstore", "eventstore/chain"},
	},
	{
		rooms: []string{"commands"}, // a command reads no view
		ours:  []string{"domain/...", "eventstore"},
	},
	{
		rooms: []string{
			"projections", "projections/callers", "projections/environments", "projections/jobs", "projections/sandboxes",
			"projections/sessions", "projections/tasks", "projections/tokens", "projections/timeline", "projections/upstreams",
		},
		ours: []string{"domain/...", "eventstore", "migrations", "projections"},
	},
	{
		// What one handler needs of another it declares as an interface.
		rooms: []string{
			"handlers/agent/...", "handlers/auth/...", "handlers/console/...", "handlers/gateway/...", "handlers/git/...",
			"handlers/mcp/...", "handlers/ops/...", "handlers/react/...", "handlers/rest/...", "handlers/sandbox/...",
			"handlers/supervisor/...", "handlers/tools/...", "handlers/upstream/...",
		},
		ours: []string{"commands", "domain/...", "eventstore", "handlers/mcp", "projections/..."},
		kin:  true,
	},
	{
		rooms: []string{"handlers/audit/..."}, // recomputes the hashes
		ours:  []string{"commands", "domain/...", "eventstore", "eventstore/chain", "handlers/mcp", "projections/..."},
		kin:   true,
	},
	{
		rooms: []string{"cmd/hangar/...", "cmd/hangar-bench/...", "cmd/hangar-upstream/...", "cmd/internal/..."},
		ours: []string{
			"cmd/internal/...", "commands", "domain/...", "eventstore/...", "handlers/...", "migrations", "projections/...",
		},
		kin: true,
	},
}

// impure are the packages of the standard library that pure rooms leave alone.
var impure = []string{
	"crypto/rand", "database/...", "hash/maphash", "log", "math/rand/...", "net", "net/http/...", "net/rpc/...",
	"net/smtp", "os/...", "runtime/...", "syscall/...", "unsafe",
}

// clockwork are the functions that read a clock or wait for one. In a pure room
// only clock, the file that makes the wall clock, calls them.
var clockwork = map[string][]string{
	"context": {"WithDeadline", "WithDeadlineCause", "WithTimeout", "WithTimeoutCause"},
	"time":    {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
}

const clock = "domain/clock.go"

// owners are the libraries that one part of the house keeps to itself.
var owners = map[string][]string{
	"modernc.org/sqlite/...": {"eventstore/sqlite", "projections"}, // projections alone opens views.db
}
