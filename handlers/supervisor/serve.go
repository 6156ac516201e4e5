//go:build linux || darwin

package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"hangar/domain"
	"hangar/domain/turn"
)

// counts bound what an agent may write into its journal.
type counts struct {
	mu                      sync.Mutex
	results, artifacts, prs int
	helpers                 atomic.Int64 // calls served now
}

// take counts one more, or says that there were enough.
func (c *counts) take(n *int, max int, what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *n >= max {
		return domain.Errorf(domain.TooLarge, "a turn may give %d %s, and this one has", max, what)
	}
	*n++
	return nil
}

// serve holds one conversation.
func (s *supervisor) serve(w *wire) {
	r, err := s.greet(w)
	if err != nil {
		_ = w.send(welcome{Error: faultOf(err)}) // it may have gone
		return
	}
	var ask request
	if err := w.receive(&ask); err != nil {
		return
	}
	s.door.forget(w.Conn)              // no newcomer any more
	_ = w.SetReadDeadline(time.Time{}) // what may take long ends when the other side goes
	got, err := s.answer(w, r, ask)
	if err != nil {
		got = reply{Error: faultOf(err)}
	}
	_ = w.send(got) // one who is gone needs none
	if err == nil && ask.Do == doRelease {
		s.letGo.Do(func() { close(s.release) })
	}
}

// greet takes the hello and gives what the one who said it may do.
func (s *supervisor) greet(w *wire) (right, error) {
	if err := w.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return noRight, err
	}
	var h hello
	if err := w.receive(&h); err != nil {
		return noRight, err
	}
	r := s.tokens.of(h.Token)
	if r == noRight {
		return noRight, domain.Errorf(domain.Unauthorized, "this token is not one of the turn's")
	}
	version := pickVersion(h.Versions)
	if version == 0 {
		return noRight, domain.Errorf(domain.Unsupported, "the agent's supervisor speaks versions %v, and was greeted with %v", ourVersions(), h.Versions)
	}
	return r, w.send(welcome{Version: version, BootID: s.bootID})
}

func (s *supervisor) answer(w *wire, r right, ask request) (reply, error) {
	if !r.reaches(ask.Do) {
		return reply{}, domain.Errorf(domain.Forbidden, "this token does not reach %q", ask.Do)
	}
	if r == helperRight {
		defer s.counts.helpers.Add(-1)
		if s.counts.helpers.Add(1) > maxHelpers {
			return reply{}, domain.Errorf(domain.Unavailable, "%d calls of the helper are being served; try again", maxHelpers)
		}
		return s.help(w, ask)
	}
	s.seen.Store(time.Now().UnixNano())
	defer func() { s.seen.Store(time.Now().UnixNano()) }()
	switch ask.Do {
	case doNext:
		return s.next(w, ask.After)
	case doAnswer:
		return reply{}, s.asks.answer(ask.Ask, ask.Answer)
	case doStop:
		s.stopOnce.Do(func() { close(s.stop) })
		return reply{}, nil
	case doRelease:
		select {
		case <-s.ended:
			return reply{}, nil
		default:
			return reply{}, domain.Errorf(domain.Conflict, "the agent still runs")
		}
	default:
		return reply{}, domain.Errorf(domain.Unsupported, "there is no %q here", ask.Do)
	}
}

// next waits for a line of the journal.
func (s *supervisor) next(w *wire, after int) (reply, error) {
	gone := w.gone()
	for {
		line, more, err := s.journal.next(after)
		switch {
		case err != nil:
			return reply{}, domain.Wrap(domain.Internal, err, "the journal cannot be read")
		case line != nil:
			return reply{Line: line}, nil
		case more == nil:
			return reply{Gone: true}, nil
		}
		select {
		case <-more:
		case <-gone:
			return reply{}, nil
		}
	}
}

// help does what the agent asked by its helper.
func (s *supervisor) help(w *wire, ask request) (reply, error) {
	switch ask.Do {
	case doAsk:
		return s.question(w, ask)
	case doStep:
		text := strings.TrimSpace(safe([]byte(ask.Text)))
		if text == "" {
			return reply{}, domain.Errorf(domain.Invalid, "the step is empty")
		}
		return reply{}, s.steps.add(head(text, turn.MaxTextBytes))
	case doResult:
		raw, err := s.schema.check(ask.Result)
		if err == nil {
			err = s.counts.take(&s.counts.results, maxResults, "results")
		}
		if err != nil {
			return reply{}, err
		}
		return reply{}, s.journal.append(turn.Line{Kind: turn.LineResult, Result: raw})
	case doArtifact:
		return reply{}, s.artifact(ask)
	case doPR:
		return reply{}, s.pullRequest(ask)
	default:
		return reply{}, domain.Errorf(domain.Unsupported, "there is no %q here", ask.Do)
	}
}

