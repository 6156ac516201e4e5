package modern

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hangar/domain/access"
	"hangar/handlers/mcp"
)

// one makes a server with a single tool.
func one(t testing.TB, f mcp.Handler) *bench {
	r := mcp.NewRegistry(&mcp.Tool{Name: "one", InputSchema: json.RawMessage(open), Scope: access.Jobs, Handle: f})
	return setup(t, func(o *Options) { o.Registry = func() *mcp.Registry { return r } })
}

func tokenMeta(token string) string {
	return strings.Replace(plainMeta, `"_meta":{`, `"_meta":{"progressToken":`+token+`,`, 1)
}

var callOne = rpc("tools/call", plainMeta, `"name":"one"`)

func TestProgressMakesAStream(t *testing.T) {
	b := setup(t)
	w := b.post(rpc("tools/call", tokenMeta(`"tok"`), `"name":"steps"`))
	event := func(s string) string { return "event: message\ndata: " + s + "\n\n" }
	progress := func(s string) string {
		return event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok",` + s + `}}`)
	}
	want := ": open\n\n" + progress(`"progress":0,"total":100`) + progress(`"progress":50,"total":100,"message":"half <way>"`) +
		progress(`"progress":100,"total":100`) +
		event(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":"stepped"}],`+infoOf(b, access.Default)+`}}`)
	if got := w.Body.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if h := w.Header(); h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-cache" {
		t.Errorf("headers %v", h)
	}
}

func TestNoStreamWithoutTokenOrAccept(t *testing.T) {
	b := setup(t)
	for name, w := range map[string]*httptest.ResponseRecorder{
		"no token":  b.post(rpc("tools/call", plainMeta, `"name":"steps"`)),
		"no accept": b.post(rpc("tools/call", tokenMeta("1"), `"name":"steps"`), "Accept: application/json"),
	} {
		if w.Header().Get("Content-Type") != "application/json" || texts(t, w) != "stepped" {
			t.Errorf("%s: %v %s", name, w.Header(), w.Body)
		}
	}
}

func TestProgressAfterTheAnswerIsDropped(t *testing.T) {
	var late func(float64, float64, string)
	b := one(t, func(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
		late = c.Progress
		return text1("done"), nil
	})
	w := b.post(rpc("tools/call", tokenMeta("1"), `"name":"one"`))
	before := w.Body.String()
	late(1, 2, "late")
	if w.Body.String() != before || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

// TestLongAnswerBecomesAStream: plain JSON up to ten seconds, then a stream that
// says every fifteen that it lives.
func TestLongAnswerBecomesAStream(t *testing.T) {
	for _, c := range []struct {
		takes  time.Duration
		events string
	}{
		{9 * time.Second, ""},
		{11 * time.Second, ": open\n\n"},
		{41 * time.Second, ": open\n\n: keep-alive\n\n: keep-alive\n\n"},
	} {
		t.Run(c.takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := one(t, func(context.Context, *mcp.Call) (mcp.Outcome, error) {
					time.Sleep(c.takes)
					return text1("done"), nil
				})
				w := b.post(callOne)
				body, streamed := strings.CutPrefix(w.Body.String(), c.events+"event: message\ndata: ")
				if streamed != (c.events != "") {
					t.Fatalf("got %s", w.Body)
				}
				if !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":7,"result":`) {
					t.Errorf("got %s", w.Body)
				}
				// Without leave to stream, it stays JSON however long it takes.
				if w := b.post(callOne, "Accept: application/json"); texts(t, w) != "done" {
					t.Errorf("got %s", w.Body)
				}
			})
		})
	}
}

func TestFailureOnAStream(t *testing.T) {
	b := one(t, func(_ context.Context, c *mcp.Call) (mcp.Outcome, error) {
		c.Progress(1, 2, "")
		panic("midway")
	})
	w := b.post(rpc("tools/call", tokenMeta("1"), `"name":"one"`))
	if !strings.HasSuffix(w.Body.String(), "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603,\"message\":\"internal error\"}}\n\n") {
		t.Errorf("got %s", w.Body)
	}
}

