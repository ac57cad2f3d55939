package sim

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/forecast"
)

const (
	// summaryEvery is the least time between two summaries of a cluster.
	summaryEvery = time.Second
	// offerLasts is how long an offer is open that nobody claims; a longer time for an offer ahead.
	offerLasts = 2 * time.Second
	aheadLasts = time.Minute
)

// regionHub is the hub. It uses the same package as a server to choose clusters.
type regionHub struct {
	of         *federation
	chooser    *choose.Chooser
	forecaster *forecast.Forecaster // nil unless the policy predicts runtimes
	asks       []forecast.Features
	predicted  []ares.RuntimePredicted
	tenants    map[string]bool
	ids        map[ares.JobID]int
	auctions   map[int]*regionOffer
	dirty      bool
}

// regionOffer is an offer of a job with its auction. The number tells apart the offers of one job.
type regionOffer struct {
	number  int
	job     int
	offer   choose.Offer
	auction *choose.Auction
	open    bool
}

func hubJobID(job int) ares.JobID { return ares.JobID(fmt.Sprintf("hub-%07d", job)) }

func newRegionHub(s *federation) *regionHub {
	h := &regionHub{of: s, tenants: map[string]bool{}, ids: map[ares.JobID]int{}, auctions: map[int]*regionOffer{}}
	o := choose.Default()
	o.Needs = func(j *ares.Job) choose.Needs {
		job := &s.jobs[h.ids[j.ID]]
		n := choose.Needs{Data: []choose.Data{{URI: "data", Home: s.regions[job.data.home].name, Bytes: job.data.bytes, Resident: job.data.resident}}}
		if job.data.bytes == 0 {
			n.Data = nil
		}
		return n
	}
	h.chooser = choose.New(s.policy.Engine, o)
	h.chooser.Apply(ares.Batch{Reset: true, At: s.now})
	if s.policy.Estimate == EstimateForecast {
		h.forecaster = forecast.New(forecast.Config{})
	}
	for _, m := range s.members {
		h.receive(m.index, summary.Of(m.world.state, m.terms(), s.now))
	}
	return h
}

// terms are the prices of a cluster.
func (m *regionMember) terms() *summary.Terms {
	return &summary.Terms{PriceMicros: map[string]int64{"": m.of.regions[m.index].price}, EgressMicros: egressMicros}
}

// sendSummary sends a summary to the hub, at most one a second. The summary is made when it is sent.
func (m *regionMember) sendSummary() {
	if m.due {
		return
	}
	m.due = true
	s := m.of
	wait := max(m.lastSent.Add(summaryEvery).Sub(s.now), 0)
	s.send(wait, func() {
		m.due, m.lastSent = false, s.now
		made := summary.Of(m.world.state, m.terms(), s.now)
		s.send(s.regions[m.index].roundTrip/2, func() { s.hub.receive(m.index, made) })
	})
}

// receive handles a summary.
func (h *regionHub) receive(member int, made *summary.Summary) {
	made.Tenants = nil // all jobs are the hub's
	r := &h.of.regions[member]
	h.chooser.SetCluster(choose.Cluster{Name: r.name, Region: r.name, Open: true, Summary: made}, h.of.now)
	h.dirty = true
}

// submit accepts a job.
func (h *regionHub) submit(job int) {
	j := &h.of.jobs[job]
	id := hubJobID(job)
	h.ids[id] = job
	spec := j.arrival.Spec.WithDefaults()
	b := ares.Batch{At: h.of.now}
	if !h.tenants[spec.Tenant] {
		h.tenants[spec.Tenant] = true
		b.Events = append(b.Events, ares.Event{Tenant: &ares.Tenant{ID: spec.Tenant, Limits: ares.NoLimits()}})
	}
	made := &ares.Job{ID: id, Spec: spec, AcceptedAt: h.of.now, Revision: int64(job + 1), Owner: j.arrival.Owner, Trusted: true}
	b.Events = append(b.Events, ares.Event{Job: made})
	if h.forecaster != nil {
		ask := forecast.FeaturesOf(made)
		p := h.forecaster.Predict(ask)
		record := p.Record(id)
		for len(h.asks) <= job {
			h.asks, h.predicted = append(h.asks, forecast.Features{}), append(h.predicted, ares.RuntimePredicted{})
		}
		h.asks[job], h.predicted[job] = ask, record
		b.Events = append(b.Events, ares.Event{Forecast: &record})
	}
	h.chooser.Apply(b)
	h.dirty = true
}

