package config

import "github.com/goccy/go-yaml"

// YAML gives the configuration as a file would say it. Secrets are not in it.
func (c *Config) YAML() ([]byte, error) {
	agents := yaml.MapSlice{}
	for _, name := range sortedKeys(c.Agents) {
		a := yaml.MapSlice{{Key: "kind", Value: c.Agents[name].Kind}}
		if argv := c.Agents[name].Argv; len(argv) > 0 {
			a = append(a, yaml.MapItem{Key: "argv", Value: escaped(argv)})
		}
		agents = append(agents, yaml.MapItem{Key: name, Value: a})
	}
	return yaml.Marshal(yaml.MapSlice{
		{Key: "listen", Value: c.Listen},
		{Key: "store", Value: c.Store},
		{Key: "tasks", Value: yaml.MapSlice{{Key: "ttl", Value: c.Tasks.TTL.String()}, {Key: "poll_interval", Value: c.Tasks.PollInterval.String()}}},
		{Key: "mcp", Value: yaml.MapSlice{{Key: "tool_wait_seconds", Value: int(c.MCP.ToolWait.Seconds())}, {Key: "stateless_http", Value: c.MCP.StatelessHTTP}}},
		{Key: "limits", Value: yaml.MapSlice{{Key: "running", Value: c.Limits.Running}}},
		{Key: "jobs", Value: yaml.MapSlice{{Key: "timeout", Value: c.Jobs.Timeout.String()}, {Key: "keep", Value: c.Jobs.Keep.String()}}},
		{Key: "repos", Value: escaped(c.Repos)},
		{Key: "sandbox", Value: yaml.MapSlice{{Key: "read", Value: escaped(c.Sandbox.Read)}}},
		{Key: "default_agent", Value: c.DefaultAgent},
		{Key: "agents", Value: agents},
	})
}
