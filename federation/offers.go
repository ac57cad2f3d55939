package federation

import (
	"cmp"
	"context"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

type entry = cache.Entry

// Candidate is a cluster that may get an offer.
type Candidate struct {
	store.Cluster

	Summary []byte // the last summary that the cluster sent, nil before the first
	Offers  int    // offers and claims of the cluster that are open
}

const (
	maxOpenOffers = 512 // offers that are open at the same time; offers beyond that would only become outdated
	maxOffersOnce = 64  // offers in one call of the store
	// reofferAfter is how long an unclaimed offer stays open when another choice of clusters would be better.
	reofferAfter = 5 * time.Second
)

// ChooseAny returns every cluster that may run the job, those with the fewest open offers first. It knows nothing of
// capacity: a cluster claims only what it can start soon.
func ChooseAny(job *ares.Job, run *ares.Run, clusters []Candidate) []string {
	list := slices.Clone(clusters)
	slices.SortStableFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Offers, b.Offers), cmp.Compare(a.Name, b.Name))
	})
	var out []string
	for i := range list {
		if IsAllowed(job, run, &list[i].Cluster) {
			out = append(out, list[i].Name)
		}
	}
	return out
}

// IsAllowed reports whether a cluster may run a job at all, whatever its capacity.
func IsAllowed(job *ares.Job, run *ares.Run, c *store.Cluster) bool {
	p := job.Placement()
	switch {
	case !c.Runs(job.Tenant), slices.Contains(run.ExcludedClusters, c.Name), len(p.Clusters) > 0 && !slices.Contains(p.Clusters, c.Name),
		len(p.Regions) > 0 && !slices.Contains(p.Regions, c.Region):
		return false
	}
	return !slices.ContainsFunc(p.Data, func(d ares.DataSet) bool { return d.Region != "" && d.Region != c.Region })
}

// mayBeOffered reports whether a job waits for a cluster, as far as its own records say.
func mayBeOffered(e *entry) bool {
	return e.Run.Phase.Waiting() && e.Run.Stop == nil && e.Run.Cluster == "" && e.Job.ArrayOf == "" && !e.Run.IsHeld(e.Job)
}

