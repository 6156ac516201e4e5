package audit_test

import (
	"fmt"
	"slices"
	"testing"

	"hangar/domain/audit"
	"hangar/domain/event"
)

func TestTheLogsOwnState(t *testing.T) {
	var s audit.State
	data := []event.Data{audit.StoreOpened{StoreID: "s", KeyID: "k1"}, audit.ProjectionRebuilt{View: "jobs"}, audit.SecretRotated{KeyID: "k2"}}
	for i := range 250 {
		data = append(data, audit.ReactionFailed{Subject: fmt.Sprint(i)})
	}
	for i, d := range data {
		s.Evolve(event.Event{Revision: int64(i), Data: d})
	}
	if s.StoreID != "s" || !slices.Equal(s.KeyIDs, []string{"k1", "k2"}) || s.Revision != int64(len(data)-1) {
		t.Errorf("the log is %s under %v at %d", s.StoreID, s.KeyIDs, s.Revision)
	}
	if n := len(s.Failed); n != 100 || s.Failed[0].Subject != "150" || s.Failed[n-1].Subject != "249" {
		t.Errorf("of 250 failures it remembers %d, from %v on", n, s.Failed[0])
	}
}
