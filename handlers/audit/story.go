package audit

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hangar/domain"
	"hangar/domain/event"
)

// The layout of a story: a time, who did it, what they did, and below it the
// record that says so.
const (
	dayLayout    = "Monday, 2 January 2006 (MST, -07:00)"
	clockLayout  = "15:04:05.000000"
	whoWidth     = 20
	hashShown    = 12 // hex digits
	textShown    = 160
	hangarItself = "hangar"
)

// storyTeller writes records for people: a line for each day, and two for each
// record.
func storyTeller(w io.Writer, zone *time.Location) func(*domain.Record) error {
	if zone == nil {
		zone = time.UTC
	}
	day := ""
	return func(r *domain.Record) error {
		clock := r.Time
		if at, err := domain.ParseTime(r.Time); err == nil {
			at = at.In(zone)
			clock = at.Format(clockLayout)
			if today := at.Format(dayLayout); today != day {
				if day != "" {
					fmt.Fprintln(w)
				}
				day = today
				fmt.Fprintf(w, "%s\n\n", day)
			}
		}
		who, what := tell(r)
		_, err := fmt.Fprintf(w, "%-*s  %-*s  %s\n%*s  %-*s  %s rev %d · position %d · %s\n",
			len(clockLayout), clean(clock), whoWidth, who, what,
			len(clockLayout), "", whoWidth, clean(r.Type), clean(string(r.Stream)), r.Revision, r.Position, short(r.Hash))
		return err
	}
}

// tell says who did what.
func tell(r *domain.Record) (who, what string) {
	e, err := event.Decode(*r)
	who = hangarItself
	if e.Meta.Principal != "" {
		who = clean(e.Meta.Owner().String())
	}
	if err != nil {
		return who, "(" + clean(err.Error()) + ")"
	}
	return who, inWords(e.Data)
}

func short(hash string) string { return clean(hash[:min(len(hash), hashShown)]) }

// quoted gives a text of somebody else's between quotation marks, on one line and
// not too long.
func quoted(s string) string {
	s = clean(s)
	if utf8.RuneCountInString(s) > textShown {
		runes := []rune(s)
		s = string(runes[:textShown-1]) + "…"
	}
	return "“" + s + "”"
}

// clean makes a text harmless to a terminal, and one line.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	fields := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	return strings.Join(fields, " ")
}
