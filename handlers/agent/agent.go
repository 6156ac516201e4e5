// Package agent runs coding agents. A Runner is one kind of agent; the kinds are
// in packages below this one, and all of them pass the one suite in agenttest.
package agent

import (
	"context"
	"encoding/json"

	"hangar/domain"
	"hangar/domain/turn"
)

// Runner starts agents of one kind and follows them. It keeps no truth of its
// own: what an agent did is in the numbered lines of its turn's journal, read as
// often as one likes, also after the server was started again. All methods may
// be called concurrently and return when ctx ends, whatever the agent does.
type Runner interface {
	// Start begins a turn, and does nothing where it was begun before: the turn's
	// lock and journal are the proof that is looked at first.
	Start(ctx context.Context, a turn.Assignment) error

	// Next waits for the first line numbered above after. It returns turn.ErrLost
	// when the agent is gone and no further line can come, and
	// turn.ErrUnknownTurn when none was ever started here. LineExited is the last.
	Next(ctx context.Context, id domain.TurnID, after int) (turn.Line, error)

	// Answer gives the answer to the turn's ask-th question. Answers are delivered
	// once; a repeat, and one to a question that nobody waits for, do nothing.
	Answer(ctx context.Context, id domain.TurnID, ask int, answer json.RawMessage) error

	// Stop asks the agent to end, and makes it end a little later. The journal's
	// last line tells when it has. A turn that is not running is stopped already.
	Stop(ctx context.Context, id domain.TurnID) error

	// Release says that every line is recorded: what was kept of the turn may go.
	// Its output moves to the file named outputTo first, "" for nowhere.
	Release(ctx context.Context, id domain.TurnID, outputTo string) error
}
