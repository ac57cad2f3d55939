package store

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// Claim is a member's request to own a job that was offered to it.
type Claim struct {
	Job                  ares.JobID
	Epoch                int64
	Cluster, Incarnation string
	At                   time.Time // of the hub's decision
}

// Bound is the answer to a claim: the grant, or why the cluster does not own the job.
type Bound struct {
	Grant

	Err error
}

// Bind lets one cluster own an offered job (F1). The transaction requires that the offer is unchanged and open to the
// cluster, that nobody has cancelled the job, and that the hub has compared its grants with those of this incarnation.
// From then on only the owner gives the job back. A repeated claim gets the same answer.
//
// A claim that lost has the code Fenced: the member forgets it. With the code Conflict, the member has to say hello.
func (s *Store) Bind(ctx context.Context, c Claim) (Grant, error) {
	answer := s.BindAll(ctx, []Claim{c})[0]
	return answer.Grant, answer.Err
}

// BindAll does for each claim what Bind does, in shared transactions: each claim has its own conditions and its own answer, in the
// order of the claims.
func (s *Store) BindAll(ctx context.Context, claims []Claim) []Bound {
	out := make([]Bound, len(claims))
	open := make([]int, len(claims)) // indices of the claims without an answer
	for i := range claims {
		open[i] = i
	}
	for tries := 0; len(open) > 0; {
		var again []int
		for chunk := range slices.Chunk(open, maxGrantsAtOnce) {
			again = append(again, s.bindSome(ctx, claims, chunk, out)...)
		}
		if len(again) == len(open) {
			tries++
		}
		if open = again; tries >= maxTries {
			for _, i := range open {
				out[i].Err = ares.Errorf(ares.Exhausted, "bind job: the grant of job %s keeps changing: try again", claims[i].Job)
			}
			return out
		}
	}
	return out
}

// maxBindBytes limits the records in a transaction of several claims, far below the maximum request size of the store.
const maxBindBytes = 1 << 20

// bindSome answers the claims with the given indices in one transaction. It returns those that it could not answer, because they
// need a transaction of their own, or because something that they depend on has changed.
func (s *Store) bindSome(ctx context.Context, claims []Claim, indices []int, out []Bound) (again []int) {
	fail := func(err error, indices []int) {
		for _, i := range indices {
			out[i].Err = err
		}
	}
	refs := make([]jobOfCluster, len(indices))
	for k, i := range indices {
		refs[k] = jobOfCluster{claims[i].Job, claims[i].Cluster}
	}
	jobs, err := s.readGranted(ctx, refs)
	if err == nil && jobs[0].asking != 0 {
		err = hubAsks()
	}
	if err != nil {
		fail(err, indices)
		return nil
	}
	var written []int // positions in the list of indices
	var children []clientv3.Op
	size, seen := 0, map[ares.JobID]bool{}
	for k, i := range indices {
		h := &jobs[k]
		if seen[h.id] || size > maxBindBytes { // a transaction writes a key only once
			again = append(again, i)
			continue
		}
		writes, err := h.bind(&claims[i])
		switch {
		case err != nil:
			out[i].Err = err
		case len(writes) == 0:
			out[i].Grant = h.boundAt(h.Snapshot.Revision)
		default:
			seen[h.id] = true
			for _, w := range writes {
				size += len(w.ValueBytes())
			}
			written = append(written, k)
			children = append(children, clientv3.OpTxn(append(h.compareGrant(), h.stillAsking(), h.compareCluster()), writes, nil))
		}
	}
	if len(children) == 0 {
		return again
	}
	// A hub without a leader binds nothing. After a rollback was recorded, there is no leader, and the epoch of an offer may be
	// one that was bound before (see NoteRollback).
	resp, err := s.txn(ctx, "bind jobs", []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(leaderKey), ">", 0)}, children, nil)
	if err == nil && !resp.Succeeded {
		err = ares.Errorf(ares.Unavailable, "this hub has no leader: try again later")
	}
	for n, k := range written {
		switch i := indices[k]; {
		case err != nil:
			out[i].Err = err
		case resp.Responses[n].GetResponseTxn().Succeeded:
			out[i].Grant = jobs[k].boundAt(resp.Header.Revision)
		default:
			again = append(again, i)
		}
	}
	return again
}

// The method `bind` decides a claim. It returns the writes that make the cluster the owner, and none if it owns the job already.
func (h *hubJob) bind(c *Claim) ([]clientv3.Op, error) {
	if h.Job == nil || h.grant == nil || h.grant.Epoch != c.Epoch {
		return nil, ares.Errorf(ares.Fenced, "the offer %d of job %s has ended", c.Epoch, c.Job)
	}
	if err := h.cluster.mayClaim(c.Incarnation); err != nil {
		return nil, err
	}
	switch {
	case h.grant.IsHeldBy(c.Cluster, c.Incarnation, c.Epoch):
		return nil, nil
	case h.grant.State == ares.GrantBound:
		return nil, ares.Errorf(ares.Fenced, "another cluster owns job %s", c.Job)
	case !h.grant.IsOpenTo(c.Cluster):
		return nil, ares.Errorf(ares.Fenced, "job %s is not offered to cluster %s", c.Job, c.Cluster)
	}
	base := h.Run.Base()
	if err := h.Run.Bind(c.Cluster, c.Epoch, c.At); err != nil {
		return nil, ares.Errorf(ares.Fenced, "job %s cannot be bound: %v", c.Job, err)
	}
	run, err := h.putRun()
	if err != nil {
		return nil, err
	}
	h.grant.State, h.grant.Clusters, h.grant.Cluster, h.grant.Incarnation, h.grant.At = ares.GrantBound, nil, c.Cluster, c.Incarnation, c.At
	value, err := marshal(grantRecord(h.grant, &base))
	return []clientv3.Op{clientv3.OpPut(grantKey(c.Job), value), run}, err
}

// boundAt returns the grant after a transaction at a revision, which is that of the read if nothing was written.
func (h *hubJob) boundAt(revision int64) Grant {
	if h.grant.Revision == 0 || revision > h.Snapshot.Revision {
		h.grant.Revision = revision
	}
	return *h.grant
}

// mayClaim returns an error unless this incarnation of the cluster may own jobs.
func (c *Cluster) mayClaim(incarnation string) error {
	switch {
	case c.Revision == 0 || !c.MayOwn():
		return ares.Errorf(ares.Fenced, "cluster %s is not a member of this hub: join it with `ares join --global`", c.Name)
	case !c.Known:
		return ares.Errorf(ares.Fenced, "the name of cluster %s is not stored outside the hub yet", c.Name)
	case c.Incarnation != incarnation || c.Reconciling:
		return ares.Errorf(ares.Conflict, "the hub has not yet compared its grants with those of this incarnation of cluster %s: the cluster must say hello first", c.Name)
	}
	return nil
}
