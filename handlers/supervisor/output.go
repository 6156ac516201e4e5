package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"hangar/domain"
	"hangar/domain/turn"
)

const (
	lastKept   = 64 << 10 // bytes held in memory for message and summary
	tailSuffix = ".tail"
)

// dropMark stands where output was dropped. It has one length for every number.
const dropMark = "\n[hangar: %012d bytes of output dropped here]\n"

// output is the file of what an agent prints: of much, the first half and the last
// half of what is kept. The last goes round in a second file until the end. A disk
// that is full loses output and nothing else: the agent is never held up by it.
type output struct {
	path  string
	half  int64 // bytes kept from the beginning, and bytes kept from the end
	file  *os.File
	ring  *os.File // once the head is full
	total int64    // bytes printed
	kept  int64    // bytes of the head in file
	full  bool     // a write failed: nothing more is kept
	last  []byte   // the end of it
}

func openOutput(path string, keep int64) (*output, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &output{path: path, half: keep / 2, file: f}, nil
}

// Write takes all of p, and fails never.
func (o *output) Write(p []byte) (int, error) {
	o.remember(p)
	rest := p
	if room := o.half - o.total; room > 0 {
		n := min(int64(len(rest)), room)
		o.keep(o.file, rest[:n], o.total)
		if !o.full {
			o.kept += n
		}
		o.total += n
		rest = rest[n:]
	}
	for len(rest) > 0 {
		at := (o.total - o.half) % o.half
		n := min(int64(len(rest)), o.half-at)
		if o.ring == nil && !o.full {
			f, err := os.OpenFile(o.path+tailSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
			o.ring, o.full = f, err != nil
		}
		o.keep(o.ring, rest[:n], at)
		o.total += n
		rest = rest[n:]
	}
	return len(p), nil
}

func (o *output) keep(f *os.File, p []byte, at int64) {
	if o.full {
		return
	}
	if _, err := f.WriteAt(p, at); err != nil {
		o.full = true
	}
}

func (o *output) remember(p []byte) {
	if len(p) >= lastKept {
		o.last = append(o.last[:0], p[len(p)-lastKept:]...)
		return
	}
	if len(o.last)+len(p) > 2*lastKept {
		o.last = append(o.last[:0], o.last[len(o.last)-lastKept:]...)
	}
	o.last = append(o.last, p...)
}

// finish puts the two parts together, with a line between them where something
// was dropped, and says what there is. The file is on the disk afterwards.
func (o *output) finish() turn.Output {
	defer o.file.Close()
	got := turn.Output{Bytes: o.total}
	if err := o.assemble(); err != nil {
		o.full = true
	}
	h := sha256.New()
	if _, err := o.file.Seek(0, io.SeekStart); err == nil {
		got.Kept, _ = io.Copy(h, o.file)
	}
	_ = o.file.Sync() // a file that cannot be synced is still what there is
	got.SHA256 = domain.Digest(hex.EncodeToString(h.Sum(nil)))
	return got
}

// assemble appends the tail to the head.
func (o *output) assemble() error {
	if o.ring == nil {
		return nil
	}
	defer os.Remove(o.path + tailSuffix)
	defer o.ring.Close()
	if o.full {
		return nil // what went round has a hole somewhere
	}
	inRing := o.total - o.half
	start, n, at := int64(0), inRing, o.half // where the kept end begins in the ring, its length, its place in the file
	if inRing > o.half {
		size := int64(len(fmt.Sprintf(dropMark, 0)))
		n = o.half - size
		start, at = (inRing-n)%o.half, o.half+size
		if _, err := o.file.WriteAt(fmt.Appendf(nil, dropMark, inRing-n), o.half); err != nil {
			return err
		}
	}
	if _, err := o.file.Seek(at, io.SeekStart); err != nil {
		return err
	}
	first := min(n, o.half-start)
	_, err1 := io.Copy(o.file, io.NewSectionReader(o.ring, start, first))
	_, err2 := io.Copy(o.file, io.NewSectionReader(o.ring, 0, n-first))
	return errors.Join(err1, err2)
}

// text gives the end of the output as it may be shown.
func (o *output) text() string { return safe(o.last[max(0, len(o.last)-lastKept):]) }
