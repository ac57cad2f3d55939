package store

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// Offer is a request of the hub's leader to let some clusters claim a waiting job.
type Offer struct {
	Job         ares.JobID
	Clusters    []string  // at most ares.MaxOffered, best first
	RunRevision int64     // revision of the run from which the leader decided; 0 for a job without a stored run
	At          time.Time // of the decision
}

// Offer writes offers. It returns the grants that are now open as requested. An offer of a job that has changed in the
// meantime, that does not wait, or that has another grant is left out. Offer fails if another server has become leader.
func (s *Store) Offer(ctx context.Context, lead *Leadership, offers []Offer) ([]Grant, error) {
	var out []Grant
	for chunk := range slices.Chunk(offers, maxGrantsAtOnce) {
		made, err := s.offerSome(ctx, lead, chunk)
		if err != nil {
			return out, err
		}
		out = append(out, made...)
	}
	return out, nil
}

func (s *Store) offerSome(ctx context.Context, lead *Leadership, offers []Offer) ([]Grant, error) {
	refs := make([]jobOfCluster, len(offers))
	for i := range offers {
		refs[i].job = offers[i].Job
	}
	jobs, err := s.readGranted(ctx, refs)
	if err != nil {
		return nil, err
	}
	var out, made []Grant
	var children []clientv3.Op
	for i := range offers {
		o, h := &offers[i], &jobs[i]
		if h.asking != 0 {
			return nil, hubAsks()
		}
		g := Grant{Job: o.Job, State: ares.GrantOffered, Clusters: o.Clusters, At: o.At}
		switch {
		case !h.isOfferable(o):
		case h.grant == nil:
			value, err := marshal(grantRecord(&g, nil))
			if err != nil {
				return nil, err
			}
			made = append(made, g)
			children = append(children, clientv3.OpTxn(h.compareGrant(), []clientv3.Op{clientv3.OpPut(grantKey(o.Job), value)}, nil))
		case h.grant.State == ares.GrantOffered && slices.Equal(h.grant.Clusters, o.Clusters):
			out = append(out, *h.grant) // the same offer was written before
		}
	}
	resp, err := s.txn(ctx, "offer jobs", []clientv3.Cmp{lead.leads(), clientv3.Compare(clientv3.CreateRevision(askingKey), "=", 0)}, children, nil)
	if err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		return nil, ares.Errorf(ares.Fenced, "this server is no longer the leader, or the hub was restored: its offers were rejected")
	}
	for i := range made {
		if resp.Responses[i].GetResponseTxn().Succeeded {
			made[i].Epoch, made[i].Revision = resp.Header.Revision, resp.Header.Revision
			out = append(out, made[i])
		}
	}
	return out, nil
}

// isOfferable reports whether the job is as the leader saw it, waits, and may be offered to these clusters.
func (h *hubJob) isOfferable(o *Offer) bool {
	if h.Job == nil || h.Run.Revision != o.RunRevision || !h.Run.Phase.Waiting() || h.Run.Stop != nil || h.Run.IsHeld(h.Job) || h.Run.Cluster != "" {
		return false
	}
	excluded := func(c string) bool { return slices.Contains(h.Run.ExcludedClusters, c) }
	return len(o.Clusters) > 0 && len(o.Clusters) <= ares.MaxOffered && !slices.ContainsFunc(o.Clusters, excluded)
}

// Withdraw ends an offer, so that the job can be offered to other clusters. The leader also withdraws the offers of jobs
// that were cancelled. If the offer has ended already, Withdraw changes
// nothing. A job that a cluster has claimed is not taken away from it: Withdraw returns a conflict.
func (s *Store) Withdraw(ctx context.Context, job ares.JobID, epoch int64) error {
	_, _, err := s.changeGrant(ctx, "withdraw offer", jobOfCluster{job: job}, func(h *hubJob) ([]clientv3.Op, error) {
		switch {
		case h.grant == nil || h.grant.Epoch != epoch:
			return nil, nil
		case h.grant.State != ares.GrantOffered:
			return nil, ares.Errorf(ares.Conflict, "job %s is bound to cluster %s, so its offer cannot be withdrawn", job, h.grant.Cluster)
		}
		return []clientv3.Op{clientv3.OpDelete(grantKey(job))}, nil
	})
	return err
}
