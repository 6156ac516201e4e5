package agent

import (
	"maps"
	"slices"
	"strings"

	"hangar/domain"
)

// Registry is the agents of the configuration, by name. A turn's events hold its
// agent's name, so what follows a turn asks for the runner by that name, also
// after the server was started again. It never changes once made.
type Registry struct{ runners map[string]Runner }

// NewRegistry makes a registry of the given runners. Several names may share one.
func NewRegistry(runners map[string]Runner) *Registry {
	return &Registry{runners: maps.Clone(runners)}
}

// Names lists the configured agents, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.runners)) }

// Runner gives the runner of the agent called name. For a name that is not, or
// no longer, configured it is a NotFound about the field "agent" that says which
// names are.
func (r *Registry) Runner(name string) (Runner, error) {
	if runner, ok := r.runners[name]; ok {
		return runner, nil
	}
	configured := "none is configured"
	if names := r.Names(); len(names) > 0 {
		configured = "configured: " + strings.Join(names, ", ")
	}
	err := domain.Errorf(domain.NotFound, "agent: there is no agent %q; %s", name, configured)
	err.Field = "agent"
	return nil, err
}
