package tools_test

import (
	"encoding/json"
	"testing"
	"time"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/access"
	"hangar/handlers/mcp"
	"hangar/handlers/tools"
)

// about is what the world's server tells about itself.
func (w *world) about() tools.About {
	return tools.About{
		Version: "1.2.3", Protocols: []string{"2026-07-28"},
		Providers: []tools.Provider{{Name: "local", Landlock: 4, Missing: []string{"signals"}, Open: []string{"the network"}}},
		Agents:    []tools.Agent{{Name: "scripted", Kind: "scripted", Capabilities: []string{"ask"}}},
		Limits:    tools.Limits{Running: 8, Timeout: 24 * time.Hour, TaskTTL: 48 * time.Hour, PollInterval: 5 * time.Second},
		ToolsHash: func(s access.Scopes) string { return w.registry.View(s).Hash },
	}
}

func TestInfo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		out, err := w.call(plain(bob), "get_info", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := decode[map[string]any](t, out.(*mcp.Result).Structured)
		want := map[string]any{
			"version": "1.2.3", "tools_hash": w.registry.View(bob.Scopes).Hash, "protocol_versions": []any{"2026-07-28"},
			"providers": []any{map[string]any{"name": "local", "level": 0, "landlock_abi": 4,
				"missing": []any{"signals"}, "open": []any{"the network"}}},
			"agents":        []any{map[string]any{"name": "scripted", "kind": "scripted", "capabilities": []any{"ask"}}},
			"default_agent": "scripted",
			"limits": map[string]any{"running": 8, "timeout_minutes": 1440, "max_timeout_minutes": 10080, "task_ttl_ms": 172800000,
				"poll_interval_ms": 5000, "prompt_bytes": commands.MaxPromptBytes, "tool_wait_seconds": 150},
		}
		g, _ := json.Marshal(got)
		if want, _ := json.Marshal(want); string(g) != string(want) {
			t.Errorf("got %s, want %s", g, want)
		}
	})
}

// A server that knows little of itself still answers with lists.
func TestInfoOfAnEmptyServer(t *testing.T) {
	c := tools.New(tools.Deps{Agents: []string{"shell"}, DefaultAgent: "shell", Secret: domain.NewSecret([32]byte{1})})
	r := mcp.NewRegistry(c.Tools()...)
	tool, _ := r.Lookup("get_info", access.Default)
	out, err := tool.Handle(t.Context(), &mcp.Call{Tool: "get_info", Arguments: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	validate(t, tool.OutputSchema, out.(*mcp.Result).Structured)
	got := decode[map[string]any](t, out.(*mcp.Result).Structured)
	if _, there := got["tools_hash"]; there || got["agents"] == nil {
		t.Errorf("got %v", got)
	}
}
