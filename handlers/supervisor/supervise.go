//go:build linux || darwin

package supervisor

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hangar/domain"
	"hangar/domain/turn"
)

// supervisor is the process that keeps one turn's agent.
type supervisor struct {
	set     settings
	bootID  string
	tokens  tokens
	lock    *os.File // held for life
	journal *journal
	asks    *questions
	steps   *steps
	schema  *resultSchema
	flaw    error // of the schema: then there is no agent
	out     *output
	door    *door

	signals  chan os.Signal
	stop     chan struct{} // closed when the agent is to end
	stopOnce sync.Once
	release  chan struct{} // closed when the server has everything
	letGo    sync.Once
	ended    chan struct{} // closed when the last line is written
	seen     atomic.Int64  // when a server was last there, Unix nanoseconds
	counts   counts
}

// supervise is the life of a supervisor: settings from in, one word to out, then
// the agent, and a journal served until the server has it.
func supervise(in io.Reader, out io.Writer) int {
	closeInherited(3)
	s := &supervisor{
		bootID: newID(), signals: make(chan os.Signal, 8), stop: make(chan struct{}),
		release: make(chan struct{}), ended: make(chan struct{}),
	}
	// Caught and not ignored: what is ignored here would be ignored by the agent.
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// Whoever started this process may be gone before it hears the one word: then
	// that write fails, and must not end an agent that is on record as begun.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	unix.Umask(0o077)
	if err := json.NewDecoder(in).Decode(&s.set); err != nil {
		fmt.Fprintln(os.Stderr, "settings:", err)
		return 1
	}
	say := json.NewEncoder(out)
	taken, err := s.begin()
	switch {
	case err != nil:
		_ = say.Encode(begun{State: stateFailed, Error: faultOf(err)}) // whoever started us may be gone
		return 1
	case taken:
		_ = say.Encode(begun{State: stateTaken})
		return 0
	}
	defer s.door.close()
	agent, cause := s.prepare()
	if err := s.journal.append(turn.Line{Kind: turn.LineStarted}); err != nil {
		if agent != nil {
			agent.abandon()
		}
		_ = say.Encode(begun{State: stateFailed, Error: faultOf(err)})
		return 1
	}
	_ = say.Encode(begun{State: stateStarted})
	detach()
	s.run(agent, cause)
	s.linger()
	return 0
}

// begin takes the turn: lock, journal, socket. It reports true where another
// supervisor has it, or had it.
func (s *supervisor) begin() (taken bool, err error) {
	lock, ok, err := takeLock(s.set.Folder)
	if err != nil {
		return false, domain.Wrap(domain.Unavailable, err, "the turn's lock cannot be taken")
	}
	if !ok {
		return true, nil
	}
	s.lock = lock
	_ = os.Remove(filepath.Join(s.set.Folder, controlFile)) // of one that died before it began
	s.journal, err = openJournal(filepath.Join(s.set.Folder, journalFile), s.bootID, time.Now)
	if err != nil {
		return false, domain.Wrap(domain.Unavailable, err, "the turn's journal cannot be opened")
	}
	if s.journal.has(turn.LineStarted) {
		return true, nil
	}
	s.tokens = tokens{control: newToken(), helper: newToken()}
	s.asks = newQuestions(s.journal.append)
	s.steps = &steps{write: func(text string) error {
		return s.journal.append(turn.Line{Kind: turn.LineStep, Text: text})
	}}
	s.schema, s.flaw = compileSchema(s.set.Process.OutputSchema)
	s.seen.Store(time.Now().UnixNano())
	path, err := socketPath(s.set.Sockets, s.set.Data, s.set.Process.Turn)
	if err != nil {
		return false, domain.Wrap(domain.Unavailable, err, "the agent's socket has no place: "+err.Error())
	}
	s.door = &door{path: path, serve: s.serve}
	if err := s.door.open(); err != nil {
		return false, domain.Wrap(domain.Unavailable, err, "the agent's socket cannot be opened")
	}
	where := control{Socket: path, Token: s.tokens.control, BootID: s.bootID}
	if err := where.write(s.set.Folder); err != nil {
		return false, domain.Wrap(domain.Unavailable, err, "the turn's folder cannot be written")
	}
	return false, nil
}

// run lets the agent go, follows it to its end and writes the last line. cause is
// why there is no agent.
func (s *supervisor) run(agent *process, cause error) {
	if cause == nil {
		cause = agent.begin(s.stageSettings())
	}
	var exit turn.Exit
	if cause != nil {
		text := cause.Error()
		exit = turn.Exit{Reason: turn.ExitFailed, ExitCode: -1, Code: turn.AgentStart, Message: tail(text, turn.MaxMessageBytes), Summary: head(text, maxSummaryBytes)}
	} else {
		exit = s.follow(agent)
	}
	s.finish(agent, exit)
}