// stuck is a ResponseWriter whose client takes nothing until the write deadline.
type stuck struct {
	http.ResponseWriter
	deadline time.Time
}

func (s *stuck) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }
func (s *stuck) Flush()                             {}
func (s *stuck) Write([]byte) (int, error) {
	time.Sleep(time.Until(s.deadline))
	return 0, errors.New("i/o timeout")
}

// TestStuckClient: who reports progress does not wait for the client, and the
// call ends when the client has not read for ten seconds.
func TestStuckClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported, ended time.Duration
		b := one(t, func(ctx context.Context, c *mcp.Call) (mcp.Outcome, error) {
			start := time.Now()
			for i := range 2 * maxPending {
				c.Progress(float64(i+1), 0, "")
			}
			reported = time.Since(start)
			<-ctx.Done()
			ended = time.Since(start)
			return nil, ctx.Err()
		})
		body := rpc("tools/call", tokenMeta("1"), `"name":"one"`)
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header = headersOf(body)
		b.ServeHTTP(&stuck{ResponseWriter: httptest.NewRecorder()}, r)
		if reported != 0 || ended != writeTime {
			t.Errorf("reported after %v, ended after %v", reported, ended)
		}
	})
}

// TestOldestProgressGivesWay: a client that is slow misses old progress, never
// the newest and never the answer.
func TestOldestProgressGivesWay(t *testing.T) {
	s := newStream(httptest.NewRecorder(), true, func() {})
	s.ended, s.wake = make(chan struct{}), make(chan struct{}, 1) // a pump that does not run
	for i := range maxPending + 3 {
		s.notify(fmt.Append(nil, i))
	}
	if len(s.pending) != maxPending || string(s.pending[0]) != "3" || string(s.pending[maxPending-1]) != fmt.Sprint(maxPending+2) {
		t.Errorf("%d pending, from %s", len(s.pending), s.pending[0])
	}
	s.timer.Stop()
}

func TestLineBreaksInsideJSON(t *testing.T) {
	got := string(appendEvent(nil, []byte("{\"a\":\r\n [1,\n2], \"b\": \"x\\ny\"}")))
	if got != "event: message\ndata: {\"a\":[1,2],\"b\":\"x\\ny\"}\n\n" {
		t.Errorf("%q", got)
	}
}

// TestOverTheNetwork: progress arrives while the call runs, and closing the
// stream ends the call's context.
func TestOverTheNetwork(t *testing.T) {
	gone := make(chan error, 1)
	b := one(t, func(ctx context.Context, c *mcp.Call) (mcp.Outcome, error) {
		c.Progress(1, 2, "begun")
		<-ctx.Done()
		gone <- ctx.Err()
		return nil, ctx.Err()
	})
	server := httptest.NewServer(b)
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	resp := send(ctx, t, server, rpc("tools/call", tokenMeta("1"), `"name":"one"`))
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"begun"`) {
	}
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	if b.log.Len() > 0 {
		t.Errorf("a caller that goes away is no fault: %s", b.log)
	}
}

func send(ctx context.Context, t testing.TB, server *httptest.Server, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = headersOf(body)
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestOneConnectionManyCalls: deadlines of one answer do not reach into the next
// on the connection, and calls on several do not wait for each other.
func TestOneConnectionManyCalls(t *testing.T) {
	b := setup(t)
	server := httptest.NewServer(b)
	defer server.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				resp := send(t.Context(), t, server, rpc("tools/list", plainMeta))
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || resp.ContentLength != int64(len(body)) {
					t.Errorf("%d %v %d of %d", resp.StatusCode, err, len(body), resp.ContentLength)
				}
			}
		})
	}
	wg.Wait()
}

// TestTruncatedBody: a body that ends early is refused.
func TestTruncatedBody(t *testing.T) {
	b := setup(t)
	r := httptest.NewRequest(http.MethodPost, "/mcp", io.MultiReader(strings.NewReader(`{"js`), errReader{}))
	r.Header = headersOf(callOne)
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if w.Code != 400 || parse(t, w).Error.Code != -32700 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
