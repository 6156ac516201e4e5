package commands_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

func TestArgumentsThatHoldASecretAreRefusedByName(t *testing.T) {
	token := access.NewToken([32]byte{3})
	for what, text := range map[string]string{"a token": "use " + token, "a configured one": configured, "the server's": secret(1).Hex(), "an escaped one": `{"k":"\u0063` + configured[1:] + `"}`} {
		for field, set := range map[string]func(*commands.SubmitJob){
			"prompt":        func(s *commands.SubmitJob) { s.Prompt = text },
			"title":         func(s *commands.SubmitJob) { s.Title = text },
			"repo":          func(s *commands.SubmitJob) { s.Repo = text },
			"base_branch":   func(s *commands.SubmitJob) { s.BaseBranch = text },
			"branch":        func(s *commands.SubmitJob) { s.Branch = text },
			"output_schema": func(s *commands.SubmitJob) { s.OutputSchema, _ = json.Marshal(text) },
			"artifacts":     func(s *commands.SubmitJob) { s.Artifacts = []string{"*.txt", text} },
			"labels":        func(s *commands.SubmitJob) { s.Labels = map[string]string{"a": "b", "k": text} },
			"env":           func(s *commands.SubmitJob) { s.Env = map[string]string{text: "v"} },
		} {
			if strings.HasPrefix(text, "{") && (field == "artifacts" || field == "labels" || field == "env") {
				continue // no JSON by themselves, so nobody reads an escape in them
			}
			b := newBench(t)
			s := b.submission("h")
			set(&s)
			_, err := b.SubmitJob(t.Context(), origin("x"), s)
			is(t, what+" in "+field, err, domain.Invalid, field+": ", "pass secrets by env")
			if err != nil && strings.Contains(err.Error(), text) {
				t.Errorf("the refusal repeats it: %v", err)
			}
			if got := b.all(); got != "[]" {
				t.Errorf("%s in %s: the log has %s", what, field, got)
			}
		}
		b := newBench(t)
		s := b.asking()
		before := b.all()
		_, err := b.FollowUpJob(t.Context(), origin("x"), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: text}}, nil)
		is(t, what+" in a follow-up", err, domain.Invalid, "prompt: ")
		quoted, _ := json.Marshal(text)
		_, err = b.FollowUpJob(t.Context(), origin("y"), commands.FollowUpJob{Job: s.ID, FollowUp: job.FollowUp{Prompt: "x", OutputSchema: quoted}}, nil)
		is(t, what+" in a follow-up's schema", err, domain.Invalid, "output_schema: ")
		_, err = b.AnswerQuestion(t.Context(), origin("z"), s.ID, job.Answer{N: 1, Answer: quoted, Via: turn.ViaTask})
		is(t, what+" in an answer", err, domain.Invalid, "answer-1: ")
		if b.all() != before {
			t.Errorf("%s was written down", what)
		}
	}
}

// canary is in a job's environment, and the agent repeats it everywhere.
const canary = `c4n4ry "quoted" <v>`

