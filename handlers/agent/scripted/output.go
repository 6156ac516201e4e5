package scripted

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"hangar/domain"
	"hangar/domain/turn"
)

// noteRoom is how many bytes of the limit are left for the note that says what
// was dropped.
const noteRoom = 128

// output is what an agent printed: all of it, or its head and its tail.
type output struct {
	head, tail ring
	total      int64
}

// ring holds the last size bytes written to it.
type ring struct {
	size int
	buf  []byte
	next int // once buf is full: where its oldest byte is
}

// newOutput keeps up to limit bytes.
func newOutput(limit int) *output {
	return &output{head: ring{size: limit / 2}, tail: ring{size: limit - limit/2 - noteRoom}}
}

func (o *output) write(s string) {
	o.total += int64(len(s))
	n := min(len(s), o.head.size-len(o.head.buf))
	o.head.write(s[:n])
	o.tail.write(s[n:])
}

func (r *ring) write(s string) {
	if n := min(len(s), r.size-len(r.buf)); n > 0 {
		r.buf = append(r.buf, s[:n]...)
		s = s[n:]
	}
	s = s[max(0, len(s)-r.size):]
	for len(s) > 0 {
		n := copy(r.buf[r.next:], s)
		s = s[n:]
		r.next = (r.next + n) % r.size
	}
}

// parts gives the bytes from the oldest on, in two pieces.
func (r *ring) parts() (older, newer []byte) { return r.buf[r.next:], r.buf[:r.next] }

// kept reads what is kept, with a note where the middle was dropped.
func (o *output) kept() io.Reader {
	older, newer := o.tail.parts()
	note := ""
	if dropped := o.total - int64(len(o.head.buf)+len(o.tail.buf)); dropped > 0 {
		note = fmt.Sprintf("\n[hangar: %d bytes are not kept]\n", dropped)
	}
	return io.MultiReader(bytes.NewReader(o.head.buf), strings.NewReader(note), bytes.NewReader(older), bytes.NewReader(newer))
}

func (o *output) describe() turn.Output {
	h := sha256.New()
	n, _ := io.Copy(h, o.kept()) // neither a hash nor memory fails
	return turn.Output{Bytes: o.total, Kept: n, SHA256: domain.Digest(hex.EncodeToString(h.Sum(nil)))}
}

// message gives the end of the output, safe to show.
func (o *output) message() string {
	var end []byte
	older, newer := o.tail.parts()
	for _, part := range [][]byte{o.head.buf, older, newer} {
		end = append(end, part[max(0, len(part)-turn.MaxMessageBytes):]...)
	}
	end = end[max(0, len(end)-turn.MaxMessageBytes):]
	for len(end) > 0 && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(end), "?")))
}
