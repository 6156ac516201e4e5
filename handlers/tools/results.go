package tools

import (
	"container/list"
	"encoding/json"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

// results keeps what was rendered of completed tasks, which never changes: the
// most recently asked for, up to a number of bytes.
type results struct {
	mu     sync.Mutex
	most   int
	bytes  int
	byTask map[domain.TaskID]*list.Element
	order  list.List // of rendered, most recently used first
}

type rendered struct {
	id   domain.TaskID
	text json.RawMessage
}

func newResults(most int) *results {
	return &results{most: most, byTask: map[domain.TaskID]*list.Element{}}
}

func (r *results) get(id domain.TaskID) (json.RawMessage, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.byTask[id]
	if !ok {
		return nil, false
	}
	r.order.MoveToFront(at)
	return at.Value.(rendered).text, true //nolint:forcetypeassert // the list holds nothing else
}

func (r *results) put(id domain.TaskID, text json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.byTask[id]; there || len(text) > r.most {
		return
	}
	r.byTask[id] = r.order.PushFront(rendered{id, text})
	for r.bytes += len(text); r.bytes > r.most; {
		oldest := r.order.Back()
		v := r.order.Remove(oldest).(rendered) //nolint:forcetypeassert // as above
		delete(r.byTask, v.id)
		r.bytes -= len(v.text)
	}
}

// renderJob gives the job with the task's turn in it.
func renderJob(s *job.State, n int, t *task.State) (*mcp.Result, error) {
	v := JobOut(s)
	if v.Turn = TurnOut(s, n); v.Turn != nil && t.Denied {
		v.Turn.Note = endNote(t)
	}
	return answer(v, t.Completed.IsError)
}

// endNote tells why a task ended before its turn.
func endNote(t *task.State) string {
	for _, c := range t.Consents {
		switch {
		case c.Granted:
		case c.Reason == task.ReasonNoElicitation:
			return "the agent asks, and the request that created the task declared no elicitation; answer with " + followUpJob
		default:
			return "the question was declined, and the agent still waits; answer with " + followUpJob + ", or end the job with " + cancelJob
		}
	}
	return ""
}

// renderText gives what the agent said at the end of the turn, or the question it
// was left with.
func renderText(s *job.State, n int, t *task.State) (*mcp.Result, error) {
	text := "no answer to: "
	if end := s.Turn(n); end != nil && end.End != nil {
		text = said(end.End)
	} else {
		for _, q := range s.Open(n) {
			text += q.Text
			break
		}
	}
	return &mcp.Result{IsError: t.Completed.IsError, Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
}

// said is an agent's last word, never empty.
func said(end *turn.Ended) string {
	for _, text := range []string{end.Message, end.Summary} {
		if text = trimLines(text); text != "" {
			return text
		}
	}
	return string(end.Status)
}
