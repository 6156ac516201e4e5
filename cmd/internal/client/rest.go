package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"hangar/domain"
	"hangar/handlers/rest"
)

// CreateToken makes a token.
func (c *Client) CreateToken(ctx context.Context, t rest.NewToken) (rest.Issued, error) {
	var out rest.Issued
	return out, c.api(ctx, http.MethodPost, "/tokens", t, &out)
}

// ListTokens lists the tokens of the caller's tenant.
func (c *Client) ListTokens(ctx context.Context) (rest.TokenList, error) {
	var out rest.TokenList
	return out, c.api(ctx, http.MethodGet, "/tokens", nil, &out)
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, id domain.TokenID) error {
	return c.api(ctx, http.MethodDelete, "/tokens/"+url.PathEscape(string(id)), nil, nil)
}

// ListTasks lists the caller's tasks, newest first.
func (c *Client) ListTasks(ctx context.Context, limit int) (rest.TaskViews, error) {
	var out rest.TaskViews
	return out, c.api(ctx, http.MethodGet, "/tasks?limit="+strconv.Itoa(limit), nil, &out)
}

// ListViews tells how the views stand.
func (c *Client) ListViews(ctx context.Context) (rest.ViewList, error) {
	var out rest.ViewList
	return out, c.api(ctx, http.MethodGet, "/projections", nil, &out)
}

// RebuildView builds a view again, all of them for "".
func (c *Client) RebuildView(ctx context.Context, name string) (rest.ViewList, error) {
	path := "/projections/rebuild"
	if name != "" {
		path = "/projections/" + url.PathEscape(name) + "/rebuild"
	}
	var out rest.ViewList
	return out, c.api(ctx, http.MethodPost, path, nil, &out)
}

// JobLogs copies what the agent of a job printed to w: of a turn, its newest for
// 0; the last bytes of it where tail is not 0.
func (c *Client) JobLogs(ctx context.Context, w io.Writer, id domain.JobID, turn int, tail int64) error {
	path := "/jobs/" + url.PathEscape(string(id)) + "/logs"
	if turn != 0 {
		path += "?turn=" + strconv.Itoa(turn)
	}
	header := http.Header{}
	if tail > 0 {
		header.Set("Range", fmt.Sprintf("bytes=-%d", tail))
	}
	answer, err := c.do(ctx, http.MethodGet, rest.Prefix+path, nil, header)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		_, err = io.Copy(w, answer.Body)
		return err
	case http.StatusRequestedRangeNotSatisfiable:
		return nil // nothing was printed, so there is no end of it
	}
	return c.refusal(answer)
}

// api calls /v1 and reads its answer into out, where that is not nil.
func (c *Client) api(ctx context.Context, method, path string, body, out any) error {
	answer, err := c.do(ctx, method, rest.Prefix+path, body, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		return c.refusal(answer)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(out); err != nil {
		return c.garbled(err)
	}
	return nil
}

// refusal gives the error that an answer of /v1 tells.
func (c *Client) refusal(answer *http.Response) error {
	var body struct {
		Error struct {
			Code    domain.Code `json:"code"`
			Message string      `json:"message"`
			Field   string      `json:"field"`
		} `json:"error"`
	}
	err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&body)
	if err != nil || body.Error.Message == "" {
		return c.garbled(fmt.Errorf("HTTP status %s", answer.Status))
	}
	return &domain.Error{Code: body.Error.Code, Message: body.Error.Message, Field: body.Error.Field}
}
