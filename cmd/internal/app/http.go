package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/auth"
	"hangar/handlers/mcp"
	"hangar/handlers/mcp/modern"
	"hangar/handlers/supervisor"
)

// Bounds of the HTTP server.
const (
	headerTimeout   = 10 * time.Second
	idleTimeout     = 2 * time.Minute
	maxHeaderBytes  = 64 << 10
	shutdownTimeout = 10 * time.Second
)

// listen opens the listeners and makes the server behind them.
func (a *App) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if a.listener, err = lc.Listen(ctx, "tcp", a.cfg.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w", a.cfg.Listen, err)
	}
	socket := ""
	if !a.opts.Fixtures {
		if a.local, err = a.dir.ListenSocket(ctx); err != nil {
			return err
		}
		socket = a.local.Addr().String()
	}
	handler, err := a.routes()
	if err != nil {
		return err
	}
	base, cancel := context.WithCancel(context.Background())
	a.stopping = cancel
	a.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	return a.lock.Announce(a.URL(), socket)
}

// routes is everything that is served over HTTP, on either listener.
func (a *App) routes() (http.Handler, error) {
	sites := auth.Sites{Loopback: loopback(a.cfg.Listen)}
	door := auth.Options{Log: a.opts.Log}
	bearer := auth.Bearer(&authenticator{a.folds, a.opts.Clock}, door)
	endpoint, err := a.endpoint(sites, bearer)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.Handle("/mcp", endpoint)
	r.Group(func(r chi.Router) {
		r.Use(sites.Check)
		r.Get("/healthz", a.health.Live)
		r.Get("/readyz", a.health.Ready)
		r.Get("/metrics", a.health.Metrics)
		r.Handle(auth.MetadataPath, door.Metadata())
		r.Handle(auth.MetadataPathMCP, door.Metadata())
		if !a.opts.Fixtures {
			r.With(bearer).Mount("/v1", a.rest())
		}
	})
	return r, nil
}

// endpoint is the modern wire over the catalogue.
func (a *App) endpoint(sites auth.Sites, bearer func(http.Handler) http.Handler) (http.Handler, error) {
	catalogue, guards, caller := a.catalogue.Tools(), []func(http.Handler) http.Handler{sites.Check, bearer}, a.caller
	if a.opts.Fixtures {
		catalogue, guards, caller = a.catalogue.Fixtures(), guards[:1], modern.Unattributed
	}
	a.registry = mcp.NewRegistry(catalogue...)
	key := make([]byte, 32)
	if _, err := a.opts.Random.Read(key); err != nil {
		return nil, err
	}
	return modern.New(modern.Options{
		Name: "hangar", Version: Version, Registry: func() *mcp.Registry { return a.registry },
		Instructions: "Hangar runs coding agents' jobs in sandboxes. submit_job starts one; declare the tasks extension to get a task to poll.",
		Tasks:        a.catalogue.Tasks(), Resources: a.catalogue.Resources(),
		Caller: caller, Guards: guards, StateKey: key, Clock: a.opts.Clock, Log: a.opts.Log,
	})
}

// caller is whom the token that the door has checked speaks for.
func (a *App) caller(r *http.Request) mcp.Caller {
	id, _ := auth.FromContext(r.Context())
	return mcp.Caller{Owner: id.Owner, Scopes: id.Scopes, CorrelationID: string(a.commands.NewID())}
}

// serve takes requests on every listener.
func (a *App) serve(wg *sync.WaitGroup, failed chan<- error) {
	listeners := []net.Listener{a.listener}
	if a.local != nil {
		listeners = append(listeners, a.local)
	}
	for _, l := range listeners {
		wg.Go(func() {
			if err := a.server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	a.serving.Store(true)
	if !a.opts.Fixtures {
		fmt.Fprintf(a.opts.Notices, "hangar: agents run at isolation %s\n", supervisor.Probe())
	}
	fmt.Fprintf(a.opts.Notices, "hangar: ready on %s\n", a.URL())
}

// shutdown lets requests finish, and ends those that do not.
func (a *App) shutdown() {
	a.serving.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, a.stopping)
	defer stop()
	if err := a.server.Shutdown(ctx); err != nil {
		a.opts.Log.Warn("requests were cut off", "error", err)
		a.server.Close()
	}
	a.stopping()
}

// firstStart issues the administrator's token on a log that has none, and tells
// how to connect. The token is on the disk before it is in the log, so that a
// server killed in between finds it again.
func (a *App) firstStart(ctx context.Context) error {
	if a.opts.Fixtures {
		fmt.Fprintln(a.opts.Notices, "hangar: fixtures only, without authentication, from a temporary data folder")
		return nil
	}
	owner := domain.Owner{Tenant: "default", Principal: "admin"}
	reserved, err := a.store.ReadStream(ctx, access.PrincipalStream(owner), 0, 1)
	if err != nil {
		return err
	}
	token, err := a.dir.AdminToken()
	if len(reserved) > 0 {
		id, ok := access.IDOf(token)
		if err != nil || !ok {
			return nil //nolint:nilerr // whoever has a token goes on with it
		}
		issued, err := a.store.ReadStream(ctx, access.TokenStream(id), 0, 1)
		if err != nil || len(issued) > 0 {
			return err
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		token = a.commands.NewToken()
		err = a.dir.WriteAdminToken(token)
	}
	if err != nil {
		return err
	}
	o := commands.Origin{ID: a.commands.NewID()}
	if _, _, err := a.commands.IssueToken(ctx, o, commands.IssueToken{Owner: owner, Scopes: access.Scopes{access.Admin}, Token: token}); err != nil {
		if len(reserved) > 0 && domain.CodeOf(err) == domain.Invalid {
			return nil // the name is another token's
		}
		return err
	}
	fmt.Fprintf(a.opts.Notices, `hangar: a first token (tenant default, name admin) is in %[1]s
hangar: to connect an MCP client: URL %[2]s, header "Authorization: Bearer $(cat %[1]s)"
`, filepath.Clean(a.dir.AdminTokenFile()), a.URL())
	return nil
}
