package service

import (
	"context"
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// The method `lineage` checks whether this store has reached every revision that an agent claims to
// have seen. If the agent claims a higher revision, then either the store was rolled back to an
// earlier state without `ares restore`, or the claim is wrong. In both cases the node gets no
// session, because a fencing token that it knows might be issued a second time. The claim has no
// other effect. Anybody who controls one node could otherwise stop scheduling on all nodes. The
// server recognizes a rollback by its own mark (revision_mark.go in package server).
func (d *AgentService) lineage(ctx context.Context, req *apipb.OpenSessionRequest) (store.Identity, error) {
	id, revision, err := d.Store.Identity(ctx)
	if err != nil {
		return id, err
	}
	if req.GetStoreId() != id.Store || req.GetHighestFence() <= revision {
		d.judged(req, nil) // if the store is another one, the agent's revision means nothing here
		return id, nil
	}
	why := ares.Errorf(ares.Fenced, "node %s reports revision %d of this store, but the store is at revision %d, so the node gets no session. "+
		"Check `ares doctor`: if it reports that the store was rolled back, follow its advice. Otherwise the agent's record of "+
		"the store is wrong: stop the agent, remove the file `store` in its data directory, and start it again",
		ares.Clip(req.GetNode().GetNodeId()), req.GetHighestFence(), revision)
	d.judged(req, why)
	return id, why
}

func (d *AgentService) judged(req *apipb.OpenSessionRequest, refused *ares.Error) {
	if d.RevisionClaimed != nil {
		d.RevisionClaimed(req.GetNode().GetNodeId(), refused)
	}
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
