package supervisor

import (
	"encoding/json"
	"sync"

	"hangar/domain"
	"hangar/domain/turn"
)

// questions are those of one turn. A question is open while its helper waits; an
// answer goes to one that is open, once.
type questions struct {
	append func(turn.Line) error

	mu        sync.Mutex
	asked     int
	open      map[int]chan json.RawMessage
	ended     bool
	withdrawn chan struct{} // closed when nobody will answer any more
}

func newQuestions(write func(turn.Line) error) *questions {
	return &questions{append: write, open: map[int]chan json.RawMessage{}, withdrawn: make(chan struct{})}
}

// ask writes a question down and gives the channel its answer comes by.
func (q *questions) ask(text string, options []string) (int, <-chan json.RawMessage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked >= turn.MaxQuestions {
		return 0, nil, domain.Errorf(domain.TooLarge, "a turn may ask %d questions, and this one has", turn.MaxQuestions)
	}
	ch := make(chan json.RawMessage, 1)
	if q.ended {
		return 0, ch, nil
	}
	n := q.asked + 1
	q.open[n] = ch // before the line is out: the answer may come at once
	if err := q.append(turn.Line{Kind: turn.LineAsked, Ask: n, Text: text, Options: options}); err != nil {
		delete(q.open, n)
		return 0, nil, err
	}
	q.asked = n
	return n, ch, nil
}

// forget says that nobody waits for this answer any more.
func (q *questions) forget(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, n)
}

// answer delivers an answer and writes down that it did. A question that is not
// open is left alone.
func (q *questions) answer(n int, answer json.RawMessage) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	ch, ok := q.open[n]
	if !ok || q.ended {
		return nil
	}
	if err := q.append(turn.Line{Kind: turn.LineAnswered, Ask: n}); err != nil {
		return err
	}
	delete(q.open, n)
	ch <- answer
	return nil
}

// withdraw tells all who wait that no answer will come.
func (q *questions) withdraw() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended = true
		close(q.withdrawn)
	}
}
