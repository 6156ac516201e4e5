package domain_test

import (
	"testing"
	"time"

	"hangar/domain"
)

func TestStoredTimesHaveSixDecimalsAndAZone(t *testing.T) {
	berlin := time.FixedZone("CEST", 2*60*60)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "2026-01-02T03:04:05.000000Z"},
		{time.Date(2026, 1, 2, 3, 4, 5, 120_000_000, time.UTC), "2026-01-02T03:04:05.120000Z"},
		{time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, time.UTC), "2026-01-02T03:04:05.999999Z"}, // cut, not rounded
		{time.Date(2026, 1, 2, 1, 4, 5, 1_000, berlin), "2026-01-01T23:04:05.000001Z"},
	} {
		got := domain.FormatTime(c.at)
		if got != c.want {
			t.Errorf("%v is stored as %s, want %s", c.at, got, c.want)
		}
		back, err := domain.ParseTime(got)
		if err != nil || !back.Equal(c.at.Truncate(time.Microsecond)) || domain.FormatTime(back) != got {
			t.Errorf("%s comes back as %v, %v", got, back, err)
		}
	}
}

func TestParseTime(t *testing.T) {
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, s := range []string{"2026-01-02T03:04:05Z", "2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05.000000000Z"} {
		if got, err := domain.ParseTime(s); err != nil || !got.Equal(want) {
			t.Errorf("%s is read as %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "now"} {
		if got, err := domain.ParseTime(s); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}
