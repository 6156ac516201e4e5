// Package modern serves MCP revision 2026-07-28 with the tasks extension by
// itself: no session, each request whole, the envelope decoded once. What a call
// means is in the registry of handlers/mcp; here is how it is asked and answered.
package modern

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/mcp"
)

// Versions are the protocol versions this wire serves, newest first.
var Versions = []string{"2026-07-28"}

// Defaults of Options.
const (
	// DefaultListTTL is how long a client may keep a list without asking again.
	DefaultListTTL = time.Minute
	// DefaultPageSize is how many tools a page of a list has.
	DefaultPageSize = 100
)

// Options are what a Server is made of.
type Options struct {
	// Name and Version are serverInfo's; the version gets the list's hash.
	Name, Version string
	// Instructions are given by server/discover, "" for none.
	Instructions string

	// Registry gives the tools. It is asked for each request, so that a gateway
	// may change the list by another registry.
	Registry func() *mcp.Registry
	// Tasks is the ledger; without one, tasks are neither advertised nor served.
	Tasks mcp.Tasks
	// Resources likewise.
	Resources mcp.Resources

	// Caller tells who sent a request: owner, scopes, and a correlation id if
	// there is one already. It runs behind the guards, so it cannot fail. Nil is
	// Unattributed, for fixtures alone.
	Caller func(*http.Request) mcp.Caller
	// Guards stand between the check of the HTTP method and the reading of the
	// body, outermost first: Origin and Host, then the token.
	Guards []func(http.Handler) http.Handler

	// StateKey seals requestState: 32 random bytes, new with each process.
	StateKey []byte
	Clock    domain.Clock // nil is the system's
	Log      *slog.Logger // nil discards

	ListTTL  time.Duration // 0 is DefaultListTTL
	PageSize int           // 0 is DefaultPageSize
}

// Unattributed is the caller of a server without authentication: nobody's, and
// every scope. Only the conformance suite's fixtures are served so.
func Unattributed(*http.Request) mcp.Caller { return mcp.Caller{Scopes: access.All} }

// Server answers requests of one endpoint, whatever brought them.
type Server struct {
	opts    Options
	log     *slog.Logger
	methods map[string]*method
	seal    *sealer
	current atomic.Pointer[catalogue]
	http    http.Handler
}

