package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"hangar/domain"
)

// emit gives a result: v as JSON where machines read it, else whatever people
// writes.
func (sh *shell) emit(v any, people func(w io.Writer)) error {
	if sh.json {
		e := json.NewEncoder(sh.out)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	w := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	people(w)
	return w.Flush()
}

// say tells something that is no result.
func (sh *shell) say(format string, args ...any) {
	fmt.Fprintf(sh.errw, format+"\n", args...)
}

// row writes the cells of one line of a table.
func row(w io.Writer, cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, c)
	}
	fmt.Fprintln(w)
}

// field writes a line of a list of names and values, but for values that are
// empty.
func field(w io.Writer, name, value string) {
	if value != "" {
		row(w, name, value)
	}
}

// when gives a stored instant as people read it: local, with the zone.
func (sh *shell) when(stored string) string {
	if stored == "" {
		return ""
	}
	t, err := domain.ParseTime(stored)
	if err != nil {
		return oneLine(stored)
	}
	return t.In(sh.zone).Format("2006-01-02 15:04:05 MST")
}

// oneLine makes a text of somebody else's harmless to a terminal.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}

// clip cuts a text to n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// millis gives a duration of milliseconds.
func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
