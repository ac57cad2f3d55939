package choose

import (
	"cmp"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Offer says to which clusters a job should be offered.
type Offer struct {
	Job        ares.JobID
	Candidates []Candidate // the lowest cost first; at least one, at most ares.MaxOffered
	// Ahead is true if the job has waited for long and fits nowhere now, according to the summaries. A cluster claims it if it can start the job
	// all the same, or soon.
	Ahead bool
}

// Clusters returns the names of the candidates, the best first.
func (o *Offer) Clusters() []string {
	out := make([]string, len(o.Candidates))
	for i := range out {
		out[i] = o.Candidates[i].Cluster
	}
	return out
}

// Candidate is a cluster that could run a job.
type Candidate struct {
	Cluster string
	Model   string // of the devices that the cost is for, "" for a job without devices
	Fits    bool   // according to its summary, the cluster can start the job now
	Quote   Quote
	Cost    Cost
}

// Decide returns the offers to make now, in the order in which the jobs should start. Jobs with a grant get none. The
// offers count only after the caller has written them and calls SetGrant for each. More says whether to decide again
// at once.
func (c *Chooser) Decide(now time.Time) (offers []Offer, more bool) {
	c.forgetLeft(now)
	plan := engine.Decide(c.state, now)
	c.stops = plan.Stop
	clear(c.ranked)
	held := len(plan.Place)
	for i := range plan.Place {
		if len(offers) == MaxOffers {
			break
		}
		if e := c.jobs[plan.Place[i].Job]; e != nil && e.grant == nil {
			if o := c.shortlist(e); len(o.Candidates) > 0 {
				offers = append(offers, o)
			}
		}
	}
	for i := range offers { // what the offers hold is free again until they are grants
		if wish := c.jobs[offers[i].Job].wish; wish != nil {
			wish.charge(-1)
		}
	}
	more = held > len(offers) && len(offers) == MaxOffers
	ahead := c.openAhead
	for i := range plan.Refuse {
		if ahead >= MaxAhead {
			break
		}
		r := &plan.Refuse[i]
		if e := c.jobs[r.Job]; e != nil && e.job != nil && e.grant == nil && !c.isStopped(r.Job) && now.Sub(e.job.AcceptedAt) >= AheadAfter && waitsForCapacity(r) {
			if o := c.ahead(e); len(o.Candidates) > 0 {
				offers = append(offers, o)
				ahead++
			}
		}
	}
	return offers, more
}

// Stops returns the jobs that the last decision ends without a start: their queue timeout has passed, or one of their
// dependencies can never be met.
func (c *Chooser) Stops() []ares.Stopping { return c.stops }

func (c *Chooser) isStopped(id ares.JobID) bool {
	return slices.ContainsFunc(c.stops, func(s ares.Stopping) bool { return s.Job == id })
}

// waitsForCapacity reports whether only nodes and their capacity keep a job waiting. An order, a quota or a dependency
// is a reason not to start it anywhere.
func waitsForCapacity(r *ares.Refusal) bool {
	for _, b := range r.Blockers {
		if b.Kind != ares.BlockerNodes && b.Kind != ares.BlockerCapacity {
			return false
		}
	}
	return true
}

// shortlist returns the clusters with the lowest cost in which the job fits now. The job holds its slots in the first of
// them during the decision.
func (c *Chooser) shortlist(e *entry) Offer {
	o := Offer{Job: e.job.ID}
	e.wish = nil
	for _, k := range c.candidates(e) {
		if slices.ContainsFunc(o.Candidates, func(other Candidate) bool { return other.Cluster == k.Cluster }) {
			continue // on another model
		}
		f := c.fleet(k.Cluster)
		if !f.mayFit(&e.ask) {
			continue
		}
		parts := f.place(&e.ask, k.Model)
		if parts == nil {
			continue
		}
		k.Fits = true
		if o.Candidates = append(o.Candidates, k); e.wish == nil {
			e.wish = &hold{fleet: f, parts: parts}
			e.wish.charge(+1)
		}
		if len(o.Candidates) == ares.MaxOffered {
			break
		}
	}
	return o
}

// ahead returns the clusters with the lowest cost that could run the job when capacity becomes free.
func (c *Chooser) ahead(e *entry) Offer {
	o := Offer{Job: e.job.ID, Ahead: true}
	e.wish = nil
	for _, k := range c.candidates(e) {
		c.delay(e, &k)
		o.Candidates = append(o.Candidates, k)
	}
	sortCandidates(o.Candidates)
	seen := map[string]bool{}
	o.Candidates = slices.DeleteFunc(o.Candidates, func(k Candidate) bool {
		again := seen[k.Cluster]
		seen[k.Cluster] = true
		return again
	})
	o.Candidates = o.Candidates[:min(len(o.Candidates), ares.MaxOffered)]
	return o
}

// delay adds the usual start delay of the job's class to a candidate that has no free capacity. It is in whole minutes: the
// median of few jobs would tell a user when a job of another tenant started.
func (c *Chooser) delay(e *entry, k *Candidate) {
	delay := c.fleet(k.Cluster).Summary.Class(ares.ClassOf(e.job.PriorityValue())).DelayP50
	k.Quote.StartDelay = max((delay + time.Minute - 1).Truncate(time.Minute), time.Minute)
	k.Cost = k.Quote.Cost()
}

// rankKey has everything that the ranking of a job without hard constraints depends on. During one decision, jobs with
// equal keys share their ranking.
type rankKey struct {
	ask   request
	quote Quote
}

// candidates returns the clusters and models on which the job may run at all, by cost. A cluster occurs once for each
// model; without devices it occurs once. The caller must not change the result.
func (c *Chooser) candidates(e *entry) []Candidate {
	key := rankKey{e.ask, c.quote(e)}
	plain := e.needs.isEmpty() && e.job.Constraints == nil && !c.local[e.job.Tenant]
	if known, ok := c.ranked[key]; plain && ok {
		return known
	}
	out := c.rank(e, key.quote)
	if plain {
		c.ranked[key] = out
	}
	return out
}

// rank returns the candidates of one job.
func (c *Chooser) rank(e *entry, job Quote) []Candidate {
	out := make([]Candidate, 0, len(c.fleets))
	for _, f := range c.fleets {
		if !f.Open || f.Summary == nil || len(c.blockers(e, f)) > 0 {
			continue
		}
		data := job
		c.addData(&data, e, f)
		if e.ask.gpus+e.ask.milli == 0 {
			if !f.hasNodeFor(&e.ask, "") {
				continue
			}
			out = append(out, Candidate{Cluster: f.Name, Quote: data, Cost: data.Cost()})
			continue
		}
		for i := range f.Summary.Models {
			m := &f.Summary.Models[i]
			if !e.ask.wantsModel(m.Name) || int64(m.Devices)*1000 < e.ask.milliGPUs() || !f.hasNodeFor(&e.ask, m.Name) {
				continue
			}
			q := data
			q.PriceMicros, q.RuntimeMilli = m.PriceMicros, int64(m.RuntimeMilli)
			out = append(out, Candidate{Cluster: f.Name, Model: m.Name, Quote: q, Cost: q.Cost()})
		}
	}
	sortCandidates(out)
	return out
}

// sortCandidates sorts by cost. Equal costs are ordered by name, so that every server of the hub ranks alike.
func sortCandidates(all []Candidate) {
	slices.SortFunc(all, func(a, b Candidate) int { return compareCosts(&a, &b) })
}

func compareCosts(a, b *Candidate) int {
	return cmp.Or(cmp.Compare(a.Cost.Total(), b.Cost.Total()), compareNames(a.Cluster, b.Cluster), compareNames(a.Model, b.Model))
}

// quote returns the part of a quote that is the same in all clusters.
func (c *Chooser) quote(e *entry) Quote {
	runtime := c.options.AssumedRuntime
	if p := e.predicted; p != nil && p.Samples > 0 {
		runtime = p.P50
	} else if p, ok := c.state.Forecast(e.job.ID); ok && p.Samples > 0 {
		runtime = p.P50
	} else if limit := e.job.MaxRuntime(); limit > 0 {
		runtime = limit
	}
	return Quote{
		GPUMilliSeconds: e.ask.milliGPUs() * int64(runtime/time.Second), RuntimeMilli: 1000,
		ValueMicros: c.options.ValueMicros[ares.ClassOf(e.job.PriorityValue())],
	}
}

// addData adds what it costs to bring the job's data into a cluster's region.
func (c *Chooser) addData(q *Quote, e *entry, f *fleet) {
	for _, d := range e.needs.Data {
		if d.Home == "" || d.Home == f.Region {
			continue
		}
		price, known := c.egress[d.Home]
		if !known {
			price = c.options.EgressMicros
		}
		q.MissingBytes = add(q.MissingBytes, d.Bytes)
		q.EgressMicros = add(q.EgressMicros, egressCost(d.Bytes, price))
	}
	if c.options.Bandwidth > 0 {
		q.Transfer = time.Duration(product(uint64(c.options.Bandwidth), q.MissingBytes, int64(time.Second)))
	}
}

// blockers returns why a job must not or cannot run in a cluster whatever becomes free there, or nil. They do not include
// what only the size of the cluster forbids.
func (c *Chooser) blockers(e *entry, f *fleet) []Blocker {
	out := e.needs.Blockers(&f.Cluster)
	if c.local[e.job.Tenant] && slices.Contains(f.LocalTenants, e.job.Tenant) {
		out = append(out, Blocker{LocalTenant, "its tenant " + ares.Clip(e.job.Tenant) + " is not that of the hub: it was joined with --local"})
	}
	if e.job.Constraints == nil || f.Summary == nil {
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(e.job.Constraints.NodeSelector)) {
		if value := e.job.Constraints.NodeSelector[key]; !f.Summary.MayHaveLabel(key, value) {
			out = append(out, Blocker{Labels, "no node has the label " + ares.Clip(key) + "=" + ares.Clip(value)})
		}
	}
	return out
}
