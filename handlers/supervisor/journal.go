package supervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
)

// The names of the files in a turn's folder.
const (
	lockFile    = "lock"
	journalFile = "journal"
	outFile     = "out"
	controlFile = "control"
	errorsFile  = "errors"
)

// journal is a turn's journal, as its supervisor writes it. A line is on the disk
// before append returns and before any reader is given it.
type journal struct {
	bootID string
	now    func() time.Time

	mu      sync.Mutex
	file    *os.File
	offsets []int64 // of line N at N-1
	size    int64
	kinds   map[turn.Kind]bool
	more    chan struct{} // closed and replaced when a line was added
}

// openJournal opens a turn's journal to write to, dropping a last line that was
// cut short: nobody was told of it.
func openJournal(path, bootID string, now func() time.Time) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{bootID: bootID, now: now, file: f, kinds: map[turn.Kind]bool{}, more: make(chan struct{})}
	in := bufio.NewReader(f)
	for {
		line, size, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || line.N != len(j.offsets)+1 {
			f.Close()
			return nil, fmt.Errorf("line %d of the journal cannot be read: %w", len(j.offsets)+1, err)
		}
		j.offsets = append(j.offsets, j.size)
		j.size += size
		j.kinds[line.Kind] = true
	}
	if err := errors.Join(f.Truncate(j.size), f.Sync(), syncDir(filepath.Dir(path)), syncDir(filepath.Dir(filepath.Dir(path)))); err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// append numbers the line, writes it and syncs it. A line that cannot be written
// whole leaves the journal as it was.
func (j *journal) append(line turn.Line) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.kinds[turn.LineExited] {
		return domain.Errorf(domain.Conflict, "the turn has ended")
	}
	line.N, line.BootID, line.Time = len(j.offsets)+1, j.bootID, domain.FormatTime(j.now())
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if _, err = j.file.WriteAt(b, j.size); err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return domain.Wrap(domain.Unavailable, errors.Join(err, j.file.Truncate(j.size)), "the journal cannot be written: "+err.Error())
	}
	j.offsets = append(j.offsets, j.size)
	j.size += int64(len(b))
	j.kinds[line.Kind] = true
	close(j.more)
	j.more = make(chan struct{})
	return nil
}

// has reports whether a line of that kind was written.
func (j *journal) has(kind turn.Kind) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.kinds[kind]
}

// next gives the first line above after. Where there is none yet it gives the
// channel that is closed when there may be; neither means that none can come.
func (j *journal) next(after int) (*turn.Line, <-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if after >= len(j.offsets) {
		if j.kinds[turn.LineExited] {
			return nil, nil, nil
		}
		return nil, j.more, nil
	}
	at := j.offsets[max(after, 0)]
	line, _, err := readLine(bufio.NewReader(io.NewSectionReader(j.file, at, j.size-at)))
	return &line, nil, err
}

// readLine reads one whole line and its size in bytes; io.EOF also where a last
// line was cut short.
func readLine(in *bufio.Reader) (turn.Line, int64, error) {
	b, err := in.ReadBytes('\n')
	if err != nil {
		return turn.Line{}, 0, err
	}
	var line turn.Line
	if err := json.Unmarshal(b, &line); err != nil {
		return turn.Line{}, 0, err
	}
	return line, int64(len(b)), nil
}

// state is what a journal without its supervisor says.
type state struct {
	line    *turn.Line // the first above the number asked for
	started bool
	exited  bool
}

// bookmark is how far a reader has come in a journal, so that reading it line by
// line does not begin at the first each time.
type bookmark struct {
	n      int   // lines before offset
	offset int64 // in bytes
}

// readJournal reads a journal whose supervisor is gone, from the bookmark on, to
// the first line above after. It gives the bookmark behind that line.
func readJournal(folder string, after int, from bookmark) (state, bookmark, error) {
	f, err := os.Open(filepath.Join(folder, journalFile))
	if errors.Is(err, os.ErrNotExist) {
		return state{}, bookmark{}, nil
	}
	if err != nil {
		return state{}, bookmark{}, err
	}
	defer f.Close()
	if from.n > after {
		from = bookmark{}
	}
	s := state{started: from.n > 0}
	in := bufio.NewReader(io.NewSectionReader(f, from.offset, 1<<62))
	for {
		line, size, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return s, from, nil
		}
		if err != nil {
			return state{}, bookmark{}, err
		}
		s.started = s.started || line.Kind == turn.LineStarted
		s.exited = line.Kind == turn.LineExited
		from = bookmark{n: line.N, offset: from.offset + size}
		if line.N > after {
			s.line = &line
			return s, from, nil
		}
	}
}

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
