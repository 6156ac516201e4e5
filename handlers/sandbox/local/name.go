package local

import (
	"net/http"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"hangar/handlers/sandbox"
)

// cleanName makes a file name of what an agent asked for: letters, digits and
// ._- , no path, not hidden, not long.
func cleanName(name string) string {
	name = path.Base(strings.ReplaceAll(name, "\\", "/"))
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-+", r) {
			return r
		}
		return '_'
	}, strings.ToValidUTF8(name, "_"))
	name = strings.TrimLeft(name, ".")
	const room = 8 // for a number behind it
	if ext := path.Ext(name); len(name) > sandbox.MaxArtifactName-room && len(ext) < 20 {
		name = cut(strings.TrimSuffix(name, ext), sandbox.MaxArtifactName-room-len(ext)) + ext
	}
	name = cut(name, sandbox.MaxArtifactName-room)
	if strings.Trim(name, "_-") == "" {
		return "artifact"
	}
	return name
}

// cut gives at most max bytes of s, in whole characters.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// printable makes a path fit for a sentence.
func printable(s string) string {
	return cut(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '_'
	}, strings.ToValidUTF8(s, "_")), 200)
}

// types are media types that the first bytes do not tell. The system's own table is
// not asked: it differs from machine to machine.
var types = map[string]string{
	".css": "text/css; charset=utf-8", ".csv": "text/csv; charset=utf-8", ".diff": "text/x-diff; charset=utf-8",
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".json": "application/json",
	".log": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8", ".patch": "text/x-diff; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".wasm": "application/wasm",
	".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml",
}

// mimeOf tells a file's media type from its name and its first bytes.
func mimeOf(name string, first []byte) string {
	if t, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return http.DetectContentType(first)
}

// prefix keeps the first bytes written to it, as many as tell a media type.
type prefix struct{ bytes []byte }

// Write takes all of p.
func (p *prefix) Write(b []byte) (int, error) {
	const enough = 512
	if room := enough - len(p.bytes); room > 0 {
		p.bytes = append(p.bytes, b[:min(room, len(b))]...)
	}
	return len(b), nil
}
