package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"hangar/cmd/internal/config"
	"hangar/cmd/internal/datadir"
	"hangar/domain"
	"hangar/domain/turn"
	"hangar/handlers/agent"
	"hangar/handlers/agent/command"
	"hangar/handlers/agent/scripted"
	"hangar/handlers/supervisor"
)

// agents are the configured agents by name, as the reactions need them.
type agents struct {
	registry *agent.Registry
	dir      *datadir.Dir
	close    func() error
}

// newAgents makes a runner for each configured agent. Those that are commands run
// under one supervisor client; the scripted ones share one boot id, for after a
// restart they are all gone.
func newAgents(cfg config.Config, dir *datadir.Dir, client *supervisor.Client, bootID string, clock domain.Clock) (*agents, error) {
	in := scripted.New(bootID, clock)
	runners := map[string]agent.Runner{}
	for name, a := range cfg.Agents {
		switch a.Kind {
		case config.KindScripted:
			runners[name] = in
		case config.KindCommand:
			r, err := command.New(client, a.Argv...)
			if err != nil {
				return nil, fmt.Errorf("agent %s: %w", name, err)
			}
			runners[name] = r
		default:
			return nil, domain.Errorf(domain.Unsupported, "agents.%s.kind: %q is not in this build", name, a.Kind)
		}
	}
	return &agents{registry: agent.NewRegistry(runners), dir: dir, close: in.Close}, nil
}

func (a *agents) Start(ctx context.Context, as turn.Assignment) error {
	r, err := a.registry.Runner(as.Agent)
	if err != nil {
		return err
	}
	return r.Start(ctx, as)
}

// Next of an agent that is not configured any more says that its turn is lost.
func (a *agents) Next(ctx context.Context, name string, id domain.TurnID, after int) (turn.Line, error) {
	r, err := a.registry.Runner(name)
	if err != nil {
		return turn.Line{}, turn.ErrLost
	}
	return r.Next(ctx, id, after)
}

func (a *agents) Answer(ctx context.Context, name string, id domain.TurnID, ask int, answer json.RawMessage) error {
	r, err := a.registry.Runner(name)
	if err != nil {
		return err
	}
	return r.Answer(ctx, id, ask, answer)
}

func (a *agents) Stop(ctx context.Context, name string, id domain.TurnID) error {
	r, err := a.registry.Runner(name)
	if err != nil {
		return err
	}
	return r.Stop(ctx, id)
}

// Release moves a turn's output to where it stays: output/<job>/<n>.
func (a *agents) Release(ctx context.Context, name string, id domain.TurnID) error {
	r, err := a.registry.Runner(name)
	if err != nil {
		return err
	}
	path := outputPath(a.dir, id)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return r.Release(ctx, id, path)
}

// Kept lists the turns that have a folder in run/.
func (a *agents) Kept(context.Context) ([]domain.TurnID, error) {
	entries, err := os.ReadDir(a.dir.Run())
	if err != nil {
		return nil, err
	}
	var list []domain.TurnID
	for _, e := range entries {
		if _, n := domain.TurnID(e.Name()).Split(); e.IsDir() && n > 0 {
			list = append(list, domain.TurnID(e.Name()))
		}
	}
	return list, nil
}

func outputPath(dir *datadir.Dir, id domain.TurnID) string {
	j, n := id.Split()
	return filepath.Join(dir.Output(), string(j), strconv.Itoa(n))
}

// outputs reads what agents printed: of a turn that runs and of one that ended.
type outputs struct {
	dir    *datadir.Dir
	client *supervisor.Client
}

// open gives the output of a turn; NotFound where there is none.
func (o *outputs) open(id domain.TurnID) (io.ReadSeekCloser, error) {
	paths := []string{outputPath(o.dir, id)}
	if running, err := o.client.Output(id); err == nil {
		paths = append(paths, running)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, domain.Wrap(domain.Unavailable, err, "the output cannot be read")
		}
	}
	return nil, domain.Errorf(domain.NotFound, "there is no output of this turn")
}