// question asks, and waits as long as the helper does.
func (s *supervisor) question(w *wire, ask request) (reply, error) {
	text := strings.TrimSpace(safe([]byte(ask.Text)))
	switch {
	case text == "":
		return reply{}, domain.Errorf(domain.Invalid, "the question is empty")
	case len(text) > turn.MaxTextBytes:
		return reply{}, domain.Errorf(domain.TooLarge, "the question has %d bytes; the most is %d", len(text), turn.MaxTextBytes)
	case len(ask.Options) > maxOptions:
		return reply{}, domain.Errorf(domain.TooLarge, "the question has %d options; the most is %d", len(ask.Options), maxOptions)
	}
	options := make([]string, 0, len(ask.Options))
	for _, o := range ask.Options {
		o = strings.TrimSpace(safe([]byte(o)))
		if o == "" || len(o) > maxOptionBytes {
			return reply{}, domain.Errorf(domain.Invalid, "an option has %d bytes; 1 to %d are right", len(o), maxOptionBytes)
		}
		options = append(options, o)
	}
	n, answer, err := s.asks.ask(text, options)
	if err != nil {
		return reply{}, err
	}
	defer s.asks.forget(n)
	select {
	case a := <-answer:
		return reply{Answer: a}, nil
	case <-s.asks.withdrawn:
	case <-w.gone():
	}
	select {
	case a := <-answer: // it was written down as delivered
		return reply{Answer: a}, nil
	default:
		return reply{Withdrawn: true}, nil
	}
}

// artifact notes a file of the workspace.
func (s *supervisor) artifact(ask request) error {
	given, err := filepath.Rel(resolve(s.set.Process.Workspace.Root), filepath.Clean(ask.Path))
	if err != nil || !filepath.IsLocal(given) || !utf8.ValidString(given) {
		return domain.Errorf(domain.Invalid, "%s is not in the workspace %s", head(safe([]byte(ask.Path)), maxOptionBytes), s.set.Process.Workspace.Root)
	}
	root, err := os.OpenRoot(s.set.Process.Workspace.Root)
	if err != nil {
		return domain.Wrap(domain.Unavailable, err, "the workspace cannot be opened")
	}
	defer root.Close()
	if fi, err := root.Stat(given); err != nil || !fi.Mode().IsRegular() {
		return domain.Errorf(domain.Invalid, "%s is not a file in the workspace", given)
	}
	name := strings.TrimSpace(safe([]byte(ask.Name)))
	if name == "" {
		name = filepath.Base(given)
	}
	if len(name) > maxNameBytes {
		return domain.Errorf(domain.TooLarge, "the name has %d bytes; the most is %d", len(name), maxNameBytes)
	}
	if err := s.counts.take(&s.counts.artifacts, maxArtifacts, "artifacts"); err != nil {
		return err
	}
	return s.journal.append(turn.Line{Kind: turn.LineArtifact, Name: name, Path: filepath.ToSlash(given)})
}

// pullRequest notes title and body of a pull request.
func (s *supervisor) pullRequest(ask request) error {
	title := strings.Join(strings.Fields(safe([]byte(ask.Title))), " ")
	body := safe([]byte(ask.Text))
	switch {
	case title == "":
		return domain.Errorf(domain.Invalid, "the title is empty")
	case len(title) > maxTitleBytes:
		return domain.Errorf(domain.TooLarge, "the title has %d bytes; the most is %d", len(title), maxTitleBytes)
	case len(body) > maxBodyBytes:
		return domain.Errorf(domain.TooLarge, "the body has %d bytes; the most is %d", len(body), maxBodyBytes)
	}
	if err := s.counts.take(&s.counts.prs, maxPRs, "texts for a pull request"); err != nil {
		return err
	}
	return s.journal.append(turn.Line{Kind: turn.LinePR, Title: title, Text: body})
}
