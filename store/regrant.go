package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// Regrant is a decision of the hub about a grant that its owner did not ask for: the owner was restored (F5), the hub was
// restored (F6), the owner was declared dead, or its silence lasted too long (F11).
type Regrant struct {
	Job ares.JobID
	Old int64 // epoch of the grant that is replaced, 0 if there is none
	To  RegrantTo
	// Epoch, Cluster and Incarnation are the owner, for RegrantBound and RegrantFinal. Otherwise Cluster may be the
	// owner that is replaced.
	Epoch                int64
	Cluster, Incarnation string
	Exclude              bool      // Cluster has another job with this ID
	Run                  *ares.Run // for RegrantFinal, the owner's run
	Why                  string
	At                   time.Time
}

// RegrantTo is what becomes of a grant.
type RegrantTo string

// The results of a Regrant.
const (
	RegrantBound    RegrantTo = "bound"    // the cluster owns the job under the epoch
	RegrantFinal    RegrantTo = "final"    // the job has ended in the cluster
	RegrantReleased RegrantTo = "released" // no cluster owns the job: it waits, or ends as cancelled, or at_most_once as lost
)

// Regrant replaces a grant. The transaction compares the old grant. If the argument `asking` is not nil, the hub was
// restored and has heard all its members; then the grant may be older than the backup, and so have an epoch that is not the
// revision of its record. A repeated call changes nothing.
func (s *Store) Regrant(ctx context.Context, lead *Leadership, asking *Asking, r Regrant) error {
	_, err := Retry(maxTries, func() (struct{}, error) {
		list, err := s.readGranted(ctx, []jobOfCluster{{job: r.Job}})
		if err != nil {
			return struct{}{}, err
		}
		h := &list[0]
		if (h.asking != 0) != (asking != nil) {
			return struct{}{}, hubAsks()
		}
		writes, err := h.regrant(&r)
		if err != nil || len(writes) == 0 {
			return struct{}{}, err
		}
		cmps := append(h.compareGrant(), h.stillAsking())
		if lead != nil {
			cmps = append(cmps, lead.leads())
		}
		resp, err := s.txn(ctx, "change grant", cmps, writes, []clientv3.Op{clientv3.OpGet(leaderKey)})
		if err != nil {
			return struct{}{}, err
		}
		if !resp.Succeeded {
			if kvs := resp.Responses[0].GetResponseRange().Kvs; lead != nil && (len(kvs) == 0 || kvs[0].CreateRevision != lead.Revision) {
				return struct{}{}, ares.Errorf(ares.Fenced, "this server is no longer the leader")
			}
			return struct{}{}, Conflict{ares.Errorf(ares.Exhausted, "the grant of job %s keeps changing: try again", r.Job)}
		}
		return struct{}{}, nil
	})
	return err
}

// The method `regrant` returns the writes of a Regrant, or none if the job is already as requested.
func (h *hubJob) regrant(r *Regrant) ([]clientv3.Op, error) {
	if h.Job == nil || h.Run.Phase.Final() {
		return nil, nil // the job has ended, and stays so
	}
	current := int64(0)
	if h.grant != nil {
		current = h.grant.Epoch
	}
	switch {
	case r.To == RegrantBound && h.grant != nil && h.grant.IsHeldBy(r.Cluster, r.Incarnation, r.Epoch):
		return nil, nil
	case r.To == RegrantReleased && current == 0 && h.Run.Cluster == "" && r.Old != 0 && h.Run.Epoch >= r.Old:
		return nil, nil // it was released before
	case current != r.Old:
		return nil, ares.Errorf(ares.Fenced, "the grant of job %s has epoch %d, not %d", r.Job, current, r.Old)
	}
	if r.Exclude {
		h.Run.Exclude(r.Cluster)
	}
	grant := clientv3.OpDelete(grantKey(r.Job))
	var err error
	switch r.To {
	case RegrantBound:
		grant, err = h.rebind(r)
	case RegrantFinal:
		h.own(r)
		h.Run.AsOf = 0
		_, err = h.Run.Mirror(&h.base, r.Run)
	case RegrantReleased:
		err = h.release(r)
	}
	if err != nil {
		return nil, err
	}
	run, err := h.putRun()
	return []clientv3.Op{run, grant}, err
}

// rebind makes the cluster of a Regrant the owner.
func (h *hubJob) rebind(r *Regrant) (clientv3.Op, error) {
	g := Grant{State: ares.GrantBound, Epoch: r.Epoch, Cluster: r.Cluster, Incarnation: r.Incarnation, At: r.At}
	h.own(r)
	value, err := marshal(grantRecord(&g, &h.base))
	return clientv3.OpPut(grantKey(r.Job), value), err
}

// own sets the owner in the run. If the job had no owner, the run so far is what happened before it was bound.
func (h *hubJob) own(r *Regrant) {
	if h.grant == nil || h.grant.State != ares.GrantBound {
		h.base = h.Run.Base()
	}
	if h.Run.Cluster != r.Cluster || h.Run.Epoch != r.Epoch {
		h.Run.AsOf = 0
	}
	h.Run.Cluster, h.Run.Epoch = r.Cluster, r.Epoch
}

// The method `release` ends the ownership. After a restore of the hub, a job that waits according to the backup may have had
// an owner that the backup does not know.
func (h *hubJob) release(r *Regrant) error {
	if h.Run.Cluster != "" {
		return h.Run.Unbind(h.Job, true, r.Why, r.At)
	}
	h.Run.Cluster = "unknown"
	err := h.Run.Unbind(h.Job, true, r.Why, r.At)
	h.Run.Cluster = ""
	return err
}
