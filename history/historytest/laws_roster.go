package historytest

import (
	"encoding/json"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

func aRosterOnlyGrows(t *testing.T, b Base) {
	h := b.Open(t)
	if r, err := h.Roster(t.Context()); r != nil || err != nil {
		t.Errorf("before the first: %+v, %v", r, err)
	}
	for _, version := range []int64{5, 7, 6, 7} {
		clusters := json.RawMessage(`["east"]`)
		if version == 7 {
			clusters = json.RawMessage(`["east","west"]`)
		}
		if err := h.PutRoster(t.Context(), history.Roster{Hub: "mine", Version: version, Clusters: clusters}); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := b.Open(t).Roster(t.Context()); err != nil || r == nil || r.Hub != "mine" || r.Version != 7 || string(r.Clusters) != `["east","west"]` {
		t.Errorf("it has %+v, %v", r, err)
	}
	if err := h.PutRoster(t.Context(), history.Roster{Hub: "yours", Version: 8}); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("another hub is answered %v", err)
	}
}