// ended handles the report that a job has ended.
func (h *regionHub) ended(job int) {
	if h.forecaster != nil {
		h.forecaster.Observe(forecast.Run{Features: h.asks[job], Took: h.of.jobs[job].arrival.Runs, Outcome: forecast.Ended, Predicted: forecast.Recorded(h.predicted[job])})
	}
	h.chooser.Apply(ares.Batch{At: h.of.now, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindJob, ID: string(hubJobID(job))}}}})
	delete(h.ids, hubJobID(job))
	h.dirty = true
}

// decide makes offers until there are no more to make.
func (h *regionHub) decide() {
	for more := h.dirty; more; {
		h.dirty = false
		var offers []choose.Offer
		offers, more = h.chooser.Decide(h.of.now)
		more = more && len(offers) > 0
		for _, o := range offers {
			if h.of.choose == ChooseSummary && o.Ahead {
				continue
			}
			h.chooser.SetGrant(o.Job, o.Clusters(), h.of.now)
			h.offer(h.ids[o.Job], o)
		}
	}
}

// offer sends an offer to its clusters. Without bids, the job is bound to the best of them at once.
func (h *regionHub) offer(job int, o choose.Offer) {
	if h.of.choose == ChooseSummary {
		h.bind(job, h.member(o.Candidates[0].Cluster))
		return
	}
	h.of.sent++
	a := &regionOffer{number: h.of.sent, job: job, offer: o, auction: choose.NewAuction(o), open: true}
	h.auctions[job] = a
	for _, name := range o.Clusters() {
		m := h.of.members[h.member(name)]
		h.of.send(h.of.regions[m.index].roundTrip/2, func() {
			m.offers[job] = a
			h.look(m, a)
		})
	}
	lasts := offerLasts
	if o.Ahead {
		lasts = aheadLasts
	}
	h.of.send(lasts, func() { h.expire(a) })
}

// member returns the index of a cluster.
func (h *regionHub) member(name string) int {
	return slices.IndexFunc(h.of.regions, func(r region) bool { return r.name == name })
}

// expire withdraws an offer that nobody has claimed.
func (h *regionHub) expire(a *regionOffer) {
	if a.open && a.auction.Closes().IsZero() {
		h.close(a)
		h.chooser.ClearGrant(hubJobID(a.job), h.of.now)
		h.dirty = true
	}
}

// close ends an auction and withdraws its offers.
func (h *regionHub) close(a *regionOffer) {
	a.open = false
	delete(h.auctions, a.job)
	for _, name := range a.offer.Clusters() {
		m := h.of.members[h.member(name)]
		h.of.send(h.of.regions[m.index].roundTrip/2, func() {
			if m.offers[a.job] == a {
				delete(m.offers, a.job)
			}
		})
	}
}

// bind binds a job to a cluster.
func (h *regionHub) bind(job, member int) {
	h.chooser.SetGrant(hubJobID(job), []string{h.of.regions[member].name}, h.of.now)
	m := h.of.members[member]
	h.of.send(h.of.regions[member].roundTrip/2, func() {
		m.dropClaim(job)
		m.submit(job)
		// The job is in the cluster's next summary, so its hold at the hub ends with that.
		h.of.send(summaryEvery, func() { h.of.send(h.of.regions[member].roundTrip/2, func() { h.mirror(job, member) }) })
	})
}

// mirror copies the run of a job that has started, so that the job counts for its tenant and no longer holds the capacity
// that the summary shows as taken.
func (h *regionHub) mirror(job, member int) {
	if _, known := h.ids[hubJobID(job)]; !known {
		return
	}
	m := h.of.members[member]
	local := slices.Index(m.jobOf, job)
	run, ok := m.world.state.Run(jobID(local))
	if !ok {
		return
	}
	run.Cluster = h.of.regions[member].name
	if run.Current() == nil { // it waits in the cluster
		h.of.send(summaryEvery, func() { h.mirror(job, member) })
		return
	}
	h.chooser.Apply(ares.Batch{At: h.of.now, Events: []ares.Event{{Run: &ares.RunEvent{Job: hubJobID(job), Run: run}}}})
	h.dirty = true
}

// lookAtOffers looks at all open offers of a cluster whose capacity has changed.
func (h *regionHub) lookAtOffers(m *regionMember) {
	if len(m.offers) == 0 {
		return
	}
	open := make([]*regionOffer, 0, len(m.offers))
	for _, a := range m.offers {
		open = append(open, a)
	}
	slices.SortFunc(open, func(a, b *regionOffer) int { return a.number - b.number })
	for _, a := range open {
		h.look(m, a)
	}
}

