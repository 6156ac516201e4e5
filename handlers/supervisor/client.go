package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
)

// Client starts supervisors and follows them: the server's side. It keeps no
// truth of its own; any number of clients, one after the other or at once, see
// the same. Its methods are those of agent.Runner, for a process in place of an
// assignment, and may be called concurrently. It has no goroutines and needs no
// closing.
type Client struct {
	opts Options

	mu       sync.Mutex
	marks    map[domain.TurnID]bookmark // how far finished journals were read
	children map[int]bool               // supervisors started here and not yet reaped
}

// New makes a client for a data folder. It starts nothing.
func New(opts Options) (*Client, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	opts, err := opts.normalize()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(opts.Data, "run"), 0o700); err != nil {
		return nil, domain.Wrap(domain.Unavailable, err, "the folder of running turns cannot be made")
	}
	c := &Client{opts: opts, marks: map[domain.TurnID]bookmark{}, children: map[int]bool{}}
	c.tidy()
	return c, nil
}

// Start runs an agent under a supervisor, and returns when the journal says so.
// It does nothing where the turn was begun before.
func (c *Client) Start(ctx context.Context, p turn.Process) error {
	c.reap()
	folder, err := turnFolder(c.opts.Data, p.Turn)
	if err != nil {
		return err
	}
	if err := checkProcess(p); err != nil {
		return err
	}
	if s, _, err := readJournal(folder, 0, bookmark{}); err == nil && s.started {
		return nil
	}
	start, binary, err := c.opts.executables()
	if err != nil {
		return domain.Wrap(domain.Internal, err, "the hangar binary has no path")
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return domain.Wrap(domain.Unavailable, err, "the turn's folder cannot be made")
	}
	return c.spawn(ctx, settings{
		Process: p, Data: c.opts.Data, Folder: folder, Sockets: socketFolders(), Read: c.opts.Read,
		Executable: start, Binary: binary, Grace: c.opts.Grace, Keep: c.opts.Keep,
	})
}

// begun is what a supervisor says of itself on its standard output, once.
type begun struct {
	State string `json:"state"`
	Error *fault `json:"error,omitempty"`
}

// What a supervisor finds.
const (
	stateStarted = "started" // it runs the agent
	stateTaken   = "taken"   // another one has the turn, or had it
	stateFailed  = "failed"  // it could not begin, and the turn is as it was
)

// Next waits for the first line numbered above after: from the supervisor while it
// lives, from the journal when it is gone.
func (c *Client) Next(ctx context.Context, id domain.TurnID, after int) (turn.Line, error) {
	folder, err := turnFolder(c.opts.Data, id)
	if err != nil {
		return turn.Line{}, err
	}
	for {
		got, err := c.attach(ctx, folder, request{Do: doNext, After: after})
		switch {
		case err == nil && got.Line != nil:
			return *got.Line, nil
		case err == nil:
			return turn.Line{}, turn.ErrLost
		case !errors.Is(err, errNobody):
			return turn.Line{}, err
		}
		line, err := c.read(id, folder, after)
		if !errors.Is(err, errBusy) {
			return line, err
		}
	}
}

// errBusy: a supervisor has begun since one looked.
var errBusy = errors.New("a supervisor holds the lock")

// read takes the next line from the journal of a supervisor that is gone.
func (c *Client) read(id domain.TurnID, folder string, after int) (turn.Line, error) {
	c.reap()
	for round := 0; ; round++ {
		c.mu.Lock()
		at := c.marks[id]
		c.mu.Unlock()
		s, at, err := readJournal(folder, after, at)
		if err != nil {
			return turn.Line{}, domain.Wrap(domain.Internal, err, "the turn's journal cannot be read")
		}
		if s.line != nil {
			c.mu.Lock()
			c.marks[id] = at
			c.mu.Unlock()
			return *s.line, nil
		}
		// The lock was free before the journal was read. Where the journal says
		// that the turn had begun and the lock is free still, its supervisor is
		// gone for good, and a second look at the journal sees all it wrote.
		held, err := locked(folder)
		switch {
		case err != nil:
			return turn.Line{}, err
		case held:
			return turn.Line{}, errBusy
		case !s.started:
			return turn.Line{}, turn.ErrUnknownTurn
		case round == 0:
			continue
		}
		if !s.exited {
			sweep(mark(c.opts.Data, id)) // what a dead supervisor left behind runs without a lease
		}
		return turn.Line{}, turn.ErrLost
	}
}

