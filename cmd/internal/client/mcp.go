package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"hangar/domain"
	"hangar/handlers/mcp"
)

// protocolVersion is the revision that is spoken.
const protocolVersion = "2026-07-28"

// maxLine bounds one line of an event stream, in bytes.
const maxLine = maxAnswer

// CallError is a JSON-RPC error. What it says is for people.
type CallError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error gives the message.
func (e *CallError) Error() string { return e.Message }

// Result is what a tool answered: a task, or the result itself.
type Result struct {
	// Task is the handle of the task that the call became, nil for none.
	Task *mcp.Task
	// Structured is the structured content.
	Structured json.RawMessage
	// Text is the first text of the content.
	Text    string
	IsError bool
}

// CallTool calls a tool. As a task says that the call may become one.
func (c *Client) CallTool(ctx context.Context, name string, arguments any, asTask bool) (*Result, error) {
	raw, err := c.call(ctx, "tools/call", name, map[string]any{"name": name, "arguments": arguments}, asTask)
	if err != nil {
		return nil, err
	}
	var kind struct {
		ResultType string `json:"resultType"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, c.garbled(err)
	}
	if kind.ResultType == "task" {
		r := &Result{Task: &mcp.Task{}}
		if err := json.Unmarshal(raw, r.Task); err != nil {
			return nil, c.garbled(err)
		}
		return r, nil
	}
	return ParseResult(raw)
}

// ParseResult reads a tool's result, as it also stands in a completed task.
func ParseResult(raw json.RawMessage) (*Result, error) {
	var w struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, fmt.Errorf("the result of the tool cannot be read: %w", err)
	}
	r := &Result{Structured: w.Structured, IsError: w.IsError}
	for _, part := range w.Content {
		if part.Type == "text" {
			r.Text = part.Text
			break
		}
	}
	return r, nil
}

// GetTask gives a task as it stands.
func (c *Client) GetTask(ctx context.Context, id domain.TaskID) (*mcp.Task, error) {
	raw, err := c.call(ctx, "tasks/get", string(id), map[string]any{"taskId": id}, true)
	if err != nil {
		return nil, err
	}
	t := &mcp.Task{}
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, c.garbled(err)
	}
	return t, nil
}

// UpdateTask gives answers to a task's questions, by their keys.
func (c *Client) UpdateTask(ctx context.Context, id domain.TaskID, responses map[string]any) error {
	_, err := c.call(ctx, "tasks/update", string(id), map[string]any{"taskId": id, "inputResponses": responses}, true)
	return err
}

// CancelTask asks a task to end.
func (c *Client) CancelTask(ctx context.Context, id domain.TaskID) error {
	_, err := c.call(ctx, "tasks/cancel", string(id), map[string]any{"taskId": id}, true)
	return err
}

// call sends one request of MCP and gives its result. name is what the method is
// about: it stands in a header too.
func (c *Client) call(ctx context.Context, method, name string, params map[string]any, tasks bool) (json.RawMessage, error) {
	capabilities := map[string]any{}
	if tasks {
		capabilities["elicitation"] = map[string]any{"form": struct{}{}}
		capabilities["extensions"] = map[string]any{mcp.TasksExtension: struct{}{}}
	}
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    protocolVersion,
		"io.modelcontextprotocol/clientCapabilities": capabilities,
		"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "hangar", "version": c.opts.Version},
	}
	body := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
	answer, err := c.do(ctx, http.MethodPost, "/mcp", body, http.Header{
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {protocolVersion},
		"Mcp-Method":           {method},
		"Mcp-Name":             {headerValue(name)},
	})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	message, err := readMessage(answer)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, c.garbled(err)
	}
	if message.Error != nil {
		return nil, message.Error
	}
	return message.Result, nil
}

func (c *Client) garbled(err error) error {
	return fmt.Errorf("the server at %s gave an answer that cannot be read: %w", c.where, err)
}

// headerValue wraps what cannot stand in a header as it is (basic/transports,
// sentinel encoding).
func headerValue(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?")
	for _, r := range s {
		plain = plain && (r == '\t' || r >= ' ' && r <= '~')
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// message is a JSON-RPC response.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *CallError      `json:"error"`
}

// readMessage gives the response in an answer of one JSON body or of an event
// stream, in which it is the last of what may be several messages.
func readMessage(r *http.Response) (*message, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("HTTP status %s", r.Status)
	}
	switch media {
	case "text/event-stream":
		return readEvents(r.Body)
	case "application/json":
		b, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
		if err != nil {
			return nil, err
		}
		m := &message{}
		if err := json.Unmarshal(b, m); err != nil || m.Result == nil && m.Error == nil {
			return nil, fmt.Errorf("HTTP status %s: it is no response of JSON-RPC", r.Status)
		}
		return m, nil
	}
	return nil, fmt.Errorf("HTTP status %s, of type %s", r.Status, media)
}

// readEvents reads an event stream up to the response. Notifications before it are
// passed over.
func readEvents(r io.Reader) (*message, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var data bytes.Buffer
	for lines.Scan() {
		line := lines.Bytes()
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data.Len()+len(rest) > maxAnswer {
				return nil, errors.New("the answer is too long")
			}
			data.Write(bytes.TrimPrefix(rest, []byte(" ")))
			data.WriteByte('\n')
			continue
		}
		if len(line) > 0 || data.Len() == 0 {
			continue // a comment, another field, or an empty event
		}
		m := &message{}
		if err := json.Unmarshal(data.Bytes(), m); err != nil {
			return nil, err
		}
		if m.Method == "" && (m.Result != nil || m.Error != nil) {
			return m, nil //nolint:nilerr // an error of the server is an answer
		}
		data.Reset()
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}
