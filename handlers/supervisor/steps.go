package supervisor

import (
	"sync"
	"time"

	"hangar/domain/turn"
)

// steps thins out an agent's lines of progress: one in turn.StepInterval, the
// latest wins, and fewer after turn.MaxSteps of them. However often it is called,
// it writes no more than that and holds one text.
type steps struct {
	write func(text string) error

	mu      sync.Mutex
	count   int
	next    time.Time // before it, a step waits
	waiting bool
	text    string // the latest, written or not
	timer   *time.Timer
	closed  bool
}

// add takes a step. It writes it now, or holds it until it is due.
func (s *steps) add(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.text = text
	if s.waiting {
		return nil
	}
	if wait := time.Until(s.next); wait > 0 {
		s.waiting = true
		s.timer = time.AfterFunc(wait, s.due)
		return nil
	}
	return s.put()
}

// due writes the step that waits.
func (s *steps) due() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting && !s.closed {
		s.waiting = false
		_ = s.put() // the helper was told long ago; a later step will say more
	}
}

func (s *steps) put() error {
	if err := s.write(s.text); err != nil {
		return err
	}
	s.count++
	every := turn.StepInterval
	if s.count >= turn.MaxSteps {
		every = turn.SlowStepInterval
	}
	s.next = time.Now().Add(every)
	return nil
}

// close writes the step that waits, takes no more, and gives the last one.
func (s *steps) close() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.waiting && !s.closed {
		s.waiting = false
		_ = s.put() // the summary has it in any case
	}
	s.closed = true
	return s.text
}