// Answer gives the answer to the turn's ask-th question; only an open one takes it.
func (c *Client) Answer(ctx context.Context, id domain.TurnID, ask int, answer json.RawMessage) error {
	if !json.Valid(answer) {
		return domain.InvalidField("answer", "is not JSON")
	}
	return c.tell(ctx, id, request{Do: doAnswer, Ask: ask, Answer: answer})
}

// Stop has the supervisor end the agent.
func (c *Client) Stop(ctx context.Context, id domain.TurnID) error {
	return c.tell(ctx, id, request{Do: doStop})
}

// tell asks something of a supervisor that may be gone; then there is nothing to do.
func (c *Client) tell(ctx context.Context, id domain.TurnID, r request) error {
	folder, err := turnFolder(c.opts.Data, id)
	if err != nil {
		return err
	}
	if _, err = c.attach(ctx, folder, r); errors.Is(err, errNobody) {
		return nil
	}
	return err
}

// Release says that every line of the turn is recorded. The supervisor ends, the
// output moves to outputTo ("" for nowhere), the turn's folder goes. A turn whose
// agent still runs is not released.
func (c *Client) Release(ctx context.Context, id domain.TurnID, outputTo string) error {
	if err := c.tell(ctx, id, request{Do: doRelease}); err != nil {
		return err
	}
	folder, err := turnFolder(c.opts.Data, id)
	if err != nil {
		return err
	}
	if outputTo != "" {
		if err := move(filepath.Join(folder, outFile), outputTo); err != nil {
			return domain.Wrap(domain.Unavailable, err, "the turn's output cannot be moved")
		}
	}
	if where, err := readControl(folder); err == nil {
		_ = os.Remove(where.Socket) // of a supervisor that was killed; others remove their own
	}
	c.mu.Lock()
	delete(c.marks, id)
	c.mu.Unlock()
	c.reap()
	// Renamed first, so that a folder of a turn is there whole or not at all.
	gone := folder + goneSuffix
	if err := os.Rename(folder, gone); err != nil && !errors.Is(err, os.ErrNotExist) {
		return domain.Wrap(domain.Unavailable, err, "the turn's folder cannot be removed")
	}
	if err := os.RemoveAll(gone); err != nil {
		return domain.Wrap(domain.Unavailable, err, "the turn's folder cannot be removed")
	}
	return nil
}

// Output names the file that holds what the turn's agent has printed, until
// Release moves it.
func (c *Client) Output(id domain.TurnID) (string, error) {
	folder, err := turnFolder(c.opts.Data, id)
	return filepath.Join(folder, outFile), err
}

const goneSuffix = ".gone" // of a folder that is being removed

// tidy removes what an earlier server was removing when it died.
func (c *Client) tidy() {
	left, _ := filepath.Glob(filepath.Join(c.opts.Data, "run", "*"+goneSuffix)) // the pattern is ours
	for _, dir := range left {
		_ = os.RemoveAll(dir) // the next start tries again
	}
	files, _ := filepath.Glob(filepath.Join(c.opts.Data, "run", stagePattern))
	for _, f := range files {
		if fi, err := os.Stat(f); err == nil && time.Since(fi.ModTime()) > KeepAfter {
			_ = os.Remove(f)
		}
	}
}

// errNobody: no supervisor has this turn now.
var errNobody = errors.New("no supervisor holds the lock")

// attach holds one conversation with the turn's supervisor. While one is starting
// or ending it is tried again; where the lock is free there is nobody.
func (c *Client) attach(ctx context.Context, folder string, r request) (reply, error) {
	for {
		held, err := locked(folder)
		if err != nil {
			return reply{}, err
		}
		if !held {
			return reply{}, errNobody
		}
		if where, err := readControl(folder); err == nil {
			got, err := converse(ctx, where.Socket, where.Token, r)
			var refused *domain.Error
			final := errors.As(err, &refused) && refused.Code != domain.Unauthorized // a token of the one before
			if err == nil || final || ctx.Err() != nil {
				return got, err
			}
		}
		select {
		case <-ctx.Done():
			return reply{}, ctx.Err()
		case <-time.After(retryInterval):
		}
	}
}

// move moves a file, also to another file system; a file that is not there was
// moved before.
func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	err := os.Rename(from, to)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".moving-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
