package federation

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/store"
)

// A job that a cluster owns goes to another cluster only if its owner gives it back (F2, F3). The owner says which jobs it would
// give back: those that would not start there soon, and those that have failed there repeatedly. The hub asks for such a job if
// it knows another cluster that could run it. Without one, the job stays where it is: its place in the queue there is worth
// more than a new offer to the same cluster.

// A returnOffer is a member's word that it would give a job back.
type returnOffer struct {
	epoch int64
	why   string
	at    time.Time // of its arrival
}

// returnOfferLife is how long the hub believes a returnOffer. The member repeats it while it holds.
const returnOfferLife = 3 * returnOfferEvery

// A returnAsked says for which state of a job the owner was asked to return it. When the job was placed again since, the owner
// is asked again: it has refused while an attempt was under way.
type returnAsked struct {
	epoch  int64
	placed int
	stop   bool
}

// askReturn asks the owner of a job to return it, unless it was asked already. The caller holds the term's lock.
func (s *session) askReturn(e *entry, g *ares.Grant, why string, stop bool) {
	id, ask := e.Job.ID, returnAsked{g.Epoch, e.Run.Placed, stop}
	if s.returning[id] == ask {
		return
	}
	s.returning[id] = ask
	s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_ReturnRequest{ReturnRequest: &apipb.ReturnRequest{
		JobId: string(id), Epoch: g.Epoch, Reason: why, Stop: stop,
	}}})
}

// drainJob asks a draining cluster to return a job: one that waits, and also one that runs if the drain stops jobs. The caller
// holds the term's lock.
func (t *term) drainJob(s *session, e *entry, g *ares.Grant) {
	c := t.clusters[g.Cluster]
	if c.Decided != store.ClusterDraining {
		return
	}
	stop := c.Stops && e.Run.IsMovable(e.Job)
	if stop || e.Run.Phase.Waiting() {
		s.askReturn(e, g, "cluster "+g.Cluster+" is drained", stop)
	}
}

// noteReturnable notes that the member would give a job back that it holds. If the view does not show the grant yet, the member
// will say it again.
func (s *session) noteReturnable(m *apipb.ReturnOffer) {
	id := ares.JobID(m.GetJobId())
	if g := s.t.grant(id); g == nil || !g.IsHeldBy(s.hello.Cluster, m.GetIncarnation(), m.GetEpoch()) {
		return
	}
	s.t.mu.Lock()
	s.returnable[id] = returnOffer{m.GetEpoch(), ares.Clip(m.GetReason()), time.Now()}
	s.t.offersBack = true
	s.t.mu.Unlock()
	wake(s.t.changed)
}

// getsOffers reports whether an administrator lets the hub offer jobs to a cluster.
func (t *term) getsOffers(cluster string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clusters[cluster].Decided == store.ClusterReady
}

// A returnable is a job that its owner would give back.
type returnable struct {
	s     *session
	id    ares.JobID
	offer returnOffer
	e     *entry
	g     *ares.Grant
}

// askForReturns asks for the jobs that their owners would give back and that another cluster could run. A look costs the chooser
// time, so it is taken only once in an interval, and when an owner has made another offer.
func (t *term) askForReturns(due bool) {
	t.mu.Lock()
	due = due || t.offersBack
	t.offersBack = false
	t.mu.Unlock()
	if !due {
		return
	}
	all := t.returnables()
	if len(all) == 0 {
		return
	}
	clusters := t.candidates()
	for i := range all {
		if r := &all[i]; t.hasOther(r, clusters) {
			t.mu.Lock()
			r.s.askReturn(r.e, r.g, r.offer.why, false)
			delete(r.s.returnable, r.id)
			t.mu.Unlock()
		}
	}
}

// returnables returns the offers to give jobs back that count now, and forgets the others.
func (t *term) returnables() []returnable {
	var all []returnable
	t.mu.Lock()
	for _, s := range t.sessions { // order-free: sorted below
		for id, o := range s.returnable { // order-free: sorted below
			if !s.open || time.Since(o.at) > returnOfferLife {
				delete(s.returnable, id)
			} else {
				all = append(all, returnable{s: s, id: id, offer: o})
			}
		}
	}
	t.mu.Unlock()
	for i := range all { // without the lock: a change of the view waits for the chooser, and the chooser for the lock
		all[i].e, all[i].g = t.view.Job(all[i].id), t.grant(all[i].id)
	}
	all = slices.DeleteFunc(all, func(r returnable) bool {
		return r.e == nil || r.g == nil || r.g.Epoch != r.offer.epoch || r.g.Cluster != r.s.hello.Cluster || r.e.Run.Stop != nil
	})
	slices.SortFunc(all, func(a, b returnable) int { return cmp.Compare(a.e.Job.Revision, b.e.Job.Revision) })
	return all[:min(len(all), maxOffersOnce)]
}

// hasOther reports whether another cluster than the owner gets offers and could run the job, now or later.
func (t *term) hasOther(r *returnable, clusters []Candidate) bool {
	now := t.Now()
	mayGet := func(name string) bool { return name != r.g.Cluster && !r.e.Run.HasLeft(name, now) }
	if t.Chooser == nil {
		return slices.ContainsFunc(clusters, func(c Candidate) bool { return mayGet(c.Name) && IsAllowed(r.e.Job, &r.e.Run, &c.Cluster) })
	}
	t.choosing.Lock()
	defer t.choosing.Unlock()
	verdicts := t.Chooser.Explain(r.e.Job, &r.e.Run, nil)
	return slices.ContainsFunc(verdicts, func(v choose.Verdict) bool { return v.Best != nil && mayGet(v.Cluster) })
}
