package modern

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"hangar/handlers/mcp"
)

// The bounds of the HTTP front.
const (
	// MaxBody is how large a request's body may be.
	MaxBody = 4 << 20 // bytes
	// bodyTime is how long a body may take to arrive once its header has.
	bodyTime = 30 * time.Second
	// ReadHeaderTimeout is what an http.Server in front of this should have.
	ReadHeaderTimeout = 10 * time.Second
)

// ServeHTTP serves POST and nothing else: this revision has no stream to GET and
// no session to DELETE.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST is served here", http.StatusMethodNotAllowed)
		return
	}
	s.http.ServeHTTP(w, r)
}

// front puts the guards before the rest.
func (s *Server) front() http.Handler {
	var h http.Handler = http.HandlerFunc(s.servePost)
	for _, guard := range slices.Backward(s.opts.Guards) {
		h = guard(h)
	}
	return h
}

func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	body, refused := readBody(w, r)
	if refused != nil {
		write(w, failure(nil, refused))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := newStream(w, takesEvents(r.Header), cancel)
	a := s.answer(ctx, inbound{
		body:   body,
		header: r.Header,
		caller: s.opts.Caller(r),
		notify: out.notify,
	})
	if r.Context().Err() != nil {
		out.abandon() // nothing more may be sent on a stream that was closed
		return
	}
	out.finish(a)
}

// readBody reads a whole JSON body within its bounds of size and time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *mcp.RPCError) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, &mcp.RPCError{
			Code:    mcp.CodeInvalidRequest,
			Message: "the Content-Type of a request is application/json",
			HTTP:    http.StatusUnsupportedMediaType,
		}
	}
	if r.ContentLength > MaxBody {
		return nil, tooLarge()
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // unsupported by recorders alone
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()

	body, err := readAll(http.MaxBytesReader(w, r.Body, MaxBody), r.ContentLength)
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, refusal(mcp.CodeParse, "the body could not be read to its end")
	}
	return body, nil
}

// readAll reads r to its end, in one piece where its length is known and small.
func readAll(r io.Reader, length int64) ([]byte, error) {
	const most = 64 << 10 // bytes that are believed before they have come
	b := make([]byte, 0, max(512, min(length+1, most)))
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}

func tooLarge() *mcp.RPCError {
	return &mcp.RPCError{
		Code:    mcp.CodeInvalidRequest,
		Message: fmt.Sprintf("the body is over the limit of %d bytes", MaxBody),
		HTTP:    http.StatusRequestEntityTooLarge,
	}
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// takesEvents reports whether an answer may become an event stream.
func takesEvents(h http.Header) bool {
	for _, line := range h["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			media, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "text/event-stream", "text/*", "*/*":
				return true
			}
		}
	}
	return false
}

// write sends an answer as one JSON body.
func write(w http.ResponseWriter, a answer) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // unsupported by recorders alone
	if len(a.body) == 0 {
		w.WriteHeader(a.status)
		return
	}
	h := w.Header()
	h["Content-Type"] = contentJSON
	h["X-Accel-Buffering"] = noBuffering
	h["Content-Length"] = []string{strconv.Itoa(len(a.body))}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a client that is gone has nothing to be told
}

// Header values that are the same for everyone.
var (
	contentJSON   = []string{"application/json"}
	contentEvents = []string{"text/event-stream"}
	noBuffering   = []string{"no"}
	noCache       = []string{"no-cache"}
)
