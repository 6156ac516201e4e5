package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hangar/cmd/internal/app"
)

func TestSecondServerIsRefusedByTheFirstsName(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	second := exec.Command(s.cmd.Path)
	second.Env = append(os.Environ(), envData+"="+s.data)
	out, err := second.CombinedOutput()
	want := fmt.Sprintf("another hangar (pid %d, %s) uses this data folder", s.cmd.Process.Pid, s.url)
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("the second server said %q, %v; want %q", out, err, want)
	}
	if r := s.call("server/discover", "", nil); r.Error != nil {
		t.Errorf("the first server was disturbed: %+v", r.Error)
	}
}

// TestKilledBetweenTheFirstNameAndItsToken is about a log that ends where a first
// start was killed: the administrator's name is given out, and no token with it.
func TestKilledBetweenTheFirstNameAndItsToken(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.kill()
	db, err := sql.Open("sqlite", filepath.Join(s.data, "hangar.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{"DROP TRIGGER events_stay", "DELETE FROM events WHERE position > (SELECT position FROM events WHERE type = 'PrincipalReserved')"} {
		if _, err := db.Exec(do); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.start("")
		if r := s.call("server/discover", "", nil); r.Error != nil {
			t.Fatalf("the administrator is locked out: %+v", r.Error)
		}
		s.kill()
	}
}

func TestDamagedViewsAreSaidToBeWorthless(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	views := filepath.Join(data, "views.db")
	if err := os.WriteFile(views, []byte(strings.Repeat("damaged ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := app.New(testConfig(data), app.Options{})
	if err == nil || !strings.Contains(err.Error(), "views.db cannot be opened") || !strings.Contains(err.Error(), "remove it") {
		t.Fatalf("got %v", err)
	}
	if err := os.Remove(views); err != nil {
		t.Fatal(err)
	}
	a, err := app.New(testConfig(data), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// inProcess is a server in this process, for what a test wants to set.
func inProcess(t *testing.T, opts app.Options) *server {
	t.Helper()
	s := &server{t: t, data: filepath.Join(t.TempDir(), "data")}
	cfg := testConfig(s.data)
	cfg.DefaultAgent = "scripted"
	a, err := app.New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	s.url = a.URL()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	s.ready()
	return s
}

// ready waits until the server says that it is.
func (s *server) ready() {
	s.t.Helper()
	for {
		resp, err := http.Get(strings.TrimSuffix(s.url, "/mcp") + "/readyz")
		if err != nil {
			s.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
}

func TestFullDiskFailsTheCallAndNothingElse(t *testing.T) {
	t.Parallel()
	s := inProcess(t, app.Options{MaxLogPages: 120})
	long := strings.Repeat("# a long prompt\n", 1000)
	_, kept := s.submit(map[string]any{"prompt": "say done"})
	s.until(kept, "completed")
	var refused map[string]any
	for range 200 {
		r := s.call("tools/call", "submit_job", map[string]any{"name": "submit_job", "arguments": map[string]any{"prompt": long + "say done"}})
		if r.Error != nil {
			t.Fatalf("submit_job answered %+v", r.Error)
		}
		if r.Result["isError"] == true {
			refused = r.Result
			break
		}
	}
	if text := fmt.Sprint(refused["content"]); !strings.Contains(text, "disk full") {
		t.Errorf("the refused call says %q", text)
	}
	if got := s.get(kept)["status"]; got != "completed" {
		t.Errorf("a task from before shows %v", got)
	}
	if r := s.call("tools/call", "list_jobs", map[string]any{"name": "list_jobs", "arguments": map[string]any{}}); r.Result["isError"] == true {
		t.Errorf("list_jobs answered %v", r.Result)
	}
}

func TestSameKeyAcrossARestart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	args := func(prompt string) map[string]any {
		return map[string]any{"prompt": prompt, "idempotency_key": "monday"}
	}
	job, task := s.submit(args("hangar ask wait"))
	s.until(task, "input_required")
	s.kill()
	s.start("")
	again, sameTask := s.submit(args("hangar ask wait"))
	if again != job || sameTask != task {
		t.Errorf("the same key gave %s and %s, then %s and %s", job, task, again, sameTask)
	}
	r := s.call("tools/call", "submit_job", map[string]any{"name": "submit_job", "arguments": args("true")})
	if text := fmt.Sprint(r.Result["content"]); r.Result["isError"] != true || !strings.Contains(text, "monday") {
		t.Errorf("the same key with other arguments answered %v", r.Result)
	}
}

func TestNobodyElseSeesATask(t *testing.T) {
	t.Parallel()
	s := inProcess(t, app.Options{})
	_, task := s.submit(map[string]any{"prompt": "ask wait"})
	s.until(task, "input_required")
	mine := s.token()
	for what, token := range map[string]string{"no token": "", "garbage": "hgr_garbage", "a token never issued": "hgr_" + strings.Repeat("A", 43)} {
		if err := os.WriteFile(filepath.Join(s.data, "admin.token"), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := s.call("tasks/get", task, map[string]any{"taskId": task}); r.HTTP != http.StatusUnauthorized {
			t.Errorf("%s: HTTP %d", what, r.HTTP)
		}
	}
	if err := os.WriteFile(filepath.Join(s.data, "admin.token"), []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"task-aaaaaaaaaaaaaaaaaaaaaaaaaa", "task-1", "x"} {
		r := s.call("tasks/get", id, map[string]any{"taskId": id})
		if r.HTTP != http.StatusOK || r.Error == nil || r.Error.Code != -32602 || r.Error.Message != "unknown task" || r.Error.Data != nil {
			t.Errorf("%s: HTTP %d, %+v", id, r.HTTP, r.Error)
		}
	}
}

func TestLostSecretIsNotMadeUp(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	a, err := app.New(testConfig(data), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(data, "secret.key")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := app.New(testConfig(data), app.Options{}); err == nil || !strings.Contains(err.Error(), "hangar secret rotate --lost") {
		t.Fatalf("a server without its secret: %v", err)
	}
	if _, err := os.Stat(key); !os.IsNotExist(err) {
		t.Fatalf("a secret that looks genuine was written: %v", err)
	}
	if _, err := app.RotateSecret(t.Context(), testConfig(data), true); err != nil {
		t.Fatal(err)
	}
	if a, err = app.New(testConfig(data), app.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(data, "views.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("views.db: %v, %v", info.Mode(), err)
	}
}
