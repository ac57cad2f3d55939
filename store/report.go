package store

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// GrantOutcome is what a member reports about a grant.
type GrantOutcome string

// The outcomes of a grant.
const (
	GrantReturned GrantOutcome = "returned" // the member gave the job back
	GrantTaken    GrantOutcome = "taken"    // the member has another job with this ID
	GrantFinal    GrantOutcome = "final"    // the job has ended
)

// Report is a member's word about a job that it owns.
type Report struct {
	Job                  ares.JobID
	Epoch                int64
	Cluster, Incarnation string
	Outcome              GrantOutcome // "" in a Mirror
	Run                  *ares.Run    // the owner's run; needed for final, and optional for returned
	Why                  string       // of returned
	// Moves says, for returned, that the job leaves the cluster for another one: the cluster gets no offer of it for a while.
	Moves bool
	At    time.Time // of the hub's receipt
}

// Report applies the end of a grant (F4). The transaction requires that the grant is bound to this incarnation of the
// cluster under this epoch. A final run ends the job; otherwise the job waits again, or ends if it was cancelled meanwhile
// (F8).
//
// Without an error the member may forget the report: it was applied now or before. The code Fenced means that the grant was
// taken away from the member, which then may forget the report as well. With the code Conflict the member has to say hello.
func (s *Store) Report(ctx context.Context, r Report) error {
	if r.Outcome == GrantFinal && (r.Run == nil || !r.Run.Phase.Final() || r.Run.Phase == ares.Returned) {
		return ares.Errorf(ares.Invalid, "the report that job %s has ended contains no ended run", r.Job)
	}
	_, _, err := s.changeGrant(ctx, "report on a grant", jobOfCluster{job: r.Job}, func(h *hubJob) ([]clientv3.Op, error) {
		if h.Tombstone != nil {
			return nil, nil
		}
		if h.Job == nil {
			return nil, NoJob(r.Job)
		}
		if known, err := h.isReported(&r); known || err != nil {
			return nil, err
		}
		if err := h.applyReport(&r); err != nil {
			return nil, err
		}
		run, err := h.putRun()
		return []clientv3.Op{run, clientv3.OpDelete(grantKey(r.Job))}, err
	})
	return err
}

// isReported compares a report with the grant. It returns true if the report was applied before, and an error if the report
// does not count.
func (h *hubJob) isReported(r *Report) (bool, error) {
	switch g := h.grant; {
	case g != nil && g.IsHeldBy(r.Cluster, r.Incarnation, r.Epoch):
		return false, nil
	case g != nil && g.State == ares.GrantBound && g.Epoch == r.Epoch && g.Cluster == r.Cluster:
		return false, ares.Errorf(ares.Conflict, "the hub knows another incarnation of cluster %s: the cluster must say hello first", r.Cluster)
	case h.Run.Epoch < r.Epoch:
		return false, ares.Errorf(ares.Fenced, "job %s was never granted to cluster %s with epoch %d", r.Job, r.Cluster, r.Epoch)
	case r.Outcome != GrantFinal, h.Run.Phase.Final() && h.Run.Epoch == r.Epoch && h.Run.Cluster == r.Cluster:
		return true, nil
	}
	return false, ares.Errorf(ares.Fenced, "cluster %s no longer owns job %s under epoch %d", r.Cluster, r.Job, r.Epoch)
}

// applyReport changes the run by a report that counts.
func (h *hubJob) applyReport(r *Report) error {
	switch r.Outcome {
	case GrantFinal:
		h.Run.AsOf = min(h.Run.AsOf, r.Run.Revision-1) // the end counts even if the hub has a copy of the same revision
		_, err := h.Run.Mirror(&h.base, r.Run)
		return err
	case GrantTaken:
		h.Run.Exclude(r.Cluster)
		return h.Run.Unbind(h.Job, false, "it has another job with this ID", r.At)
	case GrantReturned:
		if r.Run != nil { // with the usage of its attempts
			last := *r.Run
			last.Phase = ares.Pending
			if _, err := h.Run.Mirror(&h.base, &last); err != nil {
				return err
			}
		}
		if r.Moves {
			h.Run.Leave(r.Cluster, r.At)
		}
		return h.Run.Unbind(h.Job, false, r.Why, r.At)
	}
	return ares.Errorf(ares.Invalid, "%q is no outcome of a grant: use %s, %s or %s", ares.Clip(string(r.Outcome)), GrantReturned, GrantTaken, GrantFinal)
}

// Mirror copies runs of bound jobs that have not ended. A report that does not match the grant, or is older than the copy,
// is left out: copies are for readers, and the next one replaces them.
func (s *Store) Mirror(ctx context.Context, reports []Report) error {
	for chunk := range slices.Chunk(reports, maxGrantsAtOnce) {
		refs := make([]jobOfCluster, len(chunk))
		for i := range chunk {
			refs[i].job = chunk[i].Job
		}
		jobs, err := s.readGranted(ctx, refs)
		if err != nil {
			return err
		}
		var children []clientv3.Op
		for i := range chunk {
			r, h := &chunk[i], &jobs[i]
			if h.asking != 0 {
				return hubAsks()
			}
			if h.Job == nil || h.grant == nil || r.Run == nil || r.Run.Phase.Final() || !h.grant.IsHeldBy(r.Cluster, r.Incarnation, r.Epoch) {
				continue
			}
			compare := h.compareGrant()
			if newer, err := h.Run.Mirror(&h.base, r.Run); err != nil || !newer {
				continue
			}
			run, err := h.putRun()
			if err != nil {
				return err
			}
			children = append(children, clientv3.OpTxn(compare, []clientv3.Op{run}, nil))
		}
		if len(children) == 0 {
			continue
		}
		if _, err = s.txn(ctx, "copy runs", []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(askingKey), "=", 0)}, children, nil); err != nil {
			return err
		}
	}
	return nil
}
