package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// RemoveNode declares that a machine is permanently gone. RemoveNode frees the machine's seats in
// the given jobs. It also deletes the node's record, cordon and score. RemoveNode requires that the
// node has no session and that its record is unchanged. A node that returns in the meantime is
// therefore not removed. An agent with the node's name may join again later, as a new node. The
// returned revision is the revision of the deletion.
func (s *Store) RemoveNode(ctx context.Context, node string, jobs []ares.JobID, force bool, now time.Time) (freed int, revision int64, err error) {
	got, err := s.get(ctx, nodeKey(node))
	if err != nil {
		return 0, 0, err
	}
	seen := int64(0)
	if len(got.Kvs) > 0 {
		seen = got.Kvs[0].ModRevision
	} else if len(jobs) == 0 {
		return 0, 0, ares.Errorf(ares.NotFound, "there is no node %s: list the nodes with `ares node list`", node).At("node_id")
	}
	gone := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(sessionKey(node)), "=", 0),
		clientv3.Compare(clientv3.ModRevision(nodeKey(node)), "=", seen),
	}
	alive := ares.Errorf(ares.Conflict, "node %s is connected: stop its agent first", node)
	for _, id := range jobs {
		n := 0
		_, err = s.update(ctx, "remove node", id, func(j *ares.Job, r *ares.Run) (err error) {
			if n, err = r.ForceRelease(j, node, force, now); err == nil && n == 0 {
				return errUnchanged
			}
			return err
		}, gone, nil, alive)
		if _, tomb := errors.AsType[archived](err); tomb || ares.CodeOf(err) == ares.NotFound {
			continue // all its seats were free when it was archived
		}
		if err != nil {
			return freed, 0, err
		}
		freed += n
	}
	// Delete the node's record last, because a watcher must see the deletion of the cordon and the
	// score first.
	resp, err := s.txn(ctx, "remove node", gone, []clientv3.Op{
		clientv3.OpDelete(cordonKey(node)), clientv3.OpDelete(scoreKey(node)), clientv3.OpDelete(nodeKey(node)),
	}, nil)
	if err == nil && !resp.Succeeded {
		err = alive
	}
	if err != nil {
		return freed, 0, err
	}
	return freed, resp.Header.GetRevision(), nil
}
