package app

import (
	"maps"
	"slices"

	"hangar/cmd/internal/config"
	"hangar/domain/access"
	"hangar/handlers/mcp/modern"
	"hangar/handlers/supervisor"
	"hangar/handlers/tools"
)

// capabilities are what agents of a kind can do beside printing. None resumes a
// conversation after it was lost.
var capabilities = map[string][]string{
	config.KindCommand:  {"ask", "step", "result", "artifact", "pr"},
	config.KindScripted: {"ask", "step", "result", "artifact"},
}

// about is what get_info tells of this server.
func (a *App) about() tools.About {
	isolation := supervisor.Probe()
	about := tools.About{
		Version: Version, Protocols: modern.Versions,
		Providers: []tools.Provider{{Name: "local", Level: isolation.Level, Landlock: isolation.Landlock,
			Missing: isolation.Missing, Open: isolation.Open}},
		Limits: tools.Limits{Running: a.cfg.Limits.Running, Timeout: a.cfg.Jobs.Timeout,
			TaskTTL: a.cfg.Tasks.TTL, PollInterval: a.cfg.Tasks.PollInterval},
		ToolsHash: func(s access.Scopes) string { return a.registry.View(s).Hash },
	}
	for _, name := range slices.Sorted(maps.Keys(a.cfg.Agents)) {
		kind := a.cfg.Agents[name].Kind
		about.Agents = append(about.Agents, tools.Agent{Name: name, Kind: kind, Capabilities: capabilities[kind]})
	}
	return about
}