// look claims an offer if the cluster could start the job now. A claimed job holds its seats until the hub answers.
func (h *regionHub) look(m *regionMember, a *regionOffer) {
	if m.waiting > 0 {
		return // jobs that are bound come first
	}
	spec := h.of.jobs[a.job].arrival.Spec.WithDefaults()
	id := claimID(a.job)
	job := &ares.Job{ID: id, Spec: spec, AcceptedAt: h.of.now, Trusted: true}
	placing, refusal := engine.Place(m.world.state, job, h.of.now)
	if refusal != nil {
		return
	}
	run := ares.NewRun(h.of.now)
	mustTransition(placing.Apply(&run, h.of.now))
	m.world.now = h.of.now
	m.world.batch = append(m.world.batch, ares.Event{Job: job}, ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
	m.world.flush()
	delete(m.offers, a.job)
	name, trip := h.of.regions[m.index].name, h.of.regions[m.index].roundTrip/2
	h.of.send(trip, func() { h.claim(a, choose.Bid{Cluster: name, StartsAt: h.of.now, Score: placing.Score}) })
}

func claimID(job int) ares.JobID { return ares.JobID(fmt.Sprintf("claim-%07d", job)) }

// dropClaim frees the seats of a claim.
func (m *regionMember) dropClaim(job int) {
	if _, ok := m.world.state.Job(claimID(job)); ok {
		m.world.now = m.of.now
		m.world.batch = append(m.world.batch, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(claimID(job))}})
		m.world.flush()
		m.changed = true
	}
}

// claim handles a claim. The claim of a closed auction is refused.
func (h *regionHub) claim(a *regionOffer, b choose.Bid) {
	if !a.open {
		h.refuse(a, b.Cluster)
		return
	}
	first := a.auction.Closes().IsZero()
	a.auction.Add(b, h.of.now)
	if !h.settle(a) && first {
		h.of.send(choose.BidWindow, func() { h.settle(a) })
	}
}

// refuse answers a claim that has not won.
func (h *regionHub) refuse(a *regionOffer, cluster string) {
	m := h.of.members[h.member(cluster)]
	h.of.send(h.of.regions[m.index].roundTrip/2, func() { m.dropClaim(a.job) })
}

// settle binds the job if its auction has ended.
func (h *regionHub) settle(a *regionOffer) bool {
	if !a.open {
		return true
	}
	b, ok := a.auction.Winner(h.of.now)
	if !ok {
		return false
	}
	for _, other := range a.auction.Bids() {
		if other.Cluster != b.Cluster {
			h.refuse(a, other.Cluster)
		}
	}
	h.close(a)
	h.bind(a.job, h.member(b.Cluster))
	return true
}

// askAll asks every cluster for a bid when a job arrives, and binds the job to the best one. A cluster that cannot start
// the job now bids the time in which all its devices would finish the work that waits there.
func (s *federation) askAll(job int) {
	j := &s.jobs[job]
	var asked []int
	longest := time.Duration(0)
	for i := range s.regions {
		if j.mayRun(i) {
			asked = append(asked, i)
			longest = max(longest, s.regions[i].roundTrip)
		}
	}
	starts := make([]time.Duration, len(s.regions))
	for _, i := range asked {
		m := s.members[i]
		s.send(s.regions[i].roundTrip/2, func() {
			starts[i] = m.backlog()
			spec := j.arrival.Spec.WithDefaults()
			if _, refusal := engine.Place(m.world.state, &ares.Job{ID: claimID(job), Spec: spec, AcceptedAt: s.now, Trusted: true}, s.now); refusal == nil && m.waiting == 0 {
				starts[i] = 0
			} else {
				starts[i] = max(starts[i], time.Second)
			}
		})
	}
	s.send(longest, func() {
		best := s.pick(j, func(i int) float64 { // the cost of a job, as in package choose
			q := choose.Quote{GPUMilliSeconds: int64(j.work()), RuntimeMilli: 1000, PriceMicros: s.regions[i].price, StartDelay: starts[i], ValueMicros: choose.Default().ValueMicros[ares.Normal]}
			if i != j.data.home && j.data.bytes > 0 {
				q.EgressMicros = int64(float64(j.data.bytes) / (1 << 30) * egressMicros)
			}
			return float64(q.Cost().Total())
		})
		s.bindTo(best, job)
	})
}

// backlog is the time in which all devices of the cluster would finish the work that waits.
func (m *regionMember) backlog() time.Duration {
	return time.Duration(m.work / 1000 / float64(max(m.world.gpus, 1)) * float64(time.Second))
}
