package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hangar/domain/access"
	"hangar/domain/audit"
	"hangar/domain/event"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
)

// inWords says what an event means, to follow who did it.
func inWords(d event.Data) string {
	for _, say := range []func(event.Data) string{sayLog, sayAccess, sayJob, sayTurn, sayTask} {
		if text := say(d); text != "" {
			return text
		}
	}
	return "(" + string(d.EventType()) + ")"
}

func sayLog(d event.Data) string {
	switch d := d.(type) {
	case audit.StoreOpened:
		return "opened a new log, under the server secret " + clean(d.KeyID)
	case audit.SecretRotated:
		if d.Lost {
			return "took the server secret " + clean(d.KeyID) + "; the one before was lost"
		}
		return "took the server secret " + clean(d.KeyID)
	case audit.ProjectionRebuilt:
		return "built the view " + clean(d.View) + " again: " + clean(d.Reason)
	case audit.ReactionFailed:
		return "keeps failing at " + quoted(d.Step) + ": " + quoted(d.Reason)
	}
	return ""
}

func sayAccess(d event.Data) string {
	switch d := d.(type) {
	case access.PrincipalReserved:
		return fmt.Sprintf("gave out the name %s/%s, for ever", clean(string(d.Tenant)), clean(string(d.Principal)))
	case access.TokenIssued:
		scopes := make([]string, len(d.Scopes))
		for i, s := range d.Scopes {
			scopes[i] = clean(string(s))
		}
		text := fmt.Sprintf("issued a token for %s/%s: %s", clean(string(d.Tenant)), clean(string(d.Principal)), strings.Join(scopes, ", "))
		if d.ExpiresAt != "" {
			text += ", until " + clean(d.ExpiresAt)
		}
		return text
	case access.TokenRevoked:
		return "revoked the token" + because(d.Reason)
	case access.AccessDenied:
		return "asked for a task that is not theirs or never was, by " + clean(d.Method)
	}
	return ""
}

func sayJob(d event.Data) string {
	switch d := d.(type) {
	case job.Submitted:
		text := fmt.Sprintf("asked the agent %s for a job: %s", clean(d.Agent), quoted(d.Prompt))
		if d.Repo != "" {
			text += " in " + clean(d.Repo)
		}
		return text
	case job.FollowUpRequested:
		return fmt.Sprintf("said more, for turn %d: %s", d.Turn, quoted(d.Prompt))
	case job.StepChanged:
		return fmt.Sprintf("%s: %s (turn %d)", clean(d.Name), clean(d.Status), d.Turn)
	case job.CancelRequested:
		return "asked the job to end" + because(d.Reason)
	case job.Finished:
		text := "the job is " + clean(string(d.Status))
		if d.Code != "" {
			text += " (" + clean(d.Code) + ")"
		}
		if d.PR != nil && d.PR.Branch != "" {
			text += fmt.Sprintf(", %s on the branch %s", count(len(d.PR.Commits), "commit"), clean(d.PR.Branch))
		}
		return text + because(d.Message)
	}
	return ""
}

func sayTurn(d event.Data) string {
	switch d := d.(type) {
	case turn.Queued:
		return fmt.Sprintf("turn %d waits for its agent", d.Turn)
	case turn.Started:
		return fmt.Sprintf("turn %d: the agent %s runs", d.Turn, clean(d.Agent))
	case turn.Progressed:
		return fmt.Sprintf("turn %d: %s", d.Turn, quoted(d.Text))
	case turn.Asked:
		text := fmt.Sprintf("turn %d asks answer-%d: %s", d.Turn, d.N, quoted(d.Text))
		if len(d.Options) > 0 {
			text += " " + quoted(strings.Join(d.Options, " | "))
		}
		return text
	case turn.Answered:
		return fmt.Sprintf("answered answer-%d by %s: %s", d.N, clean(d.Via), quoted(plainJSON(d.Answer)))
	case turn.Withdrawn:
		return fmt.Sprintf("nobody waits for answer-%d any more%s", d.N, because(d.Reason))
	case turn.Ended:
		return sayEnded(d)
	}
	return ""
}

func sayEnded(d turn.Ended) string {
	text := fmt.Sprintf("turn %d is %s", d.Turn, clean(string(d.Status)))
	if d.Code != "" {
		text += " (" + clean(d.Code) + ")"
	}
	if d.ExitCode != nil {
		text += fmt.Sprintf(", exit code %d", *d.ExitCode)
	}
	if d.Output != nil {
		text += ", " + count(int(d.Output.Bytes), "byte") + " of output"
	}
	if len(d.Artifacts) > 0 {
		text += ", " + count(len(d.Artifacts), "artifact")
	}
	if d.Summary != "" {
		text += ": " + quoted(d.Summary)
	}
	return text
}

func sayTask(d event.Data) string {
	switch d := d.(type) {
	case task.Created:
		text := "made a task for this call of " + clean(d.Tool)
		if d.TTLMs > 0 {
			text += fmt.Sprintf(", served for %s", time.Duration(d.TTLMs)*time.Millisecond)
		}
		return text
	case task.ConsentDecided:
		if d.Granted {
			return fmt.Sprintf("agreed to %s%s", clean(d.Key), by(d.Via))
		}
		text := "refused " + clean(d.Key)
		if d.Action != "" {
			text += " (" + clean(d.Action) + ")"
		}
		return text + by(d.Via) + because(d.Reason)
	case task.CancelRequested:
		return "asked the task to end" + because(d.Reason)
	case task.Completed:
		text := "the task is completed"
		if d.IsError {
			text += ", with an error"
		}
		return fmt.Sprintf("%s: its result is %s at revision %d", text, clean(d.Subject), d.AtRevision)
	case task.Failed:
		return fmt.Sprintf("the task is failed (%d, %s): %s", d.Code, clean(d.Reason), quoted(d.Message))
	case task.Cancelled:
		return "the task is cancelled"
	case task.Expired:
		return "the task's handle is served no more"
	}
	return ""
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + quoted(reason)
}

func by(via string) string {
	if via == "" {
		return ""
	}
	return " by " + clean(via)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// plainJSON gives a JSON string without its quotation marks, and anything else as
// it is.
func plainJSON(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
