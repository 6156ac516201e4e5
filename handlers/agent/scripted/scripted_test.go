package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/agent"
	"hangar/handlers/agent/agenttest"
	"hangar/handlers/agent/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ agent.Runner = (*scripted.Runner)(nil)

func TestSuite(t *testing.T)         { agenttest.Run(t, setup) }
func TestSuiteInBubble(t *testing.T) { agenttest.RunInBubble(t, setup) }

func setup(t *testing.T) agenttest.Setup {
	lines := func(verb string, args ...string) string {
		var s strings.Builder
		for _, arg := range args {
			fmt.Fprintf(&s, "%s %s\n", verb, arg)
		}
		return s.String()
	}
	r := open(t)
	return agenttest.Setup{
		Runner: r,
		Prompts: agenttest.Prompts{
			Say:  func(text string) string { return lines("say", text) },
			Fail: func(code int) string { return fmt.Sprintf("fail %d", code) },
			Step: func(texts ...string) string { return lines("step", texts...) },
			Ask: func(q string, options ...string) string {
				return "ask " + strings.Join(append([]string{q}, options...), " | ") + "\nsay answer: {answer}"
			},
			Result:   func(values ...string) string { return lines("result", values...) },
			Artifact: func(name, text string) string { return "artifact " + name + " " + text },
			Flood:    func(n int) string { return fmt.Sprintf("flood %d", n) },
			Hang:     "hang",
			Lose:     "die",
		},
		Restart: func(t testing.TB) agent.Runner {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			return open(t)
		},
	}
}

func open(t testing.TB) *scripted.Runner {
	t.Helper()
	r := scripted.New("boot "+t.Name(), domain.SystemClock{})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

const id = domain.TurnID("job-aaaaaaaaaaaaaaaaaaaaaaaaaa.1")

// play runs a script in the current bubble and tells its journal in one line
// each: the kind, what it says, and at which second of the turn.
func play(t *testing.T, a turn.Assignment, r *scripted.Runner, meanwhile func(r *scripted.Runner)) []string {
	t.Helper()
	a.Turn = id
	begin := time.Now()
	if err := r.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if meanwhile != nil {
		synctest.Wait()
		meanwhile(r)
	}
	var told []string
	for {
		line, err := r.Next(t.Context(), id, len(told))
		if errors.Is(err, turn.ErrLost) {
			return told
		}
		if err != nil {
			t.Fatal(err)
		}
		at, err := domain.ParseTime(line.Time)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, fmt.Sprintf("%gs %s", at.Sub(begin).Seconds(), tell(line)))
	}
}

func tell(line turn.Line) string {
	switch line.Kind {
	case turn.LineAsked:
		return strings.TrimSpace(fmt.Sprintf("asked %d %s %q %s", line.Ask, line.Text, line.Options, line.Schema))
	case turn.LineAnswered:
		return fmt.Sprintf("answered %d", line.Ask)
	case turn.LineResult:
		return "result " + string(line.Result)
	case turn.LineExited:
		e := line.Exit
		return fmt.Sprintf("exited %s %d %s%s: %s", e.Reason, e.ExitCode, e.Code, e.Signal, e.Message)
	default:
		return strings.TrimSpace(string(line.Kind) + " " + line.Text)
	}
}

