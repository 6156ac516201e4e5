package domain

import "time"

// Clock tells the time. Only cmd makes one from the wall clock; everything else
// is given one. Times recorded in events come from it, waits do not: those are
// monotonic.
type Clock interface {
	Now() time.Time
}

// SystemClock is the wall clock. In a testing/synctest bubble it is the bubble's.
type SystemClock struct{}

// Now gives the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// timeLayout is RFC 3339 in UTC with exactly six decimals: the form in which
// every instant is stored and hashed.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// FormatTime gives the stored form of t, cut (not rounded) to microseconds.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// ParseTime reads a stored instant; other RFC 3339 forms are accepted too.
func ParseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339Nano, s) }