// finish ends what is left of the agent and writes the last line, however long
// the disk refuses it.
func (s *supervisor) finish(agent *process, exit turn.Exit) {
	s.asks.withdraw()
	if agent != nil {
		agent.end(s.set.Grace)
		agent.drain()
		sweep(mark(s.set.Data, s.set.Process.Turn))
	}
	step := s.steps.close()
	if s.out != nil {
		text := s.out.text()
		exit.Output = s.out.finish()
		if exit.Message == "" {
			exit.Message = tail(text, turn.MaxMessageBytes)
		}
		if exit.Summary == "" {
			exit.Summary = head(lastLine(text), maxSummaryBytes)
		}
	}
	if step != "" && exit.Code != turn.AgentStart {
		exit.Summary = head(step, maxSummaryBytes)
	}
	for {
		err := s.journal.append(turn.Line{Kind: turn.LineExited, Exit: &exit})
		if err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(journalRetryTime)
	}
	close(s.ended)
}

// follow waits for the agent's end, or brings it about, and says how it was.
func (s *supervisor) follow(agent *process) turn.Exit {
	tend := time.NewTicker(tendInterval)
	defer tend.Stop()
	lease := time.NewTimer(s.leaseLeft())
	defer lease.Stop()
	why := turn.Exit{}
	stop := s.stop
	for why.Reason == "" {
		select {
		case ws := <-agent.main:
			return s.exitOf(ws)
		case <-stop:
			why = turn.Exit{Reason: turn.ExitCancelled}
		case <-lease.C:
			why = s.leaseEnd(lease)
		case <-tend.C: // the monotonic clock stands still while the machine sleeps
			s.door.mend()
			if why = s.leaseEnd(lease); s.forgotten() {
				why = turn.Exit{Reason: turn.ExitFailed, Code: turn.AgentLost, Summary: "the turn's folder was removed"}
			}
		case sig := <-s.signals:
			if sig == syscall.SIGTERM {
				why = turn.Exit{Reason: turn.ExitFailed, Code: turn.AgentLost, Summary: "its supervisor was told to end, as when the machine stops"}
			}
		}
	}
	s.asks.withdraw()
	agent.end(s.set.Grace)
	got := exitStatus(<-agent.main)
	why.ExitCode, why.Signal = got.ExitCode, got.Signal
	return why
}

// leaseLeft gives the time until the agent's lease ends; without one, for ever.
func (s *supervisor) leaseLeft() time.Duration {
	if s.set.Process.Deadline.IsZero() {
		return 1<<63 - 1
	}
	return time.Until(s.set.Process.Deadline)
}

// leaseEnd gives the exit of an agent whose lease has ended, or sets the timer on.
func (s *supervisor) leaseEnd(timer *time.Timer) turn.Exit {
	if left := s.leaseLeft(); left > 0 {
		timer.Reset(left)
		return turn.Exit{}
	}
	return turn.Exit{Reason: turn.ExitTimeout, Code: turn.AgentTimeout}
}

// exitOf judges an agent that ended by itself.
func (s *supervisor) exitOf(ws syscall.WaitStatus) turn.Exit {
	e := exitStatus(ws)
	switch {
	case e.ExitCode != 0:
		e.Reason, e.Code = turn.ExitFailed, turn.AgentExited
	case s.schema != nil && !s.journal.has(turn.LineResult):
		e.Reason, e.Code = turn.ExitFailed, turn.ResultMissing
	default:
		e.Reason = turn.ExitCompleted
	}
	return e
}

func exitStatus(ws syscall.WaitStatus) turn.Exit {
	if ws.Signaled() {
		return turn.Exit{ExitCode: -1, Signal: unix.SignalName(ws.Signal())}
	}
	return turn.Exit{ExitCode: ws.ExitStatus()}
}

// linger serves the journal until the server has it all, or has not been there
// for long. The journal stays.
func (s *supervisor) linger() {
	tend := time.NewTicker(min(tendInterval, s.set.Keep))
	defer tend.Stop()
	for {
		select {
		case <-s.release:
			return
		case sig := <-s.signals:
			if sig == syscall.SIGTERM {
				return
			}
		case <-tend.C:
			s.door.mend()
			if s.forgotten() || time.Since(time.Unix(0, s.seen.Load())) > s.set.Keep {
				return
			}
		}
	}
}

// forgotten reports whether the turn's folder was taken away, as with the whole
// data folder: no server will ever come.
func (s *supervisor) forgotten() bool {
	held, err := s.lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(filepath.Join(s.set.Folder, lockFile))
	return errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(held, named)
}

// detach lets go of the pipes to whoever started this process.
func detach() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	_ = unix.Dup2(int(null.Fd()), 0) // the pipes then stay open, and nobody reads them
	_ = unix.Dup2(int(null.Fd()), 1)
}

func newToken() string { return rand.Text() }

// newID makes a boot id.
func newID() string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails
	return domain.NewUUID(time.Now(), random)
}
