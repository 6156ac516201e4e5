package commands

import (
	"context"
	"slices"

	"hangar/domain"
	"hangar/domain/audit"
	"hangar/domain/event"
)

// OpenLog makes sure that the log's first record is there, and that the server
// holds one of the secrets the log was written under.
func (c *Commands) OpenLog(ctx context.Context, storeID string, secrets []domain.Secret) error {
	keys := make([]string, len(secrets))
	for i, s := range secrets {
		keys[i] = s.ID()
	}
	l, err := create[audit.State](ctx, c, audit.Stream, Origin{ID: domain.DerivedCommand(storeID, "open")},
		audit.StoreOpened{StoreID: storeID, KeyID: keys[0]})
	if err != nil {
		return err
	}
	if len(l.state.KeyIDs) == 0 {
		return domain.Errorf(domain.Conflict, "the log does not begin with StoreOpened: it is not one of hangar's, or it was damaged; `hangar audit verify` says where")
	}
	newest := l.state.KeyIDs[len(l.state.KeyIDs)-1]
	if !slices.Contains(keys, newest) {
		return domain.Errorf(domain.Conflict, "the log was written under the server secret %s, and this server holds %s: "+
			"put the right one into secret.key or HANGAR_SECRET, or run `hangar secret rotate --lost` if it is gone for good", newest, keys[0])
	}
	if newest != keys[0] {
		return c.RotateSecret(ctx, secrets[0], false)
	}
	return nil
}

// RotateSecret records that another secret is the newest.
func (c *Commands) RotateSecret(ctx context.Context, s domain.Secret, lost bool) error {
	_, err := run[audit.State](ctx, c, audit.Stream, Origin{ID: c.NewID()}, func(st *audit.State) ([]event.Data, error) {
		if n := len(st.KeyIDs); n > 0 && st.KeyIDs[n-1] == s.ID() {
			return nil, nil
		}
		return []event.Data{audit.SecretRotated{KeyID: s.ID(), Lost: lost}}, nil
	})
	return err
}

// RecordFailure records that what should follow from an event keeps failing.
func (c *Commands) RecordFailure(ctx context.Context, f audit.ReactionFailed) error {
	f.Reason = clip(c.redactor.Text(f.Reason), 1<<10)
	_, err := run[audit.State](ctx, c, audit.Stream, Origin{ID: c.NewID()}, func(*audit.State) ([]event.Data, error) {
		return []event.Data{f}, nil
	})
	return err
}

// RecordRebuild records that a view was built from the log again.
func (c *Commands) RecordRebuild(ctx context.Context, view, reason string) error {
	_, err := run[audit.State](ctx, c, audit.Stream, Origin{ID: c.NewID()}, func(*audit.State) ([]event.Data, error) {
		return []event.Data{audit.ProjectionRebuilt{View: view, Reason: reason}}, nil
	})
	return err
}
