package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-chi/chi/v5"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/mcp"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 10

// request is one request of an authenticated caller.
type request struct {
	*http.Request
	Identity
	w http.ResponseWriter
}

// serve makes a handler of f: it knows who calls, and what f returns or panics
// with becomes the answer.
func (a *api) serve(f func(*request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		id, ok := a.Identity(r.Context())
		if !ok {
			a.refuse(w, r, domain.Errorf(domain.Unauthorized, "a bearer token is needed"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := mcp.Recover(func() error { return f(&request{r, id, w}) }); err != nil {
			a.refuse(w, r, err)
		}
	}
}

// require refuses callers whose scopes do not reach s.
func (r *request) require(s access.Scope) error {
	if !r.Scopes.Allow(s) {
		return domain.Errorf(domain.Forbidden, "this needs a token with the scope %s", s)
	}
	return nil
}

// statusError is an error with an HTTP status of its own.
type statusError struct {
	status int
	error
}

// Unwrap gives the error without the status.
func (e *statusError) Unwrap() error { return e.error }

// refuse answers with an error. Of a fault of ours the caller learns nothing, and
// the log everything.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	type body struct {
		Code    domain.Code `json:"code"`
		Message string      `json:"message"`
		Field   string      `json:"field,omitempty"`
	}
	b := body{Code: domain.Internal, Message: "internal error"}
	var known *domain.Error
	switch {
	case errors.As(err, &known) && known.Code != domain.Internal:
		b = body{known.Code, known.Message, known.Field}
	case r.Context().Err() != nil:
		return // nobody is left to be told
	default:
		a.Log.ErrorContext(r.Context(), "request failed", "route", route(r), "error", err, "cause", errors.Unwrap(err))
	}
	status := mcp.HTTPStatus(b.Code)
	if own, ok := errors.AsType[*statusError](err); ok {
		status = own.status
	}
	answer(w, status, struct {
		Error body `json:"error"`
	}{b})
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	text, err := mcp.Marshal(v)
	if err != nil {
		panic(err) // what is answered are structs of ours
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that is gone has nothing to be told
}

// read takes the body, a JSON object, into v. What v does not have is refused by
// name.
func (r *request) read(v any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return &statusError{http.StatusUnsupportedMediaType, domain.Errorf(domain.Invalid, "the Content-Type is application/json")}
	}
	text, err := io.ReadAll(r.Body)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return domain.Errorf(domain.TooLarge, "the body has more than %d bytes", maxBody)
	}
	if err != nil {
		return domain.Wrap(domain.Invalid, err, "the body could not be read to its end")
	}
	return decode(text, v)
}

// decode is the part of read that judges what came from outside.
func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		return domain.Errorf(domain.Invalid, "the body is one JSON object, and more follows")
	}
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind) && kind.Field != "":
		return domain.InvalidField(kind.Field, "it is not a JSON %s", jsonKind(kind.Type.Kind().String()))
	case errors.As(err, &kind):
		return domain.Errorf(domain.Invalid, "the body is a JSON object")
	}
	if name, ok := unknownField(err); ok {
		return domain.InvalidField(name, "there is no such field")
	}
	return domain.Errorf(domain.Invalid, "the body is not JSON")
}

// unknownField gives the name in encoding/json's error about a field it does not
// know, for which there is no type.
func unknownField(err error) (string, bool) {
	const prefix = "json: unknown field "
	text := err.Error()
	if len(text) <= len(prefix) || text[:len(prefix)] != prefix {
		return "", false
	}
	name, err := strconv.Unquote(text[len(prefix):])
	return name, err == nil
}

func jsonKind(kind string) string {
	switch kind {
	case "slice":
		return "array"
	case "struct", "map":
		return "object"
	}
	return kind
}

// route names a request in the log without what it names, which may be a secret.
func route(r *http.Request) string {
	c := chi.RouteContext(r.Context())
	if c == nil {
		return r.Method
	}
	return r.Method + " " + c.RoutePattern()
}

// number reads a query parameter, def where it is not given.
func (r *request) number(name string, def, least, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, domain.InvalidField(name, "it is a whole number from %d to %d", least, most)
	}
	return n, nil
}

// known refuses query parameters that are not among names.
func (r *request) known(names ...string) error {
	for name := range r.URL.Query() {
		if !slices.Contains(names, name) {
			return domain.InvalidField(name, "there is no such parameter")
		}
	}
	return nil
}
