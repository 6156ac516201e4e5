package supervisor

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapes are terminal sequences: CSI, OSC (ended by BEL or ST), other strings,
// charset choices and two-character escapes.
var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]+[0-~]|\x1b[0-~]")

// safe makes bytes that an agent printed fit to be shown and stored: valid UTF-8,
// no terminal sequences, no control characters but line feed and tab. What a
// carriage return overwrote on a terminal is left out here too.
func safe(b []byte) string {
	b = escapes.ReplaceAll(b, nil)
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	var out strings.Builder
	for i, line := range bytes.Split(b, []byte("\n")) {
		if i > 0 {
			out.WriteByte('\n')
		}
		line = bytes.TrimRight(line, "\r")
		line = line[bytes.LastIndexByte(line, '\r')+1:]
		for _, r := range string(line) { // an invalid byte is given as U+FFFD
			if r == '\t' || !unicode.IsControl(r) && !reorders(r) {
				out.WriteRune(r)
			}
		}
	}
	return out.String()
}

// reorders reports marks that reorder text on a screen, so that it reads as
// something else than it is.
func reorders(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0xFEFF
}

// tail gives the last max bytes of s, beginning at a whole character.
func tail(s string, max int) string {
	if len(s) <= max {
		return s
	}
	s = s[len(s)-max:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// head gives the first max bytes of s, ending at a whole character, with a mark
// where something was cut.
func head(s string, max int) string {
	const mark = "…"
	if len(s) <= max {
		return s
	}
	s = s[:max-len(mark)]
	for len(s) > 0 {
		if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + mark
}

// lastLine gives the last line of s that is not blank.
func lastLine(s string) string {
	lines := strings.Split(s, "\n")
	for _, line := range slices.Backward(lines) {
		if l := strings.TrimSpace(line); l != "" {
			return l
		}
	}
	return ""
}
