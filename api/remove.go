package api

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// RemoveNode implements apipb.ClusterServiceServer.
func (d *clusterDoor) RemoveNode(ctx context.Context, req *apipb.RemoveNodeRequest) (*apipb.RemoveNodeResponse, error) {
	node := req.GetNodeId()
	if !ares.ValidName(node) {
		return nil, noNode(node)
	}
	revision, err := d.cfg.Store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	if err = d.cfg.View.WaitFor(waiting, revision); err != nil {
		return nil, ares.Errorf(ares.Unavailable, "this server lags behind its store: try again, or ask another")
	}
	var jobs []ares.JobID
	entries, _, _ := d.cfg.View.SeatsOn(node)
	for _, e := range entries {
		jobs = append(jobs, e.Job.ID)
	}
	if n := d.cfg.View.Node(node); n != nil {
		changed(ctx, "", n.Node, nil)
	}
	freed, gone, err := d.cfg.Store.RemoveNode(ctx, node, jobs, req.GetForce(), d.cfg.Now())
	if err != nil {
		return nil, err
	}
	if _, err = d.cfg.Trust.revoke(ctx, node, "the node was removed"); err != nil {
		return nil, ares.Errorf(ares.Unavailable, "node %s was removed, but its certificate was not revoked (%s): do that with `ares node revoke %s`", node, err, node)
	}
	d.seen(ctx, gone)
	d.cfg.Log.Warn("node removed", "node", node, "by", caller(ctx), "force", req.GetForce(), "seats", freed)
	return &apipb.RemoveNodeResponse{Seats: int32(freed)}, nil
}
