package modern

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// The times of an answer.
const (
	// patience is how long an answer stays plain JSON while it is awaited.
	patience = 10 * time.Second
	// keepAlive is how often a stream that is silent says that it lives.
	keepAlive = 15 * time.Second
	// writeTime is how long the client may take to accept one write.
	writeTime = 10 * time.Second
	// maxPending is how many notifications wait for a slow client; of more, the
	// oldest are dropped.
	maxPending = 256
)

// stream is the answer to one POST. It is one JSON body, unless there is
// something to send before the answer, or the answer takes long: then it becomes
// an event stream, if the client takes one. Whoever notifies never waits for the
// client: a goroutine of the stream's own writes, and ends before finish returns.
type stream struct {
	w      http.ResponseWriter
	cancel context.CancelFunc // ends the request when the client stops reading
	timer  *time.Timer        // nil where the client takes no events

	mu      sync.Mutex
	pending [][]byte
	final   []byte        // the answer, when it is there
	closed  bool          // nothing more comes
	ended   chan struct{} // closed by the pump; nil where none runs
	wake    chan struct{}
}

func newStream(w http.ResponseWriter, events bool, cancel context.CancelFunc) *stream {
	s := &stream{w: w, cancel: cancel}
	if events {
		s.timer = time.AfterFunc(patience, s.open)
	}
	return s
}

// open turns the answer into an event stream.
func (s *stream) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openLocked()
}

func (s *stream) openLocked() {
	if s.closed || s.ended != nil {
		return
	}
	s.ended = make(chan struct{})
	s.wake = make(chan struct{}, 1)
	go s.pump()
}

// notify sends a message before the answer, or drops it where the client takes none.
func (s *stream) notify(message []byte) {
	if s.timer == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.openLocked()
	if len(s.pending) == maxPending {
		s.pending = append(s.pending[:0], s.pending[1:]...)
	}
	s.pending = append(s.pending, message)
	s.poke()
}

// poke wakes the pump; s.mu is held.
func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// finish sends the answer and ends the stream.
func (s *stream) finish(a answer) {
	if s.close(a.body) {
		return
	}
	write(s.w, a)
}

// abandon ends the stream without an answer.
func (s *stream) abandon() { s.close(nil) }

// close hands the last message to the pump and waits for it; it is false where
// none runs, and the answer is still to be written.
func (s *stream) close(final []byte) (streamed bool) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Lock()
	s.closed = true
	if s.ended == nil {
		s.mu.Unlock()
		return false
	}
	s.final = final
	s.poke()
	s.mu.Unlock()
	<-s.ended
	return true
}

// take gives what there is to write, and whether it is the last.
func (s *stream) take() (messages [][]byte, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages, s.pending = s.pending, nil
	if s.closed && s.final != nil {
		messages = append(messages, s.final)
	}
	return messages, s.closed
}

// pump writes the event stream.
func (s *stream) pump() {
	defer close(s.ended)
	rc := http.NewResponseController(s.w)
	h := s.w.Header()
	h["Content-Type"] = contentEvents
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	s.w.WriteHeader(http.StatusOK)

	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	chunk := []byte(": open\n\n")
	for {
		messages, last := s.take()
		for _, m := range messages {
			chunk = appendEvent(chunk, m)
		}
		if len(chunk) > 0 && !s.send(rc, chunk) {
			s.cancel()
			return
		}
		chunk = chunk[:0]
		if last {
			return
		}
		select {
		case <-s.wake:
		case <-tick.C:
			chunk = append(chunk, ": keep-alive\n\n"...)
		}
	}
}

// send writes and flushes within the time a write has.
func (s *stream) send(rc *http.ResponseController, chunk []byte) bool {
	_ = rc.SetWriteDeadline(time.Now().Add(writeTime)) // unsupported by recorders alone
	if _, err := s.w.Write(chunk); err != nil {
		return false
	}
	return rc.Flush() == nil
}

// appendEvent appends one message as a server-sent event. JSON that came with
// line breaks between its tokens is put on one line.
func appendEvent(dst, message []byte) []byte {
	if bytes.ContainsAny(message, "\r\n") {
		var b bytes.Buffer
		if json.Compact(&b, message) == nil {
			message = b.Bytes()
		}
	}
	dst = append(dst, "event: message\ndata: "...)
	dst = append(dst, message...)
	return append(dst, "\n\n"...)
}
