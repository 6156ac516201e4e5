package commands

import (
	"context"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/event"
)

// RecordDenial records that a caller asked for a task that is not its own. It is
// called off the request's path, and rarely: see handlers that call it.
func (c *Commands) RecordDenial(ctx context.Context, o Origin, method string, id domain.TaskID) error {
	_, err := run[nothing](ctx, c, access.DenialsStream(o.Owner), o, func(*nothing) ([]event.Data, error) {
		return []event.Data{access.AccessDenied{Method: method, TaskHash: domain.Sum([]byte(id))}}, nil
	})
	return err
}

// nothing is the fold of a stream that decides nothing.
type nothing struct{}

func (*nothing) Evolve(event.Event) {}
