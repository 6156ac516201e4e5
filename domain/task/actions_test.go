package task_test

import (
	"encoding/json"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// actions are all that can happen to a job and its tasks, in any order.
func (l *ledger) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":             func(*rapid.T) { l.check() },
		"time passes":  l.wait,
		"submit":       l.submit,
		"follow up":    l.followUp,
		"cancel job":   l.cancelJob,
		"answer":       l.answer,
		"change step":  l.changeStep,
		"next line":    l.nextLine,
		"a line more":  l.nextLine, // twice as likely
		"read again":   l.readAgain,
		"close":        l.close,
		"register":     l.register,
		"consent":      l.consent,
		"refuse":       l.refuse,
		"cancel task":  l.cancelTask,
		"observe":      l.observe,
		"observe late": l.observeLate,
		"expire":       l.expire,
	}
}

var (
	texts   = rapid.SampledFrom([]string{"yes", "no", "red\n", "", `{"colour":"red"}`, `{"colour":`, "null"})
	answers = rapid.SampledFrom([]string{`"yes"`, `"no"`, ` "red" `, `null`, `""`, `{"colour":"red"}`, `{ "colour" : "blue" }`, `{"colour":`, `7`, ``})
	vias    = rapid.SampledFrom([]string{turn.ViaTask, turn.ViaFollowUp, turn.ViaCLI, turn.ViaREST})
	actions = rapid.SampledFrom([]string{task.Decline, task.Dismiss})
)

func (l *ledger) wait(t *rapid.T) {
	l.now = l.now.Add(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, time.Hour, 25 * time.Hour}).Draw(t, "time"))
}

func (l *ledger) ask(t *rapid.T) *turn.TaskRequest {
	if rapid.Bool().Draw(t, "plain") {
		return nil
	}
	return &turn.TaskRequest{Owner: domain.Owner{Tenant: "acme", Principal: "alice"}, Tool: "submit_job",
		Capabilities: turn.Capabilities{Form: rapid.Bool().Draw(t, "form")},
		TTLMs:        rapid.SampledFrom([]int64{0, 1000, 86_400_000}).Draw(t, "ttl"), PollMs: 5000}
}

func (l *ledger) submit(t *rapid.T) {
	err := l.do(job.Submit{Submitted: job.Submitted{Prompt: "do it", Agent: "scripted", Task: l.ask(t)}})
	if first := len(l.job.records) == 2; (err == nil) != first && err == nil {
		t.Fatal("a job was submitted twice")
	}
}

func (l *ledger) followUp(t *rapid.T) {
	s := &l.job.state
	turns, open, cancelled := len(s.Turns), s.Open(0), s.CancelRequested || s.Status() == job.Cancelled
	err := l.do(job.FollowUp{Prompt: texts.Draw(t, "prompt"), Task: l.ask(t)})
	switch {
	case !s.Exists() || cancelled:
		if err == nil {
			t.Fatal("a follow-up was taken by a job that is not, or is cancelled")
		}
	case len(open) == 0:
		if err != nil || len(s.Turns) != turns+1 {
			t.Fatalf("a follow-up opened no turn: %v", err)
		}
	case err == nil:
		if q := s.Question(open[0].N); q.Open() || q.Via != turn.ViaFollowUp || len(s.Turns) != turns {
			t.Fatalf("a follow-up did not answer the oldest question: %+v", q)
		}
	}
}

func (l *ledger) cancelJob(*rapid.T) { _ = l.do(job.Cancel{Reason: "enough"}) }

func (l *ledger) answer(t *rapid.T) {
	n := rapid.IntRange(-1, len(l.job.state.Questions)+1).Draw(t, "question")
	var before string
	if q := l.job.state.Question(n); q != nil && !q.Open() {
		before = dump(q)
	}
	_ = l.do(job.Answer{N: n, Answer: json.RawMessage(answers.Draw(t, "answer")), Via: vias.Draw(t, "via")})
	if before != "" && dump(l.job.state.Question(n)) != before {
		t.Fatalf("a second answer changed %s", before)
	}
}

// turnN draws a turn: most often one that is.
func (l *ledger) turnN(t *rapid.T) int {
	if c := l.job.state.Current(); c != nil && rapid.IntRange(0, 3).Draw(t, "current") > 0 {
		return c.N
	}
	return rapid.IntRange(-1, len(l.job.state.Turns)+1).Draw(t, "turn")
}

func (l *ledger) changeStep(t *rapid.T) {
	_ = l.do(job.ChangeStep{Turn: l.turnN(t),
		Name:   rapid.SampledFrom([]string{job.StepPrepare, job.StepClone, job.StepAgent}).Draw(t, "step"),
		Status: rapid.SampledFrom([]string{job.StepRunning, job.StepDone, job.StepFailed}).Draw(t, "status")})
}

