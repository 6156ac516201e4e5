//go:build linux

package supervisor_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"hangar/domain"
	"hangar/domain/turn"
)

func TestFloodOfOutput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const size = 100 << 20
	id := b.start(fmt.Sprintf("echo first; head -c %d /dev/zero; echo; echo last", size))
	e := b.exit(id)
	if e.Output.Bytes != size+len64("first\n\nlast\n") || e.Output.Kept != turn.MaxOutputBytes {
		t.Errorf("output %+v", e.Output)
	}
	if e.Summary != "last" || !strings.HasSuffix(e.Message, "last\n") {
		t.Errorf("message %q", e.Message)
	}
	to := filepath.Join(b.data, "kept")
	must(t, b.client.Release(b.ctx, id, to))
	got, err := os.ReadFile(to)
	must(t, err)
	if int64(len(got)) != e.Output.Kept || domain.Sum(got) != e.Output.SHA256 {
		t.Errorf("%d bytes kept, said %+v", len(got), e.Output)
	}
	if !strings.HasPrefix(string(got), "first\n") || !strings.HasSuffix(string(got), "\nlast\n") {
		t.Error("head or tail is not there")
	}
	if !strings.Contains(string(got), "bytes of output dropped here]") {
		t.Error("what was dropped is not said")
	}
}

func len64(s string) int64 { return int64(len(s)) }

func TestOutputOfAnyBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.exit(b.start(`printf 'a\0b\377\376c \033[31mred\033[0m 10%%\r20%%\r\n'; printf '\033]0;title\007end\n'; head -c 300000 /dev/zero | tr '\0' x`))
	if !utf8.ValidString(e.Message) || len(e.Message) > turn.MaxMessageBytes || len(e.Summary) > 1<<10 {
		t.Errorf("message of %d bytes, summary of %d", len(e.Message), len(e.Summary))
	}
	e = b.exit(b.start(`printf 'a\0b\377\376c \033[31mred\033[0m 10%%\r20%%\r\n\033]0;title\007end\n'`))
	if e.Message != "20%\nend\n" {
		t.Errorf("message %q", e.Message)
	}
	e = b.exit(b.start(`printf 'a\0b\377c \033[31mred\033[0m\n'`))
	if e.Message != "ab\ufffdc red\n" {
		t.Errorf("message %q", e.Message)
	}
}

func TestHelperTokenReachesTheHelperAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(`echo "$HANGAR_TOKEN" >token; hangar ask x`)
	token := strings.TrimSpace(string(b.read(b.ws.Repo + "/token")))
	b.until(id, turn.LineAsked)
	where := b.where(id)
	for _, c := range []struct{ token, do, code string }{
		{"", "step", "unauthorized"},
		{"wrong", "step", "unauthorized"},
		{where.Token + "x", "next", "unauthorized"},
		{token, "stop", "forbidden"},
		{token, "answer", "forbidden"},
		{token, "next", "forbidden"},
		{token, "release", "forbidden"},
		{where.Token, "ask", "forbidden"},
		{where.Token, "nothing", "unsupported"},
	} {
		if got := b.say(where.Socket, c.token, 1, c.do); got != c.code {
			t.Errorf("token %.4q, %s: %q, want %q", c.token, c.do, got, c.code)
		}
	}
	if got := b.say(where.Socket, where.Token, 99, "next"); got != "unsupported" {
		t.Errorf("a version of the future: %q", got)
	}
	if token == where.Token {
		t.Error("agent and server have one token")
	}
}

// say holds a conversation by hand and gives the code of its refusal.
func (b *bench) say(socket, token string, version int, do string) string {
	b.t.Helper()
	c, err := net.Dial("unix", socket)
	must(b.t, err)
	defer c.Close()
	in := bufio.NewReader(c)
	fmt.Fprintf(c, "{\"versions\":[%d],\"token\":%q}\n", version, token)
	for range 2 {
		text, err := in.ReadBytes('\n')
		must(b.t, err)
		var got struct{ Error *struct{ Code string } }
		must(b.t, json.Unmarshal(text, &got))
		if got.Error != nil {
			return got.Error.Code
		}
		fmt.Fprintf(c, "{\"do\":%q}\n", do)
	}
	return ""
}

func TestNewcomersCannotKeepTheServerOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start("hangar ask x")
	b.until(id, turn.LineAsked)
	socket := b.where(id).Socket
	for range 600 {
		c, err := net.Dial("unix", socket)
		must(t, err)
		defer c.Close()
	}
	must(t, b.client.Stop(b.ctx, id))
	if e := b.exit(id); e.Reason != turn.ExitCancelled {
		t.Errorf("exit %+v", e)
	}
}

func TestResultIsChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	schema := json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}`)
	with := func(p *turn.Process) { p.OutputSchema = schema }
	id := b.start(`
		hangar result '{"n": "one"}' && exit 10
		hangar result 'not json' && exit 11
		echo '{"m": 1}' | hangar result - && exit 12
		hangar result '{"n": 1}' && echo '{"n": 2}' | hangar result -`, with)
	lines := b.lines(b.client, id, turn.LineExited)
	if len(lines) != 4 || string(lines[2].Result) != `{"n":2}` {
		t.Errorf("lines %+v", lines)
	}
	e := lines[len(lines)-1].Exit
	for _, want := range []string{"/n", "got string, want integer", "is not JSON", "missing property 'n'"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("the agent was not told %q: %s", want, e.Message)
		}
	}
	if e.Reason != turn.ExitCompleted {
		t.Errorf("exit %+v", e)
	}
	if e := b.exit(b.start("true", with)); e.Reason != turn.ExitFailed || e.Code != turn.ResultMissing || e.ExitCode != 0 {
		t.Errorf("without a result: %+v", e)
	}
	e2 := b.exit(b.start("true", func(p *turn.Process) {
		p.OutputSchema = json.RawMessage(`{"$ref":"file:///etc/passwd"}`)
	}))
	if e2.Code != turn.AgentStart || !strings.Contains(e2.Message, "refers to itself only") {
		t.Errorf("a schema that leads elsewhere: %+v", e2)
	}
}

func TestHelperVerbs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(`
		mkdir -p dist; echo data >dist/a.txt; ln -s /etc/passwd dist/out
		hangar artifact dist/a.txt && (cd dist && hangar artifact --name other a.txt) || exit 10
		hangar artifact dist/out; test $? = 1 || exit 11
		hangar artifact dist; test $? = 1 || exit 12
		hangar pr --title 'A  title' --body='Some
body' || exit 13
		hangar pr; test $? = 2 || exit 14
		hangar ask; test $? = 2 || exit 15
		hangar ask --color x; test $? = 2 || exit 16
		hangar result; test $? = 2 || exit 17
		hangar ask --help || exit 18
		hangar step -- --not-an-option || exit 19`)
	lines := b.lines(b.client, id, turn.LineExited)
	e := lines[len(lines)-1].Exit
	if e.Reason != turn.ExitCompleted || len(lines) != 6 {
		t.Fatalf("lines %+v, exit %+v", lines, e)
	}
	if l := lines[1]; l.Kind != turn.LineArtifact || l.Name != "a.txt" || l.Path != "repo/dist/a.txt" {
		t.Errorf("artifact %+v", l)
	}
	if l := lines[2]; l.Name != "other" || l.Path != "repo/dist/a.txt" {
		t.Errorf("artifact %+v", l)
	}
	if l := lines[3]; l.Kind != turn.LinePR || l.Title != "A title" || l.Text != "Some\nbody" {
		t.Errorf("pr %+v", l)
	}
	if e.Summary != "--not-an-option" {
		t.Errorf("summary %q", e.Summary)
	}
	for _, want := range []string{"is not in the workspace", "is not a file", "no --title", "no option --color", "usage: hangar ask QUESTION"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("not said: %q\n%s", want, e.Message)
		}
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.start(fmt.Sprintf("for i in $(seq %d); do hangar ask $i || exit $?; done", turn.MaxQuestions+1))
	for n, ask := 0, 0; ; n++ {
		line, err := b.client.Next(b.ctx, id, n)
		must(t, err)
		if line.Kind == turn.LineAsked {
			ask = line.Ask
			must(t, b.client.Answer(b.ctx, id, ask, json.RawMessage(`""`)))
		}
		if line.Kind == turn.LineExited {
			if ask != turn.MaxQuestions || line.Exit.ExitCode != 1 {
				t.Errorf("%d questions, exit %+v", ask, line.Exit)
			}
			return
		}
	}
}

func TestStepsAreThinnedOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// By hand, as an agent that calls much more often than a process can be started.
	id := b.start(`echo "$HANGAR_TOKEN" >token; hangar ask x; exit 0`)
	token := strings.TrimSpace(string(b.read(b.ws.Repo + "/token")))
	asked := b.until(id, turn.LineAsked)
	const calls = 2000
	for i := range calls {
		c, err := net.Dial("unix", b.where(id).Socket)
		must(t, err)
		in := bufio.NewReader(c)
		fmt.Fprintf(c, "{\"versions\":[1],\"token\":%q}\n{\"do\":\"step\",\"text\":\"step %d\"}\n", token, i)
		for range 2 {
			_, err := in.ReadBytes('\n')
			must(t, err)
		}
		c.Close()
	}
	must(t, b.client.Answer(b.ctx, id, asked.Ask, json.RawMessage(`""`)))
	lines := b.lines(b.client, id, turn.LineExited)
	if len(lines) > calls/20 {
		t.Errorf("%d lines for %d steps", len(lines), calls)
	}
	if e := lines[len(lines)-1].Exit; e.Summary != fmt.Sprintf("step %d", calls-1) {
		t.Errorf("summary %q", e.Summary)
	}
	if l := lines[len(lines)-2]; l.Kind != turn.LineStep || l.Text != fmt.Sprintf("step %d", calls-1) {
		t.Errorf("the last step is not written: %+v", l)
	}
}