// The method `offers` offers waiting jobs to clusters, in the order of their priority and acceptance. It withdraws offers
// that none of their clusters can claim any more.
func (t *term) offers(ctx context.Context) error {
	if t.Chooser != nil {
		if _, err := t.withdrawStale(ctx, nil); err != nil {
			return err
		}
		return t.offerChosen(ctx)
	}
	clusters := t.candidates()
	open, err := t.withdrawStale(ctx, clusters)
	if err != nil || len(clusters) == 0 {
		return err
	}
	var due []*entry
	now := t.Now()
	for id := range t.waiting { // order-free: sorted below
		if e := t.view.Job(id); e != nil && mayBeOffered(e) && t.grant(id) == nil && t.mayStart(e, now) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.Job.PriorityValue(), a.Job.PriorityValue()), cmp.Compare(a.Job.Revision, b.Job.Revision), cmp.Compare(a.Job.ID, b.Job.ID))
	})
	var batch []store.Offer
	for _, e := range due[:min(len(due), max(maxOpenOffers-open, 0))] {
		names := t.choose(e, clusters)
		if len(names) == 0 {
			continue
		}
		for i := range clusters {
			if slices.Contains(names, clusters[i].Name) {
				clusters[i].Offers++
			}
		}
		batch = append(batch, store.Offer{Job: e.Job.ID, Clusters: names, RunRevision: e.Run.Revision, At: now})
		if len(batch) == maxOffersOnce {
			if _, err = t.Store.Offer(ctx, t.lead, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) > 0 {
		_, err = t.Store.Offer(ctx, t.lead, batch)
	}
	return err
}

// The method `choose` returns the best clusters for a job, at most ares.MaxOffered.
func (t *term) choose(e *entry, clusters []Candidate) []string {
	choose := t.Choose
	if choose == nil {
		choose = ChooseAny
	}
	now := t.Now()
	clusters = slices.DeleteFunc(slices.Clone(clusters), func(c Candidate) bool { return e.Run.HasLeft(c.Name, now) })
	names := choose(e.Job, &e.Run, clusters)
	return names[:min(len(names), ares.MaxOffered)]
}

// The method `candidates` returns the clusters that have an open session and may get offers.
func (t *term) candidates() []Candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Candidate
	for name, s := range t.sessions { // order-free: sorted below
		if t.mayGetOffers(name) {
			out = append(out, Candidate{Cluster: t.clusters[name], Summary: s.summary, Offers: len(s.offered)})
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// mayGetOffers reports whether a cluster has an open session and may get offers. The caller holds the term's lock.
func (t *term) mayGetOffers(name string) bool {
	s, c := t.sessions[name], t.clusters[name]
	return s != nil && s.open && c.Decided == store.ClusterReady && !c.Damped && c.Known
}

// withdrawStale withdraws the offers that no connected cluster can claim, and old offers for which other clusters are
// better now. It returns how many offers stay open. The withdrawn jobs are offered again in the same or the next round.
func (t *term) withdrawStale(ctx context.Context, clusters []Candidate) (open int, err error) {
	connected := map[string]bool{}
	t.mu.Lock()
	for name := range t.sessions { // order-free: a set
		connected[name] = t.mayGetOffers(name)
	}
	t.mu.Unlock()
	t.Hub.mu.Lock()
	var stale []*ares.Grant
	open = len(t.open)
	for _, g := range t.open { // order-free: withdrawals are independent
		if !slices.ContainsFunc(g.Clusters, func(c string) bool { return connected[c] }) || t.Now().Sub(g.At) > reofferAfter {
			stale = append(stale, g)
		}
	}
	t.Hub.mu.Unlock()
	for _, g := range stale {
		if slices.ContainsFunc(g.Clusters, func(c string) bool { return connected[c] }) {
			e := t.view.Job(g.Job)
			if t.Chooser != nil && t.Now().Sub(g.At) < refreshAfter || t.Chooser == nil && (e == nil || !t.isBetter(e, g, clusters)) {
				continue
			}
		}
		if err = t.Store.Withdraw(ctx, g.Job, g.Epoch); err != nil {
			return open, err
		}
		open--
	}
	return open, nil
}

// isBetter reports whether a new offer would reach a cluster that the old one does not reach.
func (t *term) isBetter(e *entry, g *ares.Grant, clusters []Candidate) bool {
	for _, name := range t.choose(e, clusters) {
		if !slices.Contains(g.Clusters, name) {
			return true
		}
	}
	return false
}

// The method `tell` tells the members with an open session what a change of a job means for them.
func (t *term) tell(id ares.JobID, e *entry, g *ares.Grant) {
	var of *ares.Tenant
	if e != nil {
		of = t.view.Tenant(e.Job.Tenant)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if q, ok := t.quoted[id]; ok && (g == nil || g.State != ares.GrantOffered || g.Epoch > q.epoch) {
		delete(t.quoted, id)
	}
	for name, s := range t.sessions { // order-free: sessions are independent
		if !s.open {
			continue
		}
		offer := g != nil && e != nil && g.IsOpenTo(name)
		if offer && !t.mayTellOffer(s, of) {
			offer = false
			t.holdOffer(id)
		}
		if was, told := s.offered[id]; told && (!offer || was != g.Epoch) {
			delete(s.offered, id)
			s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Withdrawal{Withdrawal: &apipb.GrantWithdrawal{JobId: string(id), Epoch: was}}})
		}
		if offer && s.offered[id] != g.Epoch {
			data, err := encodeJob(grantedJob(e.Job, &e.Run))
			if err != nil {
				t.Log.Error("a job cannot be offered", "job", id, "error", err)
				continue
			}
			s.offered[id] = g.Epoch
			s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Offer{Offer: &apipb.GrantOffer{
				JobId: string(id), Epoch: g.Epoch, Job: data, Rank: int32(slices.Index(g.Clusters, name)),
			}}})
		}
		if g == nil || e == nil || g.State != ares.GrantBound || g.Cluster != name {
			delete(s.cancelled, id)
			delete(s.returning, id)
			delete(s.returnable, id)
			continue
		}
		t.tellOwner(s, e, g)
	}
}

// tellOwner passes a cancellation on to the owner of a job (F8), and asks a draining cluster to return it.
func (t *term) tellOwner(s *session, e *entry, g *ares.Grant) {
	id := e.Job.ID
	if stop := e.Run.Stop; stop != nil && stop.Why == ares.StopCancel && s.cancelled[id] != g.Epoch {
		s.cancelled[id] = g.Epoch
		s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Cancel{Cancel: &apipb.GrantCancel{
			JobId: string(id), Epoch: g.Epoch, By: stop.By, GraceMs: stop.Grace.Milliseconds(),
		}}})
	}
	t.drainJob(s, e, g)
}

// grantedJob returns the job as a member gets it. The hub has already waited for the job's dependencies and start time: a
// member does not know the other jobs. The hub has also chosen a cluster of the right region: the labels of the member's
// nodes need not name it.
//
// A job that moves keeps what it has used up: the retries of earlier clusters count, and its queue timeout, which is for the
// first start, is over.
func grantedJob(j *ares.Job, r *ares.Run) *ares.Job {
	out := *j
	out.After, out.Start = nil, nil
	if r.Retries > 0 {
		out.Retry.MaxRetries = new(max(j.RetryLimit()-r.Retries, 0))
	}
	if r.Placed > 0 {
		out.MaxQueueMinutes = 0
	}
	if p := j.Placement(); p.Regions != nil {
		p.Regions = nil
		if out.Constraints = &p; p.IsZero() {
			out.Constraints = nil
		}
	}
	return &out
}

// bound returns the message that makes a member create a job that is bound to it.
func (t *term) bound(ref grant.Ref, incarnation string) (*apipb.BoundGrant, error) {
	b := &apipb.BoundGrant{JobId: string(ref.Job), Epoch: ref.Epoch, Incarnation: incarnation, Hub: t.me}
	e := t.view.Job(ref.Job)
	if e == nil {
		return b, nil // the job has ended and was archived: the member reports its end again
	}
	var err error
	b.Job, err = encodeJob(grantedJob(e.Job, &e.Run))
	return b, err
}
