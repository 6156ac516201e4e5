package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take before a test gives up on it.
const patience = time.Minute

// server is a Hangar in a process of its own, on a data folder that outlives it.
type server struct {
	t    *testing.T
	data string
	url  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
}

// newServer starts a server on a new data folder. At the end of the test it is
// killed, and what its agents left ends with their folders' locks.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, data: filepath.Join(t.TempDir(), "data")}
	t.Cleanup(func() {
		s.kill()
		s.killAgents()
	})
	s.start("")
	return s
}

// start starts the process; die is the point at which it kills itself.
func (s *server) start(die string) {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(self)
	s.cmd.Env = append(os.Environ(), envData+"="+s.data, envDie+"="+die)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "hangar: ready on "); ok {
			s.url = url
			break
		}
	}
	s.done = make(chan struct{})
	go func() {
		io.Copy(io.Discard, out) //nolint:errcheck // it ends with the process
		s.cmd.Wait()             //nolint:errcheck // it is killed, mostly
		close(s.done)
	}()
	if s.url == "" {
		s.t.Fatal("the server did not become ready")
	}
}

func (s *server) kill() {
	s.cmd.Process.Signal(syscall.SIGKILL) //nolint:errcheck // it may be dead
	<-s.done
	s.url = ""
}

// gone waits until the server has killed itself.
func (s *server) gone() {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatal("the server did not die where it should")
	}
}

// killAgents ends what still runs for this data folder: the supervisors first, by
// the locks they hold, so that they cannot tell how their agents ended.
func (s *server) killAgents() {
	for _, pattern := range []string{"/proc/[0-9]*/fd/*", "/proc/[0-9]*/environ"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			link, _ := os.Readlink(file)
			var env []byte
			if link == "" {
				env, _ = os.ReadFile(file)
			}
			if strings.HasPrefix(link, s.data+"/run/") || bytes.Contains(env, []byte(s.data)) {
				s.killProcess(file)
			}
		}
	}
}

func (s *server) killProcess(file string) {
	var pid int
	if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil && pid != os.Getpid() {
		syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may be dead
	}
}

func (s *server) token() string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.data, "admin.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// reply is a JSON-RPC response.
type reply struct {
	HTTP   int
	Result map[string]any
	Error  *struct {
		Code    int
		Message string
		Data    any
	}
}

// call sends one request of the modern wire, with the tasks extension and
// elicitation declared.
func (s *server) call(method, name string, params map[string]any) reply {
	s.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"elicitation": map[string]any{}, "extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}},
		},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Authorization": "Bearer " + s.token(), "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	r := reply{HTTP: resp.StatusCode}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil && resp.StatusCode == http.StatusOK {
		s.t.Fatalf("%s answered %d %q", method, resp.StatusCode, text)
	}
	return r
}

// tool calls a tool that must succeed, and gives the result.
func (s *server) tool(name string, args map[string]any) map[string]any {
	s.t.Helper()
	r := s.call("tools/call", name, map[string]any{"name": name, "arguments": args})
	if r.Error != nil || r.Result["isError"] == true {
		s.t.Fatalf("%s answered %+v", name, r)
	}
	return r.Result
}

// submit submits a job and gives its id and its task's.
func (s *server) submit(args map[string]any) (job, task string) {
	s.t.Helper()
	r := s.tool("submit_job", args)
	meta, _ := r["_meta"].(map[string]any)
	job, _ = meta["hangar/job"].(string)
	task, _ = r["taskId"].(string)
	if job == "" || task == "" {
		s.t.Fatalf("submit_job answered %v", r)
	}
	return job, task
}

func (s *server) get(task string) map[string]any {
	s.t.Helper()
	r := s.call("tasks/get", task, map[string]any{"taskId": task})
	if r.Error != nil {
		s.t.Fatalf("tasks/get answered %+v", r.Error)
	}
	return r.Result
}

// until waits until a task shows a status.
func (s *server) until(task, status string) map[string]any {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r := s.get(task)
		if r["status"] == status {
			return r
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the task is %v, not %s", r, status)
		}
		<-tick.C
	}
}

// answer answers a question of a task.
func (s *server) answer(task, key, text string) {
	s.t.Helper()
	r := s.call("tasks/update", task, map[string]any{"taskId": task, "inputResponses": map[string]any{
		key: map[string]any{"action": "accept", "content": map[string]any{"answer": text}},
	}})
	if r.Error != nil {
		s.t.Fatalf("tasks/update answered %+v", r.Error)
	}
}

// turnOf gives the turn of a completed task.
func turnOf(t *testing.T, task map[string]any) map[string]any {
	t.Helper()
	result, _ := task["result"].(map[string]any)
	out, _ := result["structuredContent"].(map[string]any)
	turn, _ := out["turn"].(map[string]any)
	if turn == nil {
		t.Fatalf("the task has no turn: %v", task)
	}
	return turn
}
