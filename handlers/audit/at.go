package audit

import (
	"time"

	"hangar/domain"
)

// ParseAt reads an instant as people write it: RFC 3339, or a date with or without
// a time, which is in the zone given.
func ParseAt(text string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, domain.InvalidField("at", "%q is not a time; write 2006-01-02T15:04:05Z, or 2006-01-02 15:04:05 for local time", text)
}
