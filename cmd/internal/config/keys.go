package config

import (
	"errors"
	"fmt"
	"regexp"

	"hangar/domain"
)

// keys are all that a file may hold.
func (l *loader) keys() section {
	c := &l.cfg
	return section{
		{"listen", scalar(listenAddress(&c.Listen))},
		{"store", scalar(storeURL(&c.Store))},
		{"tasks", section{
			{"ttl", scalar(duration(&c.Tasks.TTL, minDuration))},
			{"poll_interval", scalar(duration(&c.Tasks.PollInterval, minDuration))},
		}},
		{"mcp", section{
			{"tool_wait_seconds", scalar(seconds(&c.MCP.ToolWait, 1, maxToolWait))},
			{"stateless_http", scalar(boolean(&c.MCP.StatelessHTTP))},
		}},
		{"limits", section{
			{"running", scalar(integer(&c.Limits.Running, 1, maxRunning))},
		}},
		{"jobs", section{
			{"timeout", scalar(duration(&c.Jobs.Timeout, minDuration))},
			{"keep", scalar(duration(&c.Jobs.Keep, 0))},
		}},
		{"repos", sequence{&c.Repos, l.absolute}},
		{"sandbox", section{
			{"read", sequence{&c.Sandbox.Read, l.absolute}},
		}},
		{"default_agent", located(&l.defaultA, scalar(plain(&c.DefaultAgent)))},
		{"agents", table{"an agent", l.agent}},
		{"upstreams", table{"an upstream", l.upstream}},
	}
}

// agent reads one agent of the file. One that is named like a default takes its
// place.
func (l *loader) agent(name string) (reader, func() error) {
	var a Agent
	keys := section{
		{"kind", scalar(agentKind(&a.Kind))},
		{"argv", sequence{&a.Argv, asIs}},
	}
	return keys, func() error {
		switch {
		case !domain.ValidName(name):
			return errors.New("an agent's name is 1 to 64 of a-z, 0-9 and hyphen")
		case a.Kind == "":
			return fmt.Errorf("kind is missing; it is %s", list([]string{KindCommand, KindScripted}))
		case a.Kind == KindCommand && len(a.Argv) == 0:
			return errors.New(`argv is missing: the program and its arguments, such as [bash, "{prompt_file}"]`)
		case a.Kind != KindCommand && len(a.Argv) > 0:
			return fmt.Errorf("argv is not for agents of kind %s", a.Kind)
		}
		l.cfg.Agents[name] = a
		return nil
	}
}

func agentKind(to *string) value {
	return func(text string) error {
		switch text {
		case "claude", "codex", "acp":
			return fmt.Errorf("%s agents are not in this build; it is %s", text, list([]string{KindCommand, KindScripted}))
		}
		return oneOf(to, KindCommand, KindScripted)(text)
	}
}

// upstream reads one upstream of the file, to say what is wrong with it, and then
// that there are none yet.
func (l *loader) upstream(name string) (reader, func() error) {
	u := Upstream{Digest: "enforce", Headers: map[string]string{}, Pins: map[string]domain.Digest{}, Approval: map[string]string{}}
	keys := section{
		{"command", sequence{&u.Command, asIs}},
		{"url", scalar(plain(&u.URL))},
		{"headers", entries(func(name string) value {
			return func(text string) error { u.Headers[name] = text; return nil }
		})},
		{"digest", scalar(oneOf(&u.Digest, "enforce", "warn", "audit"))},
		{"tools", section{
			{"allow", sequence{&u.Tools.Allow, asIs}},
			{"deny", sequence{&u.Tools.Deny, asIs}},
		}},
		{"pins", entries(func(tool string) value { return pin(u.Pins, tool) })},
		{"approval", entries(func(tool string) value {
			return func(text string) error {
				var s string
				err := oneOf(&s, "required")(text)
				u.Approval[tool] = s
				return err
			}
		})},
	}
	return keys, func() error {
		if (len(u.Command) > 0) == (u.URL != "") {
			return errors.New("it has either a command or a url")
		}
		return errors.New("upstreams are not served yet by this build; take it out of the file")
	}
}

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

func pin(to map[string]domain.Digest, tool string) value {
	return func(text string) error {
		if !digest.MatchString(text) {
			return errors.New("a pin is the tool's digest, 64 lower-case hex digits")
		}
		to[tool] = domain.Digest(text)
		return nil
	}
}
