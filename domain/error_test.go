package domain_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"hangar/domain"
)

func TestErrors(t *testing.T) {
	cause := fs.ErrNotExist
	for _, c := range []struct {
		name    string
		err     error
		code    domain.Code
		message string
		caused  bool
	}{
		{"plain", domain.Errorf(domain.Conflict, "the job is %s", "over"), domain.Conflict, "the job is over", false},
		{"with its cause shown", domain.Errorf(domain.Unavailable, "open: %w", cause), domain.Unavailable, "open: file does not exist", true},
		{"with its cause hidden", domain.Wrap(domain.Internal, cause, "a fault"), domain.Internal, "a fault", true},
		{"about a field", domain.InvalidField("agent", "%q is not one", "x"), domain.Invalid, `agent: "x" is not one`, false},
		{"wrapped again", fmt.Errorf("submit: %w", domain.Errorf(domain.TooLarge, "big")), domain.TooLarge, "submit: big", false},
		{"of others", cause, domain.Internal, "file does not exist", true},
	} {
		if got := domain.CodeOf(c.err); got != c.code {
			t.Errorf("%s: its code is %s", c.name, got)
		}
		if got := c.err.Error(); got != c.message {
			t.Errorf("%s: it says %q", c.name, got)
		}
		if errors.Is(c.err, cause) != c.caused {
			t.Errorf("%s: its cause is found: %t", c.name, !c.caused)
		}
	}
	if got := domain.CodeOf(nil); got != "" {
		t.Errorf("no error has the code %q", got)
	}
}
