package app_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestJobAsksIsAnsweredAndEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	job, task := s.submit(map[string]any{"prompt": `
hangar step reading
colour=$(hangar ask "Which colour?" --option red --option blue)
echo "chose $colour"
echo "$colour" >colour.txt
hangar artifact colour.txt --name colour
hangar result '{"colour": "'$colour'"}'`, "output_schema": map[string]any{"type": "object", "required": []string{"colour"}}})
	asked := s.until(task, "input_required")
	if got := asked["statusMessage"]; got != "Which colour?" {
		t.Errorf("statusMessage %v", got)
	}
	s.answer(task, "answer-1", "blue")
	turn := turnOf(t, s.until(task, "completed"))
	if got := turn["message"]; got != "chose blue\n" {
		t.Errorf("message %q", got)
	}
	if got := turn["result"]; got.(map[string]any)["colour"] != "blue" {
		t.Errorf("result %v", got)
	}
	uri := "hangar://jobs/" + job + "/artifacts/colour"
	r := s.call("resources/read", uri, map[string]any{"uri": uri})
	if text, _ := json.Marshal(r.Result["contents"]); !strings.Contains(string(text), `"blue\n"`) {
		t.Errorf("the artifact reads %s, %+v", text, r.Error)
	}
}

func TestJobBringsCommitsBack(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	repo := newRepo(t)
	job, task := s.submit(map[string]any{"repo": repo, "prompt": `
echo hello >hello.txt
git add hello.txt
git commit -qm "Say hello"
echo more >>hello.txt
hangar pr --title "Hello" --body "It says hello."`})
	result, _ := s.until(task, "completed")["result"].(map[string]any)
	out, _ := result["structuredContent"].(map[string]any)
	pr, _ := out["pr"].(map[string]any)
	if pr["branch"] != "hangar/"+job || pr["title"] != "Hello" || pr["patch"] != "changes.patch" {
		t.Errorf("pr %v", pr)
	}
	patch := s.answerOf("read_artifact", map[string]any{"job_id": job, "name": "changes.patch", "max_bytes": 64})
	if text, _ := patch["content"].(string); !strings.HasPrefix(text, "diff --git a/hello.txt") || patch["truncated"] != true {
		t.Errorf("the patch begins with %v", patch)
	}
	if info := s.answerOf("get_info", map[string]any{}); info["tools_hash"] == nil || info["default_agent"] != "shell" {
		t.Errorf("get_info answered %v", info)
	}
	if got := git(t, repo, "log", "-1", "--format=%an: %s", "hangar/"+job); got != "Ann: Say hello" {
		t.Errorf("the branch's commit is %q", got)
	}
	if got := git(t, repo, "status", "--porcelain"); got != "" {
		t.Errorf("the user's tree changed: %q", got)
	}
}

func TestJobSaysThatItsBranchWasTaken(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	repo := newRepo(t)
	_, task := s.submit(map[string]any{"repo": repo, "branch": "mine", "prompt": `
echo hello >hello.txt
git add hello.txt
git commit -qm "Say hello"
hangar ask "Go on?"`})
	s.until(task, "input_required")
	git(t, repo, "branch", "mine", git(t, repo, "commit-tree", "-p", "HEAD", "-m", "Another's", "HEAD^{tree}"))
	s.answer(task, "answer-1", "yes")
	result, _ := s.until(task, "completed")["result"].(map[string]any)
	out, _ := result["structuredContent"].(map[string]any)
	turn, _ := out["turn"].(map[string]any)
	for _, note := range []any{out["note"], turn["note"]} {
		if text, _ := note.(string); !strings.Contains(text, `the branch "mine"`) || !strings.Contains(text, "does not continue") {
			t.Errorf("the note is %v", note)
		}
	}
	if pr, _ := out["pr"].(map[string]any); pr["branch"] != nil || pr["patch"] != "changes.patch" {
		t.Errorf("pr %v", pr)
	}
}

func TestKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	const script = `
hangar step begun
answer=$(hangar ask "Go on?")
git commit -q --allow-empty -m "It was $answer"
echo "$answer" >ran.txt
hangar artifact ran.txt
echo done`
	for _, point := range []string{"before-agent-start", "after-agent-start", "before-turn-close", "after-turn-close", "question", "no-server"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			repo := newRepo(t)
			switch point {
			case "question", "no-server":
			default:
				s.kill()
				s.start(point)
			}
			job, task := s.submit(map[string]any{"repo": repo, "prompt": script})
			switch point {
			case "before-agent-start", "after-agent-start":
				s.gone()
				s.start("")
				s.until(task, "input_required")
				s.answer(task, "answer-1", "fine")
			case "question":
				s.until(task, "input_required")
				s.kill()
				s.start("")
				s.until(task, "input_required")
				s.answer(task, "answer-1", "fine")
			case "before-turn-close", "after-turn-close":
				s.until(task, "input_required")
				s.answer(task, "answer-1", "fine")
				s.gone()
				s.start("")
			case "no-server":
				s.until(task, "input_required")
				s.answer(task, "answer-1", "fine")
				waitForLine(t, s, job, "answered")
				s.kill()
				waitForLine(t, s, job, "exited")
				s.start("")
			}
			turn := turnOf(t, s.until(task, "completed"))
			if turn["status"] != "completed" || turn["message"] != "done\n" {
				t.Errorf("the turn ended as %v", turn)
			}
			if got := git(t, repo, "log", "--format=%s", "main..hangar/"+job); got != "It was fine" {
				t.Errorf("commits %q: the agent ran other than once", got)
			}
		})
	}
}

// waitForLine waits until a turn's journal has a line of a kind, or is gone since
// it was released.
func waitForLine(t *testing.T, s *server, job, kind string) {
	t.Helper()
	journal := filepath.Join(s.data, "run", job+".1", "journal")
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(journal)
		if os.IsNotExist(err) || strings.Contains(string(b), `"kind":"`+kind+`"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no line %s in %s", kind, b)
		}
		<-tick.C
	}
}

func TestLostAgentIsSaidHonestly(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, task := s.submit(map[string]any{"prompt": `hangar ask "Go on?"`})
	s.until(task, "input_required")
	s.kill()
	s.killAgents()
	s.start("")
	turn := turnOf(t, s.until(task, "completed"))
	if turn["status"] != "failed" || turn["error"].(map[string]any)["code"] != "agent_lost" {
		t.Errorf("the turn ended as %v", turn)
	}
}

func TestCancelEndsTheAgent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, task := s.submit(map[string]any{"prompt": "hangar step on\nsetsid sleep 1000 & sleep 1000"})
	deadline := time.Now().Add(patience)
	for s.get(task)["statusMessage"] != "on" {
		if time.Now().After(deadline) {
			t.Fatal("the agent does not start")
		}
	}
	if r := s.call("tasks/cancel", task, map[string]any{"taskId": task}); r.Error != nil {
		t.Fatalf("tasks/cancel answered %+v", r.Error)
	}
	s.until(task, "cancelled")
}

// answerOf calls a tool and gives its structured content.
func (s *server) answerOf(name string, args map[string]any) map[string]any {
	s.t.Helper()
	out, ok := s.tool(name, args)["structuredContent"].(map[string]any)
	if !ok {
		s.t.Fatalf("%s answered without structured content", name)
	}
	return out
}

func newRepo(t *testing.T) string {
	t.Helper()
	repo := filepath.Join(t.TempDir(), "repo")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", repo},
		{"-C", repo, "config", "user.name", "Ann"},
		{"-C", repo, "config", "user.email", "ann@example.com"},
		{"-C", repo, "commit", "-q", "--allow-empty", "-m", "Begin"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return repo
}

func git(t *testing.T, repo string, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
