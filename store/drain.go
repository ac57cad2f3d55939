package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// Drain asks one attempt of a job to end because the node of the cordon is
// drained, and says whether it did. It compares leadership and that the cordon
// is still the one that was seen, so nothing is stopped for a drain that has
// ended; and it names the attempt, so that the next one, elsewhere, goes on.
func (s *Store) Drain(ctx context.Context, lead *Leadership, id ares.JobID, fence ares.Fence, c ares.Cordon, now time.Time) (asked bool, err error) {
	_, err = s.update(ctx, "drain seat", id, func(j *ares.Job, r *ares.Run) error {
		if asked = r.Fence() == fence && r.Drain(j, &c, now); !asked {
			return errUnchanged
		}
		return nil
	}, lead.and(clientv3.Compare(clientv3.ModRevision(cordonKey(c.Node)), "=", c.Revision)), nil,
		ares.Errorf(ares.Conflict, "the drain of node %s has changed, or this server leads no more", c.Node))
	if _, gone := errors.AsType[archived](err); gone || ares.CodeOf(err) == ares.NotFound {
		return false, nil // it has ended long ago
	}
	return asked && err == nil, err
}
