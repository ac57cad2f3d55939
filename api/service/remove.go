package service

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// RemoveNode implements apipb.ClusterServiceServer.
func (d *clusterService) RemoveNode(ctx context.Context, req *apipb.RemoveNodeRequest) (*apipb.RemoveNodeResponse, error) {
	node := req.GetNodeId()
	if !ares.ValidName(node) {
		return nil, noNode(node)
	}
	revision, err := d.Cfg.Store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	if err = d.Cfg.View.WaitFor(waiting, revision); err != nil {
		return nil, ares.Errorf(ares.Unavailable, "this server has not read the latest changes from the store yet: try again, or use another server")
	}
	var jobs []ares.JobID
	entries, _, _ := d.Cfg.View.SeatsOn(node)
	for _, e := range entries {
		jobs = append(jobs, e.Job.ID)
	}
	if n := d.Cfg.View.Node(node); n != nil {
		pipeline.AuditChange(ctx, "", n.Node, nil)
	}
	freed, gone, err := d.Cfg.Store.RemoveNode(ctx, node, jobs, req.GetForce(), d.Cfg.Now())
	if err != nil {
		return nil, err
	}
	if _, err = d.Cfg.Trust.Revoke(ctx, node, "the node was removed"); err != nil {
		return nil, ares.Errorf(ares.Unavailable, "node %s was removed, but its certificate could not be revoked (%s): revoke it with `ares node revoke %s`", node, err, node)
	}
	d.WaitForView(ctx, gone)
	d.Cfg.Log.Warn("node removed", "node", node, "by", pipeline.CallerName(ctx), "force", req.GetForce(), "seats", freed)
	return &apipb.RemoveNodeResponse{Seats: int32(freed)}, nil
}
