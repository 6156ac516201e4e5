package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/job"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

const readArtifact = "read_artifact"

// How much of a file one read_artifact gives. A piece always has room for a
// character, so that reading on always gets somewhere.
const (
	defaultPieceBytes = 32 << 10
	maxPieceBytes     = 512 << 10
	minPieceBytes     = utf8.UTFMax
	maxOffset         = 1 << 53 // what JSON's numbers hold exactly
)

// maxNamesListed bounds the artifacts that an error lists.
const maxNamesListed = 20

// The encodings of a piece.
const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

// pieceView is what read_artifact answers: a piece of a file.
type pieceView struct {
	JobID    domain.JobID `json:"job_id"`
	Name     string       `json:"name"`
	URI      string       `json:"uri"`
	MIME     string       `json:"mime,omitempty"`
	Content  string       `json:"content"`
	Encoding string       `json:"encoding"` // of this piece
	// Size and SHA256 are the whole file's.
	Size   int64         `json:"size"`
	SHA256 domain.Digest `json:"sha256,omitempty"`
	Offset int64         `json:"offset"`
	// NextOffset is where the next piece begins, nothing at the end.
	NextOffset int64 `json:"next_offset,omitempty"`
	Truncated  bool  `json:"truncated"`
}

var pieceSchema = definition(`{"type":"object","properties":{
	"job_id":{"type":"string"},
	"name":{"type":"string"},
	"uri":{"type":"string"},
	"mime":{"type":"string"},
	"content":{"type":"string"},
	"encoding":{"type":"string","enum":["utf-8","base64"]},
	"size":{"type":"integer"},
	"sha256":{"type":"string"},
	"offset":{"type":"integer"},
	"next_offset":{"type":"integer","description":"Pass as offset to read on"},
	"truncated":{"type":"boolean"}},
	"required":["job_id","name","uri","content","encoding","size","offset","truncated"]}`)

func (c *Catalogue) artifactTool() *mcp.Tool {
	in := definition(`{"type":"object","properties":{
		"job_id":{"type":"string"},
		"name":{"type":"string","description":"As get_job lists it"},
		"offset":{"type":"integer","minimum":0,"description":"In bytes"},
		"max_bytes":{"type":"integer","minimum":` + strconv.Itoa(minPieceBytes) + `,"maximum":` + strconv.Itoa(maxPieceBytes) +
		`,"description":"Default ` + strconv.Itoa(defaultPieceBytes) + `"}},
		"required":["job_id","name"]}`)
	return &mcp.Tool{
		Name:        readArtifact,
		Description: "Read a file that a job left behind, piece by piece: text as it is, the rest as base64.",
		InputSchema: in, OutputSchema: pieceSchema,
		ReadOnly: true, Idempotent: true, Budget: mcp.Read, Scope: access.Jobs,
		Handle: c.readArtifact(inputsOf(readArtifact, in)),
	}
}

func (c *Catalogue) readArtifact(in inputs) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Outcome, error) {
		var a struct {
			JobID    string   `json:"job_id"`
			Name     string   `json:"name"`
			Offset   *float64 `json:"offset"`
			MaxBytes *float64 `json:"max_bytes"`
		}
		if err := in.read(call.Arguments, &a); err != nil {
			return nil, err
		}
		offset, err := whole("offset", a.Offset, 0, 0, maxOffset)
		if err != nil {
			return nil, err
		}
		most, err := whole("max_bytes", a.MaxBytes, defaultPieceBytes, minPieceBytes, maxPieceBytes)
		if err != nil {
			return nil, err
		}
		s, err := c.permitted(ctx, call, a.JobID)
		if err != nil {
			return nil, err
		}
		kept, ok := artifactOf(s, a.Name)
		if !ok {
			return nil, unknownArtifact(s, a.Name)
		}
		if int64(offset) > kept.Size {
			return nil, domain.InvalidField("offset", "%d is behind the end; %s has %d bytes", offset, kept.Name, kept.Size)
		}
		b, err := c.piece(ctx, s.ID, kept, int64(offset), most)
		if err != nil {
			return nil, err
		}
		return answerPiece(s.ID, kept, int64(offset), b)
	}
}

