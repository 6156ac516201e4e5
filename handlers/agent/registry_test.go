package agent

import (
	"errors"
	"slices"
	"testing"

	"hangar/domain"
)

// named is a runner that is only ever compared.
type named struct {
	Runner
	name string
}

func TestRegistry(t *testing.T) {
	shell, claude := &named{name: "shell"}, &named{name: "claude"}
	configured := map[string]Runner{"shell": shell, "claude": claude}
	r := NewRegistry(configured)
	delete(configured, "shell") // the registry keeps its own

	if got, err := r.Runner("shell"); err != nil || got != shell {
		t.Errorf("Runner(shell) = %v, %v", got, err)
	}
	if got := r.Names(); !slices.Equal(got, []string{"claude", "shell"}) {
		t.Errorf("Names() = %q", got)
	}
}

func TestRegistryUnknownAgent(t *testing.T) {
	for _, tt := range []struct {
		name    string
		runners map[string]Runner
		want    string
	}{
		{"some", map[string]Runner{"shell": &named{}, "codex": &named{}}, `agent: there is no agent "shel"; configured: codex, shell`},
		{"none", nil, `agent: there is no agent "shel"; none is configured`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewRegistry(tt.runners).Runner("shel")
			var e *domain.Error
			if !errors.As(err, &e) || e.Code != domain.NotFound || e.Field != "agent" || e.Message != tt.want {
				t.Errorf("Runner(shel): %#v, want a NotFound: %s", err, tt.want)
			}
		})
	}
}