func TestScripts(t *testing.T) {
	answer := func(n int, text string) func(*scripted.Runner) {
		return func(r *scripted.Runner) { _ = r.Answer(context.Background(), id, n, json.RawMessage(text)) }
	}
	for _, tt := range []struct {
		name      string
		script    string
		schema    string
		meanwhile func(*scripted.Runner)
		want      string
	}{
		{name: "nothing", script: "\n  \n# a note\n", want: "0s exited completed 0 :"},
		{name: "work takes its time", script: "work 1.5s\nsay done", want: "1.5s exited completed 0 : done"},
		{
			name:   "steps are coalesced to one a second, the latest wins",
			script: "step a\nstep b\nstep c\nwork 3s\nstep d\nwork 200ms\nstep e\nwork 5s",
			want:   "0s step a\n1s step c\n3s step d\n4s step e\n8.2s exited completed 0 :",
		},
		{
			name: "a pending step is written before any other line and at the exit", script: "step a\nstep b\nresult 1\nstep c",
			want: "0s step a\n0s step b\n0s result 1\n0s step c\n0s exited completed 0 :",
		},
		{name: "an agent that dies takes its pending step along", script: "step a\nstep b\ndie\nsay never", want: "0s step a"},
		{name: "an exit code", script: "say no\nfail 7\nsay never", want: "0s exited failed 7 agent_exited: no"},
		{name: "the name of a code", script: "fail agent_protocol", want: "0s exited failed 1 agent_protocol:"},
		{
			name: "an answer in the default form", script: "ask Sure? | yes | no\nsay you said {answer}, {answer}",
			meanwhile: answer(1, `{"answer": "yes"}`),
			want:      "0s asked 1 Sure? [\"yes\" \"no\"]\n0s answered 1\n0s exited completed 0 : you said yes, yes",
		},
		{
			name: "an answer in a form of its own", script: `pose {"text":"Sure?","schema":{"type":"object"}}` + "\nawait\nsay {answer}",
			meanwhile: answer(1, `{"confirm": true}`),
			want:      "0s asked 1 Sure? [] {\"type\":\"object\"}\n0s answered 1\n0s exited completed 0 : {\"confirm\":true}",
		},
		{
			name: "two questions at once, answered in the other order", script: `pose {"text":"A"}` + "\n" + `pose {"text":"B"}` + "\nwork 1s\nawait\nsay {answer}",
			meanwhile: func(r *scripted.Runner) { answer(2, `"b"`)(r); answer(1, `"a"`)(r) },
			want:      "0s asked 1 A []\n0s asked 2 B []\n0s answered 2\n0s answered 1\n1s exited completed 0 : b",
		},
		{
			name: "a result of the wrong shape is refused and the turn goes on", script: "result {\"n\": \"x\"}\nresult {\"n\": 1}", schema: `{"properties":{"n":{"type":"integer"}}}`,
			want: "0s result {\"n\":1}\n0s exited completed 0 : result refused: jsonschema validation failed with 'urn:hangar:output-schema#'\n- at '/n': got string, want integer",
		},
		{name: "a result is missing", script: "say done", schema: `{}`, want: "0s exited failed 0 result_missing: done"},
		{
			name: "a schema that refers to files", script: "say done", schema: `{"$ref":"file:///etc/hostname"}`,
			want: "0s exited failed 1 agent_start: output schema: failing loading \"file:///etc/hostname\": file:///etc/hostname is not within the schema",
		},
		{name: "nothing runs of a script that cannot be read", script: "say a\nsing b", want: "0s exited failed 2 agent_exited: line 2: there is no verb \"sing\""},
		{name: "a workspace is needed to commit", script: "commit a b", want: "0s exited failed 1 agent_exited: commit: this turn has no workspace"},
		{
			name: "stopped at work", script: "say a\nwork 1h", meanwhile: func(r *scripted.Runner) { _ = r.Stop(context.Background(), id) },
			want: "0s exited cancelled -1 SIGTERM: a",
		},
		{name: "the lease ends", script: "work 2h", want: "3600s exited timeout -1 agent_timeoutSIGTERM:"},
		{name: "the runner is closed", script: "step a\nhang", meanwhile: func(r *scripted.Runner) { _ = r.Close() }, want: "0s step a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := turn.Assignment{Prompt: tt.script, OutputSchema: json.RawMessage(tt.schema), Deadline: time.Now().Add(time.Hour)}
				got := play(t, a, open(t), tt.meanwhile)
				for i := range got {
					got[i] = strings.TrimSuffix(got[i], " ")
				}
				if want := "0s started\n" + tt.want; strings.Join(got, "\n") != want {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
				}
			})
		})
	}
}