// permitted gives a job that the caller may touch, by an id as it was passed.
func (c *Catalogue) permitted(ctx context.Context, call *mcp.Call, jobID string) (*job.State, error) {
	id, err := checkJobID(jobID)
	if err != nil {
		return nil, err
	}
	s, err := c.Folds.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	return s, permit(call.Caller)(s)
}

// unknownArtifact says which artifacts there are.
func unknownArtifact(s *job.State, name string) error {
	list := artifactViews(s, 0)
	if len(list) == 0 {
		return domain.InvalidField("name", "the job, %s, has no artifacts", s.Status())
	}
	var names []string
	for _, v := range list[:min(len(list), maxNamesListed)] {
		names = append(names, v.Name)
	}
	more := ""
	if len(list) > maxNamesListed {
		more = " and more, which get_job lists"
	}
	what := "it is missing"
	if name != "" {
		what = strconv.Quote(clip(name, maxNameBytes)) + " is not an artifact of the job"
	}
	return domain.InvalidField("name", "%s; there are: %s%s", what, strings.Join(names, ", "), more)
}

// piece reads a part of a kept file, and nothing of one that is not that file any
// more: its size tells, and its sum where the piece is all of it.
func (c *Catalogue) piece(ctx context.Context, id domain.JobID, kept turn.Artifact, offset int64, most int) ([]byte, error) {
	file, err := c.Artifacts.Open(ctx, id, kept.Name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := seek(file, offset)
	b := make([]byte, min(int64(most), kept.Size-offset))
	if err == nil {
		_, err = io.ReadFull(file, b)
	}
	short := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !short {
		return nil, domain.Wrap(domain.Unavailable, err, "the artifact cannot be read")
	}
	all := int64(len(b)) == kept.Size
	if short || (size >= 0 && size != kept.Size) || (all && kept.SHA256 != "" && domain.Sum(b) != kept.SHA256) {
		return nil, domain.Errorf(domain.Unavailable, "the artifact %s is not the file that was kept: it was changed since", kept.Name)
	}
	return b, nil
}

// seek goes to an offset and gives the file's size, -1 where it cannot tell.
func seek(file io.Reader, offset int64) (int64, error) {
	s, ok := file.(io.Seeker)
	if !ok {
		_, err := io.CopyN(io.Discard, file, offset)
		return -1, err
	}
	size, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	_, err = s.Seek(offset, io.SeekStart)
	return size, err
}

func answerPiece(id domain.JobID, kept turn.Artifact, offset int64, b []byte) (*mcp.Result, error) {
	v := pieceView{JobID: id, Name: kept.Name, URI: artifactURI(id, kept.Name), MIME: kept.MIME, Size: kept.Size, SHA256: kept.SHA256,
		Offset: offset, Encoding: encodingText}
	b, isText := textOf(b, offset+int64(len(b)) < kept.Size)
	if v.Content = string(b); !isText {
		v.Content, v.Encoding = base64.StdEncoding.EncodeToString(b), encodingBase64
	}
	if next := offset + int64(len(b)); next < kept.Size {
		v.NextOffset, v.Truncated = next, true
	}
	r, err := structured(v)
	if err != nil {
		return nil, err
	}
	r.Content = append(r.Content, &sdk.ResourceLink{URI: v.URI, Name: v.Name, MIMEType: v.MIME, Size: &v.Size})
	return r, nil
}

// textOf says whether bytes are text. Where more follows, a character that the end
// cut is left for the next piece.
func textOf(b []byte, more bool) (piece []byte, isText bool) {
	text := b
	if more {
		text = wholeCharacters(b)
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return b, false
	}
	return text, true
}

// wholeCharacters leaves out a character at the end that is not all there.
func wholeCharacters(b []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		at := len(b) - back
		if utf8.RuneStart(b[at]) {
			if utf8.FullRune(b[at:]) {
				return b
			}
			return b[:at]
		}
	}
	return b
}
