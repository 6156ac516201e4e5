package tools_test

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
	"hangar/handlers/tools"
)

func TestResources(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keep := func(name, mime string, content []byte) {
			w.files[name] = content
			w.kept = append(w.kept, turn.Artifact{Name: name, MIME: mime, Size: int64(len(content)), SHA256: domain.Sum(content)})
		}
		keep("a/b ü.md", "text/markdown", []byte("# hi <b>"))
		keep("raw", "", []byte("\x00\x1b[31mred\xff\xfe"))
		keep("empty", "text/plain", nil)
		keep("changed", "text/plain", []byte("as it was"))
		keep("gone", "text/plain", []byte("x"))
		w.kept = append(w.kept, turn.Artifact{Name: "huge", Size: 100 << 20})
		id := w.view(plain(ann), "submit_job", args{"prompt": "say hi"}).ID
		settle()
		w.files["changed"] = []byte("as it is!")
		delete(w.files, "gone")
		w.files["never-kept"] = []byte("x")

		read := func(c mcp.Caller, uri string) (*sdk.ResourceContents, error) {
			r, err := w.catalogue.Resources().Read(t.Context(), c, uri)
			if err != nil {
				return nil, err
			}
			if len(r.Contents) != 1 || r.Contents[0].URI != uri {
				t.Errorf("%s: got %+v", uri, r)
			}
			return r.Contents[0], nil
		}
		v := w.view(ann, "get_job", args{"job_id": id})
		base := "hangar://jobs/" + string(id)

		c, err := read(ann, base)
		if err != nil {
			t.Fatal(err)
		}
		if got := decode[tools.JobView](t, []byte(c.Text)); got.ID != id || c.MIMEType != "application/json" || len(got.Artifacts) != 6 {
			t.Errorf("got %+v", c)
		}
		if c, err := read(root, v.Artifacts[0].URI); err != nil || c.Text != "# hi <b>" || c.MIMEType != "text/markdown" || c.Blob != nil {
			t.Errorf("got %+v, %v", c, err)
		}
		if c, err := read(ann, v.Artifacts[1].URI); err != nil || string(c.Blob) != "\x00\x1b[31mred\xff\xfe" || c.Text != "" {
			t.Errorf("got %+v, %v", c, err)
		}
		if c, err := read(ann, v.Artifacts[2].URI); err != nil || c.Blob == nil || len(c.Blob) != 0 {
			t.Errorf("got %+v, %v", c, err)
		}
		if _, err := read(ann, v.Artifacts[3].URI); domain.CodeOf(err) != domain.Unavailable || !strings.Contains(err.Error(), "changed since") {
			t.Errorf("a changed artifact gives %v", err)
		}
		if _, err := read(ann, v.Artifacts[4].URI); domain.CodeOf(err) != domain.NotFound {
			t.Errorf("an artifact that is gone gives %v", err)
		}
		if _, err := read(ann, v.Artifacts[5].URI); domain.CodeOf(err) != domain.TooLarge {
			t.Errorf("a huge artifact gives %v", err)
		}

		narrow := ann
		narrow.Scopes = access.Scopes{access.Gateway}
		for _, no := range []struct {
			caller mcp.Caller
			uri    string
		}{
			{bob, base}, {eve, base}, {none, base}, {narrow, base}, {bob, v.Artifacts[0].URI},
			{ann, "hangar://jobs/job-aaaaaaaaaaaaaaaaaaaaaaaaaa"}, {ann, base + "/artifacts/never-kept"}, {ann, base + "/artifacts/"},
			{ann, base + "/artifacts/..%2fsecret.key"}, {ann, base + "/artifacts/a/b%20%C3%BC.md"}, {ann, base + "/diff"}, {ann, base + "/"},
			{ann, base + "?x=1"}, {ann, "hangar://sessions/" + string(id)}, {ann, "file:///etc/passwd"}, {ann, "https://jobs/" + string(id)}, {ann, "%zz"}, {ann, ""},
		} {
			if c, err := read(no.caller, no.uri); domain.CodeOf(err) != domain.NotFound || err.Error() != "unknown resource" {
				t.Errorf("%s, %q: got %+v, %v", no.caller.Owner, no.uri, c, err)
			}
		}
		for _, template := range w.catalogue.Resources().Templates() {
			if !strings.HasPrefix(template.URITemplate, "hangar://jobs/{id}") || template.Name == "" || template.Description == "" {
				t.Errorf("got %+v", template)
			}
		}
	})
}