func TestScriptErrors(t *testing.T) {
	for script, want := range map[string]string{
		"work soon":                 `work: wants a duration as in 1.5s, not "soon"`,
		"work -1s":                  `work: wants a duration`,
		"step":                      "step: wants a text",
		"ask":                       "ask: wants a question",
		"ask Which? | a |":          "ask: wants a question and, after it, options",
		`pose {"txt": "a"}`:         "pose: wants",
		`pose {}`:                   "with a text",
		"await all":                 `await: takes nothing, not "all"`,
		"result {":                  "result: wants JSON",
		"commit file":               "commit: wants a file and a text",
		"artifact name":             "artifact: wants a file's name",
		"artifact ../name text":     "artifact: wants a file's name",
		"flood many":                "flood: wants a number of bytes",
		"fail 0":                    "fail: wants an exit code",
		"fail 256":                  "fail: wants an exit code",
		"fail Badly":                "fail: wants an exit code",
		"say a\n\n# note\nhang now": "line 4: hang: takes nothing",
	} {
		synctest.Test(t, func(t *testing.T) {
			got := play(t, turn.Assignment{Prompt: script}, open(t), nil)
			if last := got[len(got)-1]; len(got) != 2 || !strings.Contains(last, "failed 2 agent_exited: line ") || !strings.Contains(last, want) {
				t.Errorf("%q: %q, want %q", script, got, want)
			}
		})
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := strings.Repeat(`pose {"text":"Q"}`+"\n", turn.MaxQuestions+1) + "say on"
		got := play(t, turn.Assignment{Prompt: script}, open(t), nil)
		if n := len(got) - 2; n != turn.MaxQuestions {
			t.Errorf("%d questions", n)
		}
		if last := got[len(got)-1]; !strings.Contains(last, "question refused: a turn asks no more than 32\non") {
			t.Errorf("last line %s", last)
		}
	})
}

func TestReleaseOfARunningTurn(t *testing.T) {
	r := open(t)
	if err := r.Start(t.Context(), turn.Assignment{Turn: id, Prompt: "hang"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Release(t.Context(), id, ""); domain.CodeOf(err) != domain.Conflict {
		t.Errorf("Release: %v, want a conflict", err)
	}
}

func TestStartAfterClose(t *testing.T) {
	r := open(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), turn.Assignment{Turn: id}); domain.CodeOf(err) != domain.Unavailable {
		t.Errorf("Start: %v, want unavailable", err)
	}
}

func TestCommit(t *testing.T) {
	ws := agenttest.Workspace(t)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", ws.Repo}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + ws.Home, "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	hook := filepath.Join(ws.Repo, ".git", "hooks", "pre-commit")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	commit := func(script string) string {
		t.Helper()
		r := open(t)
		if err := r.Start(t.Context(), turn.Assignment{Turn: id, Prompt: script, Workspace: ws}); err != nil {
			t.Fatal(err)
		}
		line, err := r.Next(t.Context(), id, 1)
		if err != nil {
			t.Fatal(err)
		}
		return tell(line)
	}
	if got := commit("commit docs/a.md first text\ncommit :odd.md -second"); got != "exited completed 0 : " {
		t.Fatal(got)
	}
	if got := git("log", "--format=%an <%ae> %s"); got != "Hangar <hangar@localhost> -second\nHangar <hangar@localhost> first text" {
		t.Errorf("log:\n%s", got)
	}
	if got := git("show", "HEAD:docs/a.md"); got != "first text" {
		t.Errorf("docs/a.md holds %q", got)
	}
	git("config", "user.name", "Ada")
	git("config", "user.email", "ada@example.com")
	if got := commit("commit b.md third"); got != "exited completed 0 : " {
		t.Fatal(got)
	}
	if got := git("log", "-1", "--format=%an <%ae> %s"); got != "Ada <ada@example.com> third" {
		t.Errorf("log: %s", got)
	}
	if err := os.Symlink(ws.Home, filepath.Join(ws.Repo, "out")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{".git/config", "sub/.GIT/config", "../a", "/etc/a", "out/a"} {
		if got := commit("commit " + file + " text"); !strings.HasPrefix(got, "exited failed 1 agent_exited: commit: ") {
			t.Errorf("commit %s: %s", file, got)
		}
	}
}
