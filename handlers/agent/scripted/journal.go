package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"hangar/domain"
	"hangar/domain/turn"
)

// journal is a turn's numbered lines, in memory.
type journal struct {
	boot  string
	clock domain.Clock

	mu    sync.Mutex
	lines []turn.Line
	asks  []*ask        // the n-th question at n-1
	more  chan struct{} // closed, and made anew, when a line or the end comes
	over  bool          // no line comes any more

	pending  string      // the latest step not yet written; empty for none
	timer    *time.Timer // writes it
	steps    int         // written
	lastStep time.Time
}

// ask is one question and, once done is closed, its answer.
type ask struct {
	answer string
	done   chan struct{}
}

func newJournal(boot string, clock domain.Clock) *journal {
	return &journal{boot: boot, clock: clock, more: make(chan struct{})}
}

// add writes a line, after the step that is pending.
func (j *journal) add(line turn.Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	j.flush()
	j.write(line)
}

// exit writes the last line.
func (j *journal) exit(e turn.Exit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flush()
	j.over = true
	j.write(turn.Line{Kind: turn.LineExited, Exit: &e})
}

// lose ends the journal without a last line.
func (j *journal) lose() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending = ""
	j.flush()
	j.over = true
	j.wake()
}

func (j *journal) ended() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over
}

// step reports progress: at once if the last report is old enough, else when it
// is, unless a later step has taken its place by then.
func (j *journal) step(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	j.pending = text
	interval := turn.StepInterval
	if j.steps >= turn.MaxSteps {
		interval = turn.SlowStepInterval
	}
	wait := time.Until(j.lastStep.Add(interval))
	switch {
	case j.steps == 0 || wait <= 0:
		j.flush()
	case j.timer == nil:
		j.timer = time.AfterFunc(wait, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.flush()
		})
	}
}

// flush writes the pending step, if there is one.
func (j *journal) flush() {
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	if j.pending == "" {
		return
	}
	text := j.pending
	j.pending = ""
	j.steps++
	j.lastStep = time.Now()
	j.write(turn.Line{Kind: turn.LineStep, Text: text})
}

func (j *journal) write(line turn.Line) {
	line.N, line.BootID, line.Time = len(j.lines)+1, j.boot, domain.FormatTime(j.clock.Now())
	j.lines = append(j.lines, line)
	j.wake()
}

func (j *journal) wake() {
	close(j.more)
	j.more = make(chan struct{})
}

// next waits for the first line numbered above after.
func (j *journal) next(ctx context.Context, after int) (turn.Line, error) {
	for {
		j.mu.Lock()
		lines, more, over := j.lines, j.more, j.over
		j.mu.Unlock()
		if after = max(after, 0); after < len(lines) {
			return lines[after], nil
		}
		if over {
			return turn.Line{}, turn.ErrLost
		}
		select {
		case <-more:
		case <-ctx.Done():
			return turn.Line{}, ctx.Err()
		}
	}
}

// ask writes a question down. It is nil where the turn has asked too many.
func (j *journal) ask(text string, options []string, schema json.RawMessage) *ask {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over || len(j.asks) == turn.MaxQuestions {
		return nil
	}
	j.flush()
	a := &ask{done: make(chan struct{})}
	j.asks = append(j.asks, a)
	j.write(turn.Line{
		Kind: turn.LineAsked, Ask: len(j.asks),
		Text: clip(text, turn.MaxTextBytes), Options: options, Schema: schema,
	})
	return a
}

// answer delivers the answer to the n-th question, the first time.
func (j *journal) answer(n int, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over || n < 1 || n > len(j.asks) {
		return
	}
	a := j.asks[n-1]
	select {
	case <-a.done:
		return
	default:
	}
	j.flush()
	j.write(turn.Line{Kind: turn.LineAnswered, Ask: n})
	a.answer = text
	close(a.done)
}

// plain is an answer as the agent reads it: a string's text, or that of the
// default form's one field, else the JSON.
func plain(answer json.RawMessage) string {
	var text string
	if json.Unmarshal(answer, &text) == nil {
		return text
	}
	var form map[string]json.RawMessage
	if json.Unmarshal(answer, &form) == nil && len(form) == 1 && json.Unmarshal(form["answer"], &text) == nil {
		return text
	}
	var b bytes.Buffer
	if err := json.Compact(&b, answer); err != nil {
		return string(answer)
	}
	return b.String()
}

// clip cuts s to limit bytes, at the edge of a character.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.ToValidUTF8(s[:limit], "\uFFFD")
}
