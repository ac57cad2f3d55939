package service

import (
	"context"
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// The method `lineage` checks whether this store has reached every revision that an agent has seen.
// If the agent has seen a higher revision than the store has, the store was reset to an earlier
// state. The reset did not raise the store's revision counter. The store would then issue the same
// fencing tokens a second time.
func (d *AgentService) lineage(ctx context.Context, req *apipb.OpenSessionRequest) (store.Identity, error) {
	id, revision, err := d.Store.Identity(ctx)
	if err != nil {
		return id, err
	}
	if req.GetStoreId() != id.Store || req.GetHighestFence() <= revision {
		return id, nil // otherwise the agent comes from another store, whose revisions mean nothing here
	}
	why := ares.Errorf(ares.Unavailable, "node %s has seen revision %d of this store, which is at %d: "+
		"it was put back to an earlier time, and would give fencing tokens out again. "+
		"Stop every server, restore the backup with `ares restore`, which raises the revisions, and start them again",
		ares.Clip(req.GetNode().GetNodeId()), req.GetHighestFence(), revision)
	if d.Outrun != nil {
		d.Outrun(why)
	}
	return id, why
}

// clockAhead returns how far a node's wall clock is ahead of this server's
// clock, or 0 if the agent does not report its time.
func clockAhead(req *apipb.OpenSessionRequest, now time.Time) time.Duration {
	if req.GetWallClock() == nil {
		return 0
	}
	const most = math.MaxInt32 * time.Millisecond // the maximum that fits into the record
	return max(min(apipb.Time(req.GetWallClock()).Sub(now), most), -most)
}
