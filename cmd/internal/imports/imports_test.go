package imports

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestImports holds the module to the table.
func TestImports(t *testing.T) {
	files, err := read(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files, func(f file) bool { return f.name == clock }) {
		t.Errorf("%s is not among the %d files found", clock, len(files))
	}
	for _, line := range check("hangar", files) {
		t.Error(line)
	}
}

// TestTable finds what the table grants and does not know, and rooms in it twice.
func TestTable(t *testing.T) {
	var rooms []string
	for _, r := range rules {
		for _, room := range r.rooms {
			if slices.ContainsFunc(rooms, func(other string) bool {
				return match(other, strings.TrimSuffix(room, "/...")) || match(room, strings.TrimSuffix(other, "/..."))
			}) {
				t.Errorf("%s overlaps another room", room)
			}
			rooms = append(rooms, room)
		}
	}
	known := func(granted string) bool {
		return slices.ContainsFunc(rooms, func(room string) bool {
			return match(granted, strings.TrimSuffix(room, "/...")) || match(room, granted)
		})
	}
	for _, r := range rules {
		for _, granted := range r.ours {
			if !known(granted) {
				t.Errorf("%s may import %s, which is no room", r.rooms, granted)
			}
		}
	}
	for lib, granted := range owners {
		for _, room := range granted {
			if !known(room) {
				t.Errorf("%s belongs to %s, which is no room", lib, room)
			}
		}
	}
}

