package react

import (
	"strings"
	"testing"

	"hangar/domain/turn"
)

func TestFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		exit turn.Exit
		want string
	}{
		{turn.Exit{Code: turn.ResultMissing, Message: "\n"}, "output_schema"},
		{turn.Exit{Code: turn.AgentStart, Message: "no such program"}, "no such program"},
		{turn.Exit{Code: turn.AgentLost, Message: "printed"}, "supervisor"},
		{turn.Exit{Code: turn.AgentExited, ExitCode: -1, Signal: "SIGKILL", Message: "printed"}, "SIGKILL"},
	} {
		if got := failure(&c.exit); !strings.Contains(got, c.want) || strings.Contains(got, "printed") {
			t.Errorf("%+v is told as %q", c.exit, got)
		}
	}
}