// sealedJob is a job whose agent knows the canary.
func sealedJob(b *bench) *job.State {
	s := b.submission("h")
	s.Env = map[string]string{"API": canary, "EMPTY": ""}
	r, err := b.SubmitJob(context.Background(), origin("sealed"), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Job
}

// babble has the agent say a text by every way it has, and closes the turn.
func babble(b *bench, c *commands.Commands, s *job.State, text string) *job.State {
	b.t.Helper()
	quoted, _ := json.Marshal(map[string]any{text: []string{"say " + text}})
	options := []string{"a", text}
	line := turn.Line{N: 2, BootID: "b", Kind: turn.LineAsked, Ask: 1, Text: "use " + text + "?", Options: options, Schema: quoted}
	for _, l := range []turn.Line{{N: 1, BootID: "b", Kind: turn.LineStep, Text: "read " + text}, line} {
		if _, err := c.RecordLine(context.Background(), s, job.Record{Turn: 1, Agent: "a", Line: l}); err != nil {
			b.t.Fatal(err)
		}
	}
	if options[1] != text || string(line.Schema) != string(quoted) {
		b.t.Error("the caller's own line was changed")
	}
	commits := []job.Commit{{Hash: "c", Subject: "add " + text}}
	after, err := c.CloseTurn(context.Background(), s, job.Close{
		Ended:   turn.Ended{Turn: 1, Status: turn.StatusFailed, Code: turn.AgentExited, Message: "out " + text, Summary: "sum " + text, Result: quoted},
		Message: "why " + text,
		PR:      &job.PR{State: "none", Branch: "b", Title: "title " + text, Body: "body " + text, Commits: commits},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if commits[0].Subject != "add "+text {
		b.t.Error("the caller's own commits were changed")
	}
	return after
}

func TestTheEnvironmentIsNowhereInTheLog(t *testing.T) {
	b := newBench(t)
	s := sealedJob(b)
	after := babble(b, b.Commands, s, canary)
	if _, err := b.CancelJob(t.Context(), origin("c"), s.ID, "since password=hunter22", nil); err != nil {
		t.Fatal(err)
	}
	if log := b.all(); strings.Contains(log, "c4n4ry") {
		t.Errorf("the canary is in the log:\n%s", log)
	}
	if env, err := b.OpenEnv(after); err != nil || env["API"] != canary || len(env) != 2 {
		t.Errorf("the environment opens as %q, %v", env, err)
	}
	if end := after.Turn(1).End; !strings.Contains(end.Message, "out [redacted API, ") || !strings.Contains(string(end.Result), "say [redacted API, ") {
		t.Errorf("the end says %s, %s", end.Message, end.Result)
	}
	// Sealed for one job and name: moved to another, it does not open.
	moved := *after
	moved.Submitted.Env = map[string]string{"OTHER": after.Submitted.Env["API"]}
	if env, err := b.OpenEnv(&moved); err == nil {
		t.Errorf("under another name it opens as %q", env)
	}
}

// A job whose environment was sealed under a secret that is gone cannot be kept
// from giving it away but by silence; its turns end all the same.
func TestAJobOfALostSecretEndsInSilence(t *testing.T) {
	b := newBench(t)
	s := sealedJob(b)
	after := babble(b, b.under(secret(2)), s, canary)
	if log := b.all(); strings.Contains(log, "c4n4ry") {
		t.Errorf("the canary is in the log:\n%s", log)
	}
	end := after.Turn(1).End
	if after.Status() != job.Failed || end.Code != turn.AgentExited || !strings.Contains(end.Message, "withheld") || end.Result != nil {
		t.Errorf("it ended %s: %+v", after.Status(), end)
	}
}

func TestASecretRotatedStillOpens(t *testing.T) {
	b := newBench(t)
	s := sealedJob(b)
	rotated := b.under(secret(2), secret(1))
	if env, err := rotated.OpenEnv(s); err != nil || env["API"] != canary {
		t.Errorf("the environment opens as %q, %v", env, err)
	}
	if after := babble(b, rotated, s, canary); !strings.Contains(after.Turn(1).End.Message, "[redacted API, ") {
		t.Errorf("it says %s", after.Turn(1).End.Message)
	}
}

func TestReasonsAreRedacted(t *testing.T) {
	b := newBench(t)
	s := b.asking()
	registered, err := b.CreateTask(t.Context(), s, s.Task(1))
	if err != nil {
		t.Fatal(err)
	}
	id := registered.Created.Handle
	const why = "because password=hunter22 and " + configured
	if err := b.CancelTask(t.Context(), origin("a"), id, why); err != nil {
		t.Error(err)
	}
	if err := b.RefuseTask(t.Context(), origin("b"), id, task.Refuse{Key: "answer-1", Action: task.Decline, Reason: why, Subject: s.Subject(1)}); err != nil {
		t.Error(err)
	}
	if _, err := b.CancelJob(t.Context(), origin("c"), s.ID, why, nil); err != nil {
		t.Error(err)
	}
	log := b.all()
	if strings.Contains(log, "hunter22") || strings.Contains(log, configured) || strings.Count(log, "because password=[redacted") != 3 {
		t.Errorf("the log has %s", log)
	}
}
