package api

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
)

// TestAgentsThatHaveSeenMore checks that the server rejects an agent that has seen a higher revision of this
// store than the store now has. The server process must be notified of this. An agent that has seen only
// another store must be accepted.
func TestAgentsThatHaveSeenMore(t *testing.T) {
	h := newHouse(t)
	var told *ares.Error
	door := &service.AgentService{
		Store: h.store, View: h.view, Server: "here", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now, Outrun: func(why *ares.Error) { told = why },
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
		if !c.ok && (ares.CodeOf(err) != ares.Unavailable || told == nil) {
			t.Errorf("%s: let in: %v, told %v", c.name, err, told)
		}
	}
	must(t, h.view.WaitFor(t.Context(), revision+1))
	if n := h.view.Node("node"); n == nil || n.Node.ClockAhead > -time.Hour || n.Node.ClockAhead < -time.Hour-time.Minute {
		t.Errorf("the node's clock is an hour behind: %+v", n)
	}
}
