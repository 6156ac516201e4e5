package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"hangar/domain"
	"hangar/domain/turn"
)

// The versions of the conversation on the socket. A server meets supervisors that
// an earlier release started, so each side speaks this version and the one before.
const (
	protocolVersion = 1
	protocolOldest  = 1 // protocolVersion-1, once there is a second
)

// verb is what a request asks for.
type verb string

// The verbs of the control token, then those of the helper token.
const (
	doNext    verb = "next"
	doAnswer  verb = "answer"
	doStop    verb = "stop"
	doRelease verb = "release"

	doAsk      verb = "ask"
	doStep     verb = "step"
	doResult   verb = "result"
	doArtifact verb = "artifact"
	doPR       verb = "pr"
)

// hello opens a conversation.
type hello struct {
	Versions []int  `json:"versions"`
	Token    string `json:"token"`
}

// welcome answers a hello with the highest version that both sides speak.
type welcome struct {
	Version int    `json:"version,omitempty"`
	BootID  string `json:"boot_id,omitempty"`
	Error   *fault `json:"error,omitempty"`
}

// request is the one thing that a conversation asks for. Fields not meant by Do
// are empty.
type request struct {
	Do      verb            `json:"do"`
	After   int             `json:"after,omitempty"`
	Ask     int             `json:"ask,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Text    string          `json:"text,omitempty"`
	Options []string        `json:"options,omitempty"`
	Result  string          `json:"result,omitempty"` // as the agent gave it, JSON or not
	Name    string          `json:"name,omitempty"`
	Path    string          `json:"path,omitempty"`
	Title   string          `json:"title,omitempty"`
}

// reply answers a request.
type reply struct {
	Line      *turn.Line      `json:"line,omitempty"`      // next
	Gone      bool            `json:"gone,omitempty"`      // next: no further line can come
	Answer    json.RawMessage `json:"answer,omitempty"`    // ask
	Withdrawn bool            `json:"withdrawn,omitempty"` // ask: nobody will answer
	Error     *fault          `json:"error,omitempty"`
}

// fault is a domain.Error on the socket.
type fault struct {
	Code    domain.Code `json:"code"`
	Message string      `json:"message"`
}

func faultOf(err error) *fault {
	return &fault{Code: domain.CodeOf(err), Message: err.Error()}
}

func (f *fault) err() error { return domain.Errorf(f.Code, "%s", f.Message) }

// pickVersion gives the highest version of ours that the other side speaks, 0 for none.
func pickVersion(theirs []int) int {
	for v := protocolVersion; v >= protocolOldest; v-- {
		if slices.Contains(theirs, v) {
			return v
		}
	}
	return 0
}

func ourVersions() []int {
	var vs []int
	for v := protocolOldest; v <= protocolVersion; v++ {
		vs = append(vs, v)
	}
	return vs
}

// wire is one conversation: lines of JSON, bounded.
type wire struct {
	net.Conn
	in *bufio.Reader
}

func newWire(c net.Conn) *wire { return &wire{Conn: c, in: bufio.NewReader(c)} }

func (w *wire) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) >= maxMessage {
		return domain.Errorf(domain.TooLarge, "a message of %d bytes; the most is %d", len(b), maxMessage)
	}
	if err := w.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func (w *wire) receive(v any) error {
	var line []byte
	for {
		part, err := w.in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxMessage {
			return domain.Errorf(domain.TooLarge, "a message of more than %d bytes", maxMessage)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return json.Unmarshal(line, v)
}

// gone gives a channel that is closed when the other side has hung up. Nothing
// may be received afterwards.
func (w *wire) gone() <-chan struct{} {
	ch := make(chan struct{})
	go func() {
		defer close(ch)
		_, _ = io.Copy(io.Discard, w.in) // ends with the connection, which its handler closes
	}()
	return ch
}

// converse holds one conversation from the side that begins it: the server's or
// the helper's. It ends with ctx.
func converse(ctx context.Context, socket, token string, ask request) (reply, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return reply{}, errors.Join(ctx.Err(), err)
	}
	w := newWire(c)
	defer w.Close()
	stop := context.AfterFunc(ctx, func() { _ = w.SetDeadline(time.Unix(1, 0)); _ = w.Close() })
	defer stop()
	var got reply
	err = func() error {
		if err := w.send(hello{Versions: ourVersions(), Token: token}); err != nil {
			return err
		}
		var in welcome
		if err := w.receive(&in); err != nil {
			return err
		}
		if in.Error != nil {
			return in.Error.err()
		}
		if pickVersion([]int{in.Version}) == 0 {
			return domain.Errorf(domain.Unsupported, "the agent's supervisor speaks version %d; this one speaks %v", in.Version, ourVersions())
		}
		if err := w.send(ask); err != nil {
			return err
		}
		return w.receive(&got)
	}()
	if ctx.Err() != nil {
		return reply{}, ctx.Err()
	}
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", ask.Do, err)
	}
	if got.Error != nil {
		return reply{}, got.Error.err()
	}
	return got, nil
}
