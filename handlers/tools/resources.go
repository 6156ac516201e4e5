package tools

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
	"hangar/projections"
)

// maxResourceBytes bounds what one resources/read gives.
const maxResourceBytes = 8 << 20

// Resources are what the control plane's results link to: jobs and the artifacts
// they left behind.
type Resources struct {
	folds     *projections.Folds
	artifacts Artifacts
}

var _ mcp.Resources = (*Resources)(nil)

// Templates lists the URI templates.
func (*Resources) Templates() []*sdk.ResourceTemplate {
	return []*sdk.ResourceTemplate{{
		URITemplate: "hangar://jobs/{id}", Name: "job", MIMEType: "application/json",
		Description: "A job as get_job gives it.",
	}, {
		URITemplate: "hangar://jobs/{id}/artifacts/{name}", Name: "artifact",
		Description: "A file that a job left behind.",
	}}
}

// unknownResource is the answer about what is not there, or not the caller's.
func unknownResource() error { return domain.Errorf(domain.NotFound, "unknown resource") }

// Read gives the contents at a URI.
func (r *Resources) Read(ctx context.Context, caller mcp.Caller, uri string) (*sdk.ReadResourceResult, error) {
	id, artifact, ok := parseURI(uri)
	if !ok || !caller.Scopes.Allow(access.Jobs) {
		return nil, unknownResource()
	}
	s, err := r.folds.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if permit(caller)(s) != nil {
		return nil, unknownResource()
	}
	if artifact == "" {
		b, err := mcp.Marshal(JobOut(s))
		if err != nil {
			return nil, err
		}
		return contents(&sdk.ResourceContents{URI: uri, MIMEType: "application/json", Text: string(b)}), nil
	}
	return r.readArtifact(ctx, s, artifact, uri)
}

// parseURI takes a URI of ours apart; artifact is empty for that of a job.
func parseURI(uri string) (id domain.JobID, artifact string, ok bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "hangar" || u.Host != "jobs" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", "", false
	}
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if !domain.ValidID(job.Category, parts[0]) {
		return "", "", false
	}
	if len(parts) == 1 {
		return domain.JobID(parts[0]), "", true
	}
	if len(parts) != 3 || parts[1] != "artifacts" {
		return "", "", false
	}
	name, err := url.PathUnescape(parts[2])
	return domain.JobID(parts[0]), name, err == nil && name != ""
}

// readArtifact gives a file that the job is on record to have left behind, and
// nothing that is not that file any more.
func (r *Resources) readArtifact(ctx context.Context, s *job.State, name, uri string) (*sdk.ReadResourceResult, error) {
	a, ok := artifactOf(s, name)
	if !ok {
		return nil, unknownResource()
	}
	if a.Size > maxResourceBytes {
		return nil, domain.Errorf(domain.TooLarge, "the artifact %s has %d bytes; at most %d can be read here", name, a.Size, maxResourceBytes)
	}
	file, err := r.artifacts.Open(ctx, s.ID, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxResourceBytes+1))
	if err != nil {
		return nil, domain.Wrap(domain.Unavailable, err, "the artifact cannot be read")
	}
	if int64(len(b)) != a.Size || (a.SHA256 != "" && domain.Sum(b) != a.SHA256) {
		return nil, domain.Errorf(domain.Unavailable, "the artifact %s is not the file that was kept: it was changed since", name)
	}
	c := &sdk.ResourceContents{URI: uri, MIMEType: a.MIME}
	if len(b) > 0 && utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		c.Text = string(b)
		return contents(c), nil
	}
	if c.Blob = b; b == nil {
		c.Blob = []byte{} // an empty file has contents too
	}
	return contents(c), nil
}

// artifactOf finds what was last kept under a name.
func artifactOf(s *job.State, name string) (turn.Artifact, bool) {
	for _, t := range slices.Backward(s.Turns) {
		if t.End == nil {
			continue
		}
		for _, a := range t.End.Artifacts {
			if a.Name == name {
				return a, true
			}
		}
	}
	return turn.Artifact{}, false
}

func contents(c *sdk.ResourceContents) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}
}