// nextLine writes the next line of a turn's journal and records it.
func (l *ledger) nextLine(t *rapid.T) {
	n := l.turnN(t)
	lines := l.journals[n]
	line := turn.Line{N: len(lines) + 1, BootID: fmt.Sprintf("boot-%d", n), Kind: turn.LineStarted}
	if len(lines) > 0 {
		line.Kind = rapid.SampledFrom([]turn.Kind{turn.LineStep, turn.LineAsked, turn.LineAsked, turn.LineAnswered,
			turn.LineResult, turn.LineArtifact, turn.LinePR, turn.LineExited}).Draw(t, "kind")
	}
	switch line.Kind {
	case turn.LineStep:
		line.Text = fmt.Sprintf("step %d", line.N)
	case turn.LineAsked:
		line.Ask = 1
		for _, earlier := range lines {
			line.Ask = max(line.Ask, earlier.Ask+1)
		}
		line.Text = questionText(n, line.Ask)
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			line.Options = []string{"yes", "no"}
		case 1:
			line.Schema = json.RawMessage(`{"type":"object"}`)
		}
	default:
	}
	if s := l.job.state.Turn(n); s != nil && s.End == nil {
		l.journals[n] = append(lines, line) // an agent writes while its turn lasts
	}
	_ = l.do(job.Record{Turn: n, Agent: "scripted", Line: line})
}

func questionText(turn, ask int) string { return fmt.Sprintf("turn %d asks %d?", turn, ask) }

// readAgain records a line that was recorded before.
func (l *ledger) readAgain(t *rapid.T) {
	n := l.turnN(t)
	lines := l.journals[n]
	if len(lines) == 0 {
		t.Skip("nothing was written")
	}
	questions := len(l.job.state.Questions)
	_ = l.do(job.Record{Turn: n, Agent: "scripted", Line: rapid.SampledFrom(lines).Draw(t, "line")})
	if len(l.job.state.Questions) != questions {
		t.Fatal("a line that was read again asked again")
	}
}

func (l *ledger) close(t *rapid.T) {
	ended := turn.Ended{Turn: l.turnN(t), Status: rapid.SampledFrom([]turn.Status{
		turn.StatusCompleted, turn.StatusFailed, turn.StatusCancelled}).Draw(t, "status")}
	if ended.Status == turn.StatusFailed {
		ended.Code = rapid.SampledFrom([]string{turn.AgentExited, turn.AgentLost, turn.ProtocolError}).Draw(t, "code")
	}
	var pr *job.PR
	if rapid.Bool().Draw(t, "pr") {
		pr = &job.PR{Branch: "b", State: "none"}
	}
	_ = l.do(job.Close{Ended: ended, PR: pr})
}

// register makes the stream of a task, as the call that asked for it and the
// task's keeper both do.
func (l *ledger) register(t *rapid.T) {
	asked := l.job.state.Tasks
	if len(asked) == 0 {
		t.Skip("no task was asked for")
	}
	n := rapid.IntRange(1, len(asked)).Draw(t, "task")
	a := l.job.state.Task(n)
	handle := task.Handle([]byte("key"), task.Key{Target: task.Hangar, ID: task.SubjectTask(string(l.job.name), n), Generation: 1})
	created := task.Create{Created: task.Created{Handle: handle, Target: task.Hangar,
		TargetTaskID: task.SubjectTask(string(l.job.name), n), Generation: 1, Owner: a.Owner, Tool: a.Tool,
		Capabilities: a.Capabilities, TTLMs: a.TTLMs, PollIntervalMs: a.PollMs}}
	for _, r := range l.tasks {
		if r.name == domain.Stream(handle) {
			l.on(r, created)
			return
		}
	}
	r := &registered{stream: newTask(domain.Stream(handle)), asked: a}
	l.tasks = append(l.tasks, r)
	l.on(r, created)
	if subject, m := r.state.Subject(); subject != string(l.job.name) || m != n {
		t.Fatalf("task %d leads to %s/%d", n, subject, m)
	}
}

// some draws a task.
func (l *ledger) some(t *rapid.T) *registered {
	if len(l.tasks) == 0 {
		t.Skip("there is no task")
	}
	return rapid.SampledFrom(l.tasks).Draw(t, "task")
}

func (l *ledger) key(t *rapid.T) string {
	q := turn.Question{N: rapid.IntRange(0, len(l.job.state.Questions)+1).Draw(t, "key")}
	return q.Key()
}

func (l *ledger) consent(t *rapid.T) {
	l.on(l.some(t), task.Consent{Key: l.key(t), Answer: json.RawMessage(answers.Draw(t, "answer")), Via: turn.ViaTask})
}

func (l *ledger) refuse(t *rapid.T) {
	r := l.some(t)
	l.on(r, task.Refuse{Key: l.key(t), Action: actions.Draw(t, "action"), Via: turn.ViaTask, Subject: l.look(r.asked.Turn)})
}

func (l *ledger) cancelTask(t *rapid.T) { l.on(l.some(t), task.Cancel{Reason: "enough"}) }

func (l *ledger) observe(t *rapid.T) {
	r := l.some(t)
	l.on(r, task.Observe{Subject: l.look(r.asked.Turn), At: l.now})
}

// observeLate is a keeper that looked at the subject some time ago.
func (l *ledger) observeLate(t *rapid.T) {
	r := l.some(t)
	var own []turn.Subject
	for _, k := range l.seen {
		if k.value.Turn == r.asked.Turn {
			own = append(own, k.value)
		}
	}
	if len(own) == 0 {
		t.Skip("nobody looked")
	}
	l.on(r, task.Observe{Subject: rapid.SampledFrom(own).Draw(t, "subject"), At: l.now})
}

func (l *ledger) expire(t *rapid.T) {
	at := l.now.Add(rapid.SampledFrom([]time.Duration{0, 0, -48 * time.Hour, 48 * time.Hour}).Draw(t, "off"))
	l.on(l.some(t), task.Expire{At: at})
}
