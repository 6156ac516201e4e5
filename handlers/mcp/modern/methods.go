package modern

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"sync"

	"hangar/domain"
	"hangar/handlers/mcp"
)

// method is how one method is asked and served.
type method struct {
	// named gives the member of params that Mcp-Name mirrors; nil for none.
	named func(*params) []byte
	// tasks: the request must declare the tasks extension.
	tasks bool
	// call: the method calls a tool.
	call bool
	// params checks what the method needs; nil for nothing.
	params func(*request) *mcp.RPCError
	// serve gives the result as bytes. notify may be used until it returns.
	serve func(ctx context.Context, r *request, notify func([]byte)) ([]byte, error)
}

// served is the table of all methods. What is not in it is -32601: the methods
// of other revisions, and those behind a capability that is not advertised.
func (s *Server) served() map[string]*method {
	byName := func(p *params) []byte { return p.name }
	byURI := func(p *params) []byte { return p.uri }
	byTask := func(p *params) []byte { return p.taskID }

	table := map[string]*method{
		"server/discover": {serve: s.discover},
		"tools/list":      {serve: s.listTools},
		"tools/call":      {serve: s.callTool, named: byName, params: callParams, call: true},
	}
	if s.opts.Tasks != nil {
		table["tasks/get"] = &method{serve: s.getTask, named: byTask, tasks: true, params: taskParams}
		table["tasks/update"] = &method{serve: s.updateTask, named: byTask, tasks: true, params: updateParams}
		table["tasks/cancel"] = &method{serve: s.cancelTask, named: byTask, tasks: true, params: taskParams}
	}
	if s.opts.Resources != nil {
		table["resources/list"] = &method{serve: s.listResources}
		table["resources/templates/list"] = &method{serve: s.listTemplates}
		table["resources/read"] = &method{serve: s.readResource, named: byURI, params: readParams}
	}
	return table
}

func (s *Server) discover(_ context.Context, r *request, _ func([]byte)) ([]byte, error) {
	return r.list.discover, nil
}

func (s *Server) listTools(_ context.Context, r *request, _ func([]byte)) ([]byte, error) {
	cursor, err := r.cursor()
	if err != nil {
		return nil, err
	}
	page, refused := r.list.page(cursor)
	if refused != nil {
		return nil, refused
	}
	return page, nil
}

// cursor gives the request's cursor, "" for the first page.
func (r *request) cursor() (string, error) {
	if r.params.cursor == nil {
		return "", nil
	}
	cursor, ok := text(r.params.cursor)
	if !ok {
		return "", invalidParams("params.cursor is a string")
	}
	return cursor, nil
}

func (s *Server) getTask(ctx context.Context, r *request, _ func([]byte)) ([]byte, error) {
	task, err := s.opts.Tasks.Get(ctx, r.caller, r.taskID())
	if err != nil {
		return nil, err
	}
	return mcp.AppendTask(make([]byte, 0, 512+len(task.Result)), task, r.list.info)
}

func (s *Server) updateTask(ctx context.Context, r *request, _ func([]byte)) ([]byte, error) {
	responses, refused := readResponses(r.params.inputResponses, nil)
	if refused != nil {
		return nil, refused
	}
	r.caller.CorrelationID = s.correlation(r.caller)
	if err := s.opts.Tasks.Update(ctx, r.caller, r.taskID(), responses); err != nil {
		return nil, err
	}
	return r.list.ack(), nil
}

func (s *Server) cancelTask(ctx context.Context, r *request, _ func([]byte)) ([]byte, error) {
	r.caller.CorrelationID = s.correlation(r.caller)
	if err := s.opts.Tasks.Cancel(ctx, r.caller, r.taskID()); err != nil {
		return nil, err
	}
	return r.list.ack(), nil
}

func (s *Server) correlation(c mcp.Caller) string {
	if c.CorrelationID != "" {
		return c.CorrelationID
	}
	return s.newCorrelation()
}

// ack is the empty result of tasks/update and tasks/cancel (SEP-2663).
func (l *listing) ack() []byte { return l.close([]byte(`{"resultType":"complete"`)) }

// listResources gives no resource: those that there are, a job's and its
// artifacts, are linked from results and found by their templates.
func (s *Server) listResources(_ context.Context, r *request, _ func([]byte)) ([]byte, error) {
	if err := r.onlyPage(); err != nil {
		return nil, err
	}
	return s.closeCacheable([]byte(`{"resultType":"complete","resources":[]`), r.list), nil
}

