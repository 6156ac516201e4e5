// Package client is how the command line calls a server: MCP 2026-07-28 for tools
// and tasks, /v1 for the rest, over the server's local socket or a URL.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The bounds of a call.
const (
	dialTimeout = 5 * time.Second
	// maxAnswer bounds an answer that is read whole, in bytes.
	maxAnswer = 64 << 20
)

// Options say which server to call, and as whom.
type Options struct {
	// URL is where the server is, with or without the path /mcp. Empty means the
	// local socket.
	URL string
	// Socket is the path of the local socket.
	Socket string
	Token  string
	// Version is this program's, for the server's log.
	Version string
}

// Client calls one server.
type Client struct {
	http  *http.Client
	base  string // scheme and host, and a path where the server is below one
	where string // for people
	opts  Options
}

// NoServerError says that nobody answered where the server should be.
type NoServerError struct {
	Where string
	cause error
}

// Error names the place.
func (e *NoServerError) Error() string {
	return fmt.Sprintf("no server at %s: start one with `hangar serve`, or name another by HANGAR_URL", e.Where)
}

// Unwrap gives the cause.
func (e *NoServerError) Unwrap() error { return e.cause }

// New makes a client. Nothing is called yet.
func New(o Options) (*Client, error) {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, Proxy: http.ProxyFromEnvironment}
	c := &Client{http: &http.Client{Transport: transport, CheckRedirect: stay}, opts: o}
	if o.URL == "" {
		// A name that is loopback, so that the server's check of hosts is content.
		c.base, c.where = "http://localhost", o.Socket
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", o.Socket)
		}
		return c, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("HANGAR_URL is not where a server can be; it is like http://127.0.0.1:7330")
	}
	c.base = u.Scheme + "://" + u.Host + strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/mcp")
	c.where = c.base
	return c, nil
}

// stay follows no redirect: a token is for the server it was named for.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close lets go of open connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Where names the server, for people.
func (c *Client) Where() string { return c.where }

// do sends a request with a body of JSON, nil for none.
func (c *Client) do(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	var text io.Reader
	if body != nil {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(body); err != nil {
			return nil, err
		}
		text = &b
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, text)
	if err != nil {
		return nil, err
	}
	if header != nil {
		r.Header = header
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if answer.StatusCode == http.StatusUnauthorized {
		answer.Body.Close()
		return nil, c.unauthorized()
	}
	return answer, nil
}

func (c *Client) unauthorized() error {
	if c.opts.Token == "" {
		return fmt.Errorf("the server at %s wants a token: set HANGAR_TOKEN to one (`hangar token create` makes them)", c.where)
	}
	return fmt.Errorf("the server at %s does not take this token: it was revoked, or is of another server", c.where)
}

// unreachable tells a server that is not there from a call that broke.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &NoServerError{c.where, err}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its URL is one that nobody typed
	}
	return fmt.Errorf("the server at %s broke off: %w", c.where, err)
}
