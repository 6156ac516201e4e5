package tools_test

import (
	"encoding/base64"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

// piece is what read_artifact answers.
type piece struct {
	Name       string        `json:"name"`
	URI        string        `json:"uri"`
	MIME       string        `json:"mime"`
	Content    string        `json:"content"`
	Encoding   string        `json:"encoding"`
	Size       int64         `json:"size"`
	SHA256     domain.Digest `json:"sha256"`
	Offset     int64         `json:"offset"`
	NextOffset int64         `json:"next_offset"`
	Truncated  bool          `json:"truncated"`
}

// keep has the next turns leave a file behind.
func (w *world) keep(name, mime string, content []byte) {
	w.files[name] = content
	w.kept = append(w.kept, turn.Artifact{Name: name, MIME: mime, Size: int64(len(content)), SHA256: domain.Sum(content)})
}

func (w *world) piece(a args) (piece, *mcp.Result) {
	w.t.Helper()
	out, err := w.call(ann, "read_artifact", a)
	r, ok := out.(*mcp.Result)
	if err != nil || !ok || r.IsError {
		w.t.Fatalf("read_artifact answered with %s, %v", show(out), err)
	}
	return decode[piece](w.t, r.Structured), r
}

func TestReadArtifact(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.keep("a/b ü.md", "text/markdown", []byte("# hi <b>"))
		w.keep("raw", "", []byte("\x00\x1b[31m\xff\xfe"))
		w.keep("empty", "text/plain", nil)
		w.keep("changed", "text/plain", []byte("as it was"))
		w.keep("shorter", "text/plain", []byte("as it was"))
		w.keep("gone", "text/plain", []byte("x"))
		id := w.view(plain(ann), "submit_job", args{"prompt": "say hi"}).ID
		settle()
		w.files["changed"], w.files["shorter"] = []byte("as it is!"), []byte("as")
		delete(w.files, "gone")
		w.files["never-kept"] = []byte("x")

		got, r := w.piece(args{"job_id": id, "name": "a/b ü.md"})
		link, _ := r.Content[1].(*sdk.ResourceLink)
		if got.Content != "# hi <b>" || got.Encoding != "utf-8" || got.MIME != "text/markdown" || got.Size != 8 || got.Truncated ||
			got.NextOffset != 0 || got.SHA256 != domain.Sum([]byte("# hi <b>")) || link == nil || link.URI != got.URI {
			t.Errorf("got %+v, %+v", got, r.Content)
		}
		if c, err := w.catalogue.Resources().Read(t.Context(), ann, got.URI); err != nil || c.Contents[0].Text != got.Content {
			t.Errorf("the link reads %+v, %v", c, err)
		}
		if got, _ := w.piece(args{"job_id": id, "name": "a/b ü.md", "offset": 2, "max_bytes": 4}); got.Content != "hi <" || got.NextOffset != 6 || !got.Truncated {
			t.Errorf("got %+v", got)
		}
		if got, _ := w.piece(args{"job_id": id, "name": "a/b ü.md", "offset": 8}); got.Content != "" || got.Truncated {
			t.Errorf("at the end: got %+v", got)
		}
		if got, _ := w.piece(args{"job_id": id, "name": "empty"}); got.Content != "" || got.Encoding != "utf-8" || got.Truncated {
			t.Errorf("got %+v", got)
		}
		if got, _ := w.piece(args{"job_id": id, "name": "raw"}); got.Encoding != "base64" || got.Content != base64.StdEncoding.EncodeToString(w.files["raw"]) {
			t.Errorf("got %+v", got)
		}
		for _, tt := range []struct {
			args args
			want []string
		}{
			{args{"name": "never-kept"}, []string{"name", `"never-kept"`, "a/b ü.md, raw, empty"}},
			{args{"name": "../secret.key"}, []string{"name", "there are"}},
			{args{"name": ""}, []string{"name", "missing", "there are"}},
			{args{"name": "raw", "offset": 99}, []string{"offset", "99", "raw has 8 bytes"}},
			{args{"name": "raw", "offset": -1}, []string{"offset"}},
			{args{"name": "raw", "max_bytes": 3}, []string{"max_bytes", "4"}},
			{args{"name": "raw", "max_bytes": 1 << 20}, []string{"max_bytes", "524288"}},
			{args{"name": "changed"}, []string{"changed since"}},
			{args{"name": "shorter"}, []string{"changed since"}},
			{args{"name": "gone"}, []string{"gone"}},
		} {
			tt.args["job_id"] = id
			contain(t, w.refused(ann, "read_artifact", tt.args), tt.want...)
		}
		for _, c := range []mcp.Caller{bob, eve, none} {
			if got := w.refused(c, "read_artifact", args{"job_id": id, "name": "raw"}); got != "unknown job" {
				t.Errorf("%s is told %q", c.Owner, got)
			}
		}
		w.kept = nil
		bare := w.view(plain(ann), "submit_job", args{"prompt": "hang"}).ID
		settle()
		contain(t, w.refused(ann, "read_artifact", args{"job_id": bare, "name": "x"}), "name", "running", "no artifacts")
	})
}

// Whatever the pieces' size, text comes back whole and each piece is text.
func TestReadArtifactNeverCutsACharacter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		text := strings.Repeat("aé€𝄞", 7) + "€"
		w.keep("text", "text/plain", []byte(text))
		w.keep("cut", "", []byte("ab€"[:4])) // ends within a character by itself
		id := w.view(plain(ann), "submit_job", args{"prompt": "say hi"}).ID
		settle()
		for size := 4; size < 20; size++ {
			var b strings.Builder
			for offset, more := int64(0), true; more; {
				got, _ := w.piece(args{"job_id": id, "name": "text", "offset": offset, "max_bytes": size})
				if got.Encoding != "utf-8" || got.Content == "" || len(got.Content) > size {
					t.Fatalf("size %d, offset %d: got %+v", size, offset, got)
				}
				b.WriteString(got.Content)
				offset, more = got.NextOffset, got.Truncated
			}
			if b.String() != text {
				t.Errorf("size %d: got %q", size, b.String())
			}
		}
		// From within a character a piece is bytes.
		if got, _ := w.piece(args{"job_id": id, "name": "text", "offset": 2, "max_bytes": 4}); got.Encoding != "base64" || got.NextOffset != 6 {
			t.Errorf("got %+v", got)
		}
		if got, _ := w.piece(args{"job_id": id, "name": "cut"}); got.Encoding != "base64" || got.Truncated {
			t.Errorf("got %+v", got)
		}
	})
}