func (s *Server) listTemplates(_ context.Context, r *request, _ func([]byte)) ([]byte, error) {
	if err := r.onlyPage(); err != nil {
		return nil, err
	}
	b := []byte(`{"resultType":"complete","resourceTemplates":[`)
	for i, t := range s.opts.Resources.Templates() {
		if i > 0 {
			b = append(b, ',')
		}
		one, err := mcp.Marshal(t)
		if err != nil {
			return nil, err
		}
		b = append(b, one...)
	}
	return s.closeCacheable(append(b, ']'), r.list), nil
}

// onlyPage refuses a cursor to a list that has one page.
func (r *request) onlyPage() error {
	cursor, err := r.cursor()
	if err == nil && cursor != "" {
		return invalidParams("params.cursor is none of this server's")
	}
	return err
}

func (s *Server) readResource(ctx context.Context, r *request, _ func([]byte)) ([]byte, error) {
	uri, _ := text(r.params.uri)
	result, err := s.opts.Resources.Read(ctx, r.caller, uri)
	if domain.CodeOf(err) == domain.NotFound {
		refused := mcp.ToRPC(ctx, s.log, r.method, err)
		refused.Data, _ = mcp.Marshal(struct { // server/resources: SHOULD name the URI
			URI string `json:"uri"`
		}{uri})
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	b := []byte(`{"resultType":"complete","contents":[`)
	for i, c := range result.Contents {
		if i > 0 {
			b = append(b, ',')
		}
		one, err := mcp.Marshal(c)
		if err != nil {
			return nil, err
		}
		b = append(b, one...)
	}
	b = append(b, `],"ttlMs":`...)
	b = strconv.AppendInt(b, int64(max(result.TTLMs, 0)), 10)
	return r.list.close(append(b, `,"cacheScope":"private"`...)), nil
}

func (s *Server) callTool(ctx context.Context, r *request, notify func([]byte)) ([]byte, error) {
	call := &mcp.Call{
		Caller:         r.caller,
		Tool:           r.tool.Name,
		Arguments:      r.arguments,
		InputResponses: r.retry.responses,
		State:          r.retry.state,
	}
	call.CorrelationID = s.correlation(r.caller)
	if r.params.progressToken != nil {
		p := &progress{token: r.params.progressToken, notify: notify, last: math.Inf(-1)}
		defer p.end()
		call.Progress = p.report
	}
	out, err := r.list.registry.Invoke(ctx, s.log, call)
	if err != nil {
		return nil, err
	}
	switch o := out.(type) {
	case *mcp.Result:
		return mcp.AppendResult(make([]byte, 0, 512+len(o.Structured)), o, r.list.info)
	case *mcp.Task:
		return mcp.AppendCreateTask(make([]byte, 0, 512), o, r.list.info)
	case *mcp.InputRequired:
		return s.askCaller(r, o)
	}
	return nil, errors.New("the tool answered with nothing")
}

// askCaller gives the result that asks the caller, for as much as it can be asked.
func (s *Server) askCaller(r *request, o *mcp.InputRequired) ([]byte, error) {
	usable, refused := mcp.Usable(o.Requests, r.caller.Capabilities)
	if refused != nil {
		return nil, refused
	}
	asked := make(map[string]string, len(usable))
	for key, q := range usable {
		asked[key] = q.Method
	}
	state, err := s.seal.seal(r.binding(), asked, o.State)
	if err != nil {
		return nil, err
	}
	return mcp.AppendInputRequired(nil, usable, state, r.list.info)
}

// progress sends notifications/progress for one request: strictly increasing,
// and none after its answer (basic/patterns/progress).
type progress struct {
	token  json.RawMessage
	notify func([]byte)

	mu    sync.Mutex
	last  float64
	ended bool
}

func (p *progress) report(done, total float64, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || !(done > p.last) || math.IsInf(done, 0) {
		return
	}
	p.last = done
	b := append(make([]byte, 0, 256), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`...)
	b = append(b, p.token...)
	b = append(b, `,"progress":`...)
	b = strconv.AppendFloat(b, done, 'f', -1, 64)
	if total > 0 && !math.IsInf(total, 0) {
		b = append(b, `,"total":`...)
		b = strconv.AppendFloat(b, total, 'f', -1, 64)
	}
	if message != "" {
		b = append(b, `,"message":`...)
		b = mcp.AppendString(b, message)
	}
	p.notify(append(b, "}}"...))
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}
