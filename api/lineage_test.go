package api

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
)

// TestAgentsThatHaveSeenMore checks that the server gives no session to an agent that claims a higher revision
// of this store than the store has, and that the server process is notified of each claim. An agent that
// has seen only another store must be accepted.
func TestAgentsThatHaveSeenMore(t *testing.T) {
	h := newHouse(t)
	var told *ares.Error
	calls := 0
	door := &service.AgentService{
		Store: h.store, View: h.view, Server: "here", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now,
		RevisionClaimed: func(node string, why *ares.Error) {
			if told, calls = why, calls+1; node != "node" {
				t.Errorf("told of node %s", node)
			}
		},
	}
	id, revision, err := h.store.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open := func(store string, fence int64) (*apipb.OpenSessionResponse, error) {
		told = nil
		return door.OpenSession(t.Context(), &apipb.OpenSessionRequest{
			Node: &apipb.NodeInfo{NodeId: "node"}, Instance: "0123456789abcdef", StoreId: store, HighestFence: fence,
			WallClock: timestamppb.New(time.Now().Add(-time.Hour)),
		})
	}
	for _, c := range []struct {
		name  string
		store string
		fence int64
		ok    bool
	}{
		{"knows nothing", "", 0, true},
		{"has seen a part", id.Store, revision, true},
		{"comes from another store", "another", 1 << 60, true},
		{"has seen more", id.Store, 1 << 60, false},
	} {
		resp, err := open(c.store, c.fence)
		if c.ok && (err != nil || told != nil || resp.GetStoreId() != id.Store) {
			t.Errorf("%s: %v, %v, told %v", c.name, resp, err, told)
		}
		if !c.ok && (ares.CodeOf(err) != ares.Fenced || told == nil) {
			t.Errorf("%s: let in: %v, told %v", c.name, err, told)
		}
		// An agent may be wrong, so its word must not lead an administrator to roll the store back.
		if !c.ok && (strings.Contains(err.Error(), "ares restore") || !strings.Contains(err.Error(), "ares doctor")) {
			t.Errorf("%s: the advice is %q", c.name, err)
		}
	}
	if calls != 4 {
		t.Errorf("told %d times", calls)
	}
	must(t, h.view.WaitFor(t.Context(), revision+1))
	if n := h.view.Node("node"); n == nil || n.Node.ClockAhead > -time.Hour || n.Node.ClockAhead < -time.Hour-time.Minute {
		t.Errorf("the node's clock is an hour behind: %+v", n)
	}
}
