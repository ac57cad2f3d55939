package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// Drain asks one attempt of a job to stop because its node is being drained. Drain reports whether
// it asked the attempt to stop. Drain fails if another server has become leader or the node's
// cordon has changed. A drain that has ended therefore stops no job. The caller names the attempt,
// so that a later attempt on another node is not stopped.
func (s *Store) Drain(ctx context.Context, lead *Leadership, id ares.JobID, fence ares.Fence, c ares.Cordon, now time.Time) (asked bool, err error) {
	_, err = s.update(ctx, "drain seat", id, func(j *ares.Job, r *ares.Run) error {
		if asked = r.Fence() == fence && r.Drain(j, &c, now); !asked {
			return errUnchanged
		}
		return nil
	}, lead.and(clientv3.Compare(clientv3.ModRevision(cordonKey(c.Node)), "=", c.Revision)), nil,
		ares.Errorf(ares.Conflict, "either the drain of node %s has changed, or this server is no longer the leader", c.Node))
	if _, gone := errors.AsType[archived](err); gone || ares.CodeOf(err) == ares.NotFound {
		return false, nil // the attempt had already ended
	}
	return asked && err == nil, err
}
