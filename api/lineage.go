package api

import (
	"context"
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// lineage finds out whether this store has everything that an agent has seen of
// it. One that has not was put back to an earlier time without raising its
// revisions: it would give fences out a second time.
func (d *AgentDoor) lineage(ctx context.Context, req *apipb.OpenSessionRequest) (store.Identity, error) {
	id, revision, err := d.Store.Identity(ctx)
	if err != nil {
		return id, err
	}
	if req.GetStoreId() != id.Store || req.GetHighestFence() <= revision {
		return id, nil // or it comes from another store, whose revisions say nothing here
	}
	why := ares.Errorf(ares.Unavailable, "node %s has seen revision %d of this store, which is at %d: "+
		"it was put back to an earlier time, and would give fencing tokens out again. "+
		"Stop every server, restore the backup with `ares restore`, which raises the revisions, and start them again",
		clip(req.GetNode().GetNodeId()), req.GetHighestFence(), revision)
	if d.Outrun != nil {
		d.Outrun(why)
	}
	return id, why
}

// clockAhead is how far a node's wall clock is ahead of this server's, 0 when
// the agent does not tell.
func clockAhead(req *apipb.OpenSessionRequest, now time.Time) time.Duration {
	if req.GetWallClock() == nil {
		return 0
	}
	const most = math.MaxInt32 * time.Millisecond // what the record holds
	return max(min(apipb.Time(req.GetWallClock()).Sub(now), most), -most)
}