// TestCheck shows the check what it must not let pass.
func TestCheck(t *testing.T) {
	const header = "package p\n"
	tests := []struct {
		name, file, text string
		want             []string
	}{
		{"may", "handlers/tools/a.go", `import (_ "hangar/commands"; _ "hangar/domain/job"; _ "hangar/handlers/mcp"; _ "hangar/projections/jobs"; _ "example.com/x"; _ "os")`, nil},
		{"its parent", "handlers/agent/shell/a.go", `import _ "hangar/handlers/agent"`, nil},
		{"its children", "handlers/mcp/a.go", `import _ "hangar/handlers/mcp/modern"`, nil},
		{"audit recomputes hashes", "handlers/audit/a.go", `import _ "hangar/eventstore/chain"`, nil},
		{"cmd builds engines", "cmd/internal/app/a.go", `import (_ "hangar/eventstore/sqlite"; _ "hangar/handlers/mcp/modern")`, nil},
		{"the wall clock", "domain/clock.go", `import "time"; var now = time.Now`, nil},
		{"times without a clock", "domain/task/a.go", `import ("net/url"; "time"); var _ url.URL; func f(t time.Time) time.Time { return t.Add(time.Second) }`, nil},
		{"canonical form", "domain/tool/a.go", `import _ "github.com/gowebpki/jcs"`, nil},
		{"tests may", "commands/a_test.go", `import _ "hangar/eventstore/memory"`, nil},
		{"no source", "handlers/mcp/testdata/a.go", `import _ "hangar/eventstore/memory"`, nil},

		{"no such room", "handlers/new/a.go", ``, []string{
			"package handlers/new is in 0 rooms of the table, want 1",
		}},
		{"no package below", "eventstore/sqlite/deep/a.go", ``, []string{
			"package eventstore/sqlite/deep is in 0 rooms of the table, want 1",
		}},
		{"root", "a.go", ``, []string{
			"package . is in 0 rooms of the table, want 1",
		}},
		{"domain is below all", "domain/a.go", `import _ "hangar/domain/event"`, []string{
			"domain/a.go imports hangar/domain/event: domain may import nothing of ours",
		}},
		{"an aggregate beside it", "domain/task/a.go", `import _ "hangar/domain/job"`, []string{
			"domain/task/a.go imports hangar/domain/job: domain/task may import domain, domain/event, domain/turn",
		}},
		{"a view from a command", "commands/a.go", `import _ "hangar/projections"`, []string{
			"commands/a.go imports hangar/projections: commands may import domain/..., eventstore",
		}},
		{"an engine from a handler", "handlers/rest/a.go", `import _ "hangar/eventstore/sqlite"`, []string{
			"handlers/rest/a.go imports hangar/eventstore/sqlite: handlers/rest may import commands, domain/..., eventstore, handlers/mcp, projections/..., what is above and below it",
		}},
		{"the chain from a handler", "handlers/rest/a.go", `import _ "hangar/eventstore/chain"`, []string{
			"handlers/rest/a.go imports hangar/eventstore/chain: handlers/rest may import commands, domain/..., eventstore, handlers/mcp, projections/..., what is above and below it",
		}},
		{"another handler", "handlers/react/a.go", `import _ "hangar/handlers/agent"`, []string{
			"handlers/react/a.go imports hangar/handlers/agent: handlers/react may import commands, domain/..., eventstore, handlers/mcp, projections/..., what is above and below it",
		}},
		{"a wire", "handlers/rest/a.go", `import _ "hangar/handlers/mcp/modern"`, []string{
			"handlers/rest/a.go imports hangar/handlers/mcp/modern: handlers/rest may import commands, domain/..., eventstore, handlers/mcp, projections/..., what is above and below it",
		}},
		{"a sibling", "handlers/agent/shell/a.go", `import _ "hangar/handlers/agent/scripted"`, []string{
			"handlers/agent/shell/a.go imports hangar/handlers/agent/scripted: handlers/agent/shell may import commands, domain/..., eventstore, handlers/mcp, projections/..., what is above and below it",
		}},
		{"another view", "projections/jobs/a.go", `import _ "hangar/projections/tasks"`, []string{
			"projections/jobs/a.go imports hangar/projections/tasks: projections/jobs may import domain/..., eventstore, migrations, projections",
		}},
		{"a database of its own", "projections/jobs/a.go", `import _ "modernc.org/sqlite"`, []string{
			"projections/jobs/a.go imports modernc.org/sqlite: only eventstore/sqlite and projections may",
		}},
		{"test support", "cmd/hangar/a.go", `import _ "hangar/handlers/agent/agenttest"`, []string{
			"cmd/hangar/a.go imports hangar/handlers/agent/agenttest: only tests may",
		}},
		{"a library", "domain/task/a.go", `import _ "example.com/x"`, []string{
			"domain/task/a.go imports example.com/x: domain/task is pure, and the table lists no such library",
		}},
		{"the world", "domain/job/a.go", `import (_ "crypto/rand"; _ "math/rand/v2"; _ "net"; _ "os/exec")`, []string{
			"domain/job/a.go imports crypto/rand: domain/job is pure: no I/O, no wall clock, no randomness",
			"domain/job/a.go imports math/rand/v2: domain/job is pure: no I/O, no wall clock, no randomness",
			"domain/job/a.go imports net: domain/job is pure: no I/O, no wall clock, no randomness",
			"domain/job/a.go imports os/exec: domain/job is pure: no I/O, no wall clock, no randomness",
		}},
		{"a clock", "domain/turn/a.go", `import clock "time"; var _ = clock.Now`, []string{
			"domain/turn/a.go uses time.Now: domain/turn is pure, times come in by argument",
		}},
		{"a hidden clock", "domain/turn/a.go", `import . "time"; var _ = Now`, []string{
			"domain/turn/a.go imports time with a dot, which hides clocks",
		}},
		{"another platform's file", "handlers/git/a_windows.go", `import _ "hangar/handlers/ops"`, []string{
			"handlers/git/a_windows.go imports hangar/handlers/ops: handlers/git may import commands, domain/..., eventstore, handlers/mcp, projections/..., what is above and below it",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files, err := read(fstest.MapFS{tt.file: {Data: []byte(header + tt.text)}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, check("hangar", files)); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
		})
	}
}

// root gives the module's root: the nearest folder upwards with a go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above this test")
		}
		dir = up
	}
}