// New makes a Server.
func New(o Options) (*Server, error) {
	if o.Registry == nil {
		return nil, fmt.Errorf("modern: no registry of tools")
	}
	if o.Caller == nil {
		o.Caller = Unattributed
	}
	if o.Clock == nil {
		o.Clock = domain.SystemClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ListTTL == 0 {
		o.ListTTL = DefaultListTTL
	}
	if o.PageSize == 0 {
		o.PageSize = DefaultPageSize
	}
	seal, err := newSealer(o.StateKey, o.Clock)
	if err != nil {
		return nil, fmt.Errorf("modern: %w", err)
	}
	s := &Server{opts: o, log: o.Log, seal: seal}
	s.methods = s.served()
	s.http = s.front()
	return s, nil
}

// answer is what goes back for one message; an empty body is for a notification.
type answer struct {
	status int
	body   []byte
}

// inbound is one message as a transport hands it over.
type inbound struct {
	body   []byte
	header http.Header // nil on a transport that has none
	caller mcp.Caller
	// notify sends a notification that belongs to the request, before its answer.
	notify func([]byte)
}

// answer serves one message from its bytes to the bytes of its answer. It is
// all that a transport needs.
func (s *Server) answer(ctx context.Context, in inbound) answer {
	env, refused := decode(in.body)
	if refused != nil {
		return failure(env.id, refused)
	}
	if env.id == nil && strings.HasPrefix(env.method, "notifications/") {
		return answer{status: http.StatusAccepted}
	}
	list := s.list(in.caller.Scopes)
	r := &request{envelope: env, header: in.header, caller: in.caller, list: list}
	var result []byte
	err := mcp.Recover(func() (err error) {
		if refused := s.climb(r); refused != nil {
			return refused
		}
		result, err = r.serves.serve(ctx, r, in.notify)
		return err
	})
	if err != nil {
		return failure(env.id, mcp.ToRPC(ctx, s.log, r.method, err))
	}
	return success(env.id, result)
}

func success(id json.RawMessage, result []byte) answer {
	b := make([]byte, 0, len(result)+len(id)+40)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"result":`...)
	b = append(b, result...)
	return answer{http.StatusOK, append(b, '}')}
}

// failure echoes the id, and leaves it out only where it could not be read
// (basic/index).
func failure(id json.RawMessage, e *mcp.RPCError) answer {
	b := append(make([]byte, 0, 256), `{"jsonrpc":"2.0",`...)
	if id != nil {
		b = append(b, `"id":`...)
		b = append(b, id...)
		b = append(b, ',')
	}
	b = append(b, `"error":{"code":`...)
	b = strconv.AppendInt(b, int64(e.Code), 10)
	b = append(b, `,"message":`...)
	b = mcp.AppendString(b, e.Message)
	if len(e.Data) > 0 {
		b = append(b, `,"data":`...)
		b = append(b, e.Data...)
	}
	return answer{e.Status(), append(b, "}}"...)}
}

// catalogue is what is worked out once for a registry.
type catalogue struct {
	registry *mcp.Registry
	listings sync.Map // of *mcp.View to *listing
}

// listing is the tool list as one set of scopes sees it, ready to be sent.
type listing struct {
	registry *mcp.Registry
	view     *mcp.View
	info     json.RawMessage // serverInfo
	discover []byte
	pages    [][]byte
}

func (s *Server) list(scopes access.Scopes) *listing {
	registry := s.opts.Registry()
	c := s.current.Load()
	if c == nil || c.registry != registry {
		c = &catalogue{registry: registry}
		s.current.Store(c)
	}
	view := registry.View(scopes)
	if l, ok := c.listings.Load(view); ok {
		return l.(*listing)
	}
	l, _ := c.listings.LoadOrStore(view, s.makeListing(registry, view))
	return l.(*listing)
}

func (s *Server) makeListing(registry *mcp.Registry, view *mcp.View) *listing {
	l := &listing{registry: registry, view: view}
	l.info = append(l.info, `{"name":`...)
	l.info = mcp.AppendString(l.info, s.opts.Name)
	l.info = append(l.info, `,"version":`...)
	l.info = append(mcp.AppendString(l.info, view.Version(s.opts.Version)), '}')
	l.discover = s.makeDiscover(l)
	for from := 0; from == 0 || from < len(view.Definitions); from += s.opts.PageSize {
		l.pages = append(l.pages, s.makePage(l, from))
	}
	return l
}

func (s *Server) makeDiscover(l *listing) []byte {
	b := []byte(`{"resultType":"complete","supportedVersions":[`)
	for i, v := range Versions {
		if i > 0 {
			b = append(b, ',')
		}
		b = mcp.AppendString(b, v)
	}
	b = append(b, `],"capabilities":{"tools":{}`...)
	if s.opts.Resources != nil {
		b = append(b, `,"resources":{}`...)
	}
	if s.opts.Tasks != nil {
		b = append(b, `,"extensions":{"`+mcp.TasksExtension+`":{}}`...)
	}
	b = append(b, '}')
	if s.opts.Instructions != "" {
		b = append(b, `,"instructions":`...)
		b = mcp.AppendString(b, s.opts.Instructions)
	}
	return s.closeCacheable(b, l)
}

func (s *Server) makePage(l *listing, from int) []byte {
	to := min(from+s.opts.PageSize, len(l.view.Definitions))
	b := []byte(`{"resultType":"complete","tools":[`)
	for i, d := range l.view.Definitions[from:to] {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, d...)
	}
	b = append(b, ']')
	if to < len(l.view.Definitions) {
		b = append(b, `,"nextCursor":`...)
		b = mcp.AppendString(b, l.cursor(from/s.opts.PageSize+1))
	}
	return s.closeCacheable(b, l)
}

// closeCacheable ends a result that clients may keep (SEP-2549). The scope is
// private: what is listed depends on the caller.
func (s *Server) closeCacheable(b []byte, l *listing) []byte {
	b = append(b, `,"ttlMs":`...)
	b = strconv.AppendInt(b, s.opts.ListTTL.Milliseconds(), 10)
	b = append(b, `,"cacheScope":"private"`...)
	return l.close(b)
}

// close ends a result with the server's name.
func (l *listing) close(b []byte) []byte {
	b = append(b, `,"_meta":{"`+mcp.MetaServerInfo+`":`...)
	b = append(b, l.info...)
	return append(b, "}}"...)
}

// cursor names a page of this very list.
func (l *listing) cursor(page int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s.%d", l.view.Hash, page))
}

// page finds the page that a cursor names; "" is the first.
func (l *listing) page(cursor string) ([]byte, *mcp.RPCError) {
	if cursor == "" {
		return l.pages[0], nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	hash, number, ok := strings.Cut(string(b), ".")
	if err != nil || !ok {
		return nil, invalidParams("params.cursor is none of this server's")
	}
	if hash != l.view.Hash {
		return nil, invalidParams("params.cursor is of a list that has changed since; begin again without one")
	}
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(l.pages) {
		return nil, invalidParams("params.cursor is none of this server's")
	}
	return l.pages[i], nil
}

// newCorrelation makes an id that ties together what follows from one request.
func (s *Server) newCorrelation() string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	return domain.NewUUID(s.opts.Clock.Now(), random)
}
