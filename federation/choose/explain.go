package choose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Blocker is one reason why a cluster does not start a job.
type Blocker struct {
	Kind   BlockerKind
	Detail string // a part of a sentence about the cluster, "it"
}

// BlockerKind is the kind of a Blocker. The caller of SetCluster adds the states in which a cluster gets no offers.
type BlockerKind string

// These are the kinds of blockers. Capacity is the only one after which a cluster gets offers all the same.
const (
	Excluded    BlockerKind = "excluded"       // the cluster has refused the job
	GaveBack    BlockerKind = "returned"       // the cluster gave the job back lately
	NotListed   BlockerKind = "cluster"        // the job lists other clusters
	WrongRegion BlockerKind = "region"         // the job lists other regions
	Residency   BlockerKind = "residency"      // data of the job must stay in another region
	LocalTenant BlockerKind = "tenant"         // the cluster runs no jobs of the tenant for the hub
	Labels      BlockerKind = "labels"         // no node has a label that the job requires
	NoSummary   BlockerKind = "no_summary"     // the hub does not know the capacity of the cluster
	NoModel     BlockerKind = "model"          // the cluster has no devices of the model
	TooSmall    BlockerKind = "too_small"      // the cluster, or each of its nodes, is too small
	Capacity    BlockerKind = "capacity"       // what the job needs is not free now
	NoOffers    BlockerKind = "gets_no_offers" // the cluster gets no offers, for a reason that the hub has not given
)

// Verdict says what the chooser thinks of one cluster for a job.
type Verdict struct {
	Cluster string
	Region  string
	// Rank is the place of the cluster in the offer that the hub would make now, from 1. It is 0 if the job would not be offered to
	// the cluster.
	Rank int
	// Blockers say why the job does not start there now. If Best is set, there is at most one, of the kind Capacity.
	Blockers []Blocker
	Best     *Candidate // on the model with the lowest cost; nil if the job cannot run there
}

// String is the verdict in one sentence.
func (v Verdict) String() string {
	switch {
	case v.Best == nil:
		details := make([]string, len(v.Blockers))
		for i := range v.Blockers {
			details[i] = v.Blockers[i].Detail
		}
		return v.Cluster + ": " + strings.Join(details, "; ")
	case v.Best.Fits:
		return fmt.Sprintf("%s: can start now, cost %s", v.Cluster, v.Best.Cost)
	}
	return fmt.Sprintf("%s: no free capacity, cost %s", v.Cluster, v.Best.Cost)
}

// Explain returns a verdict on every cluster: first the ones to which the hub would offer the job, the best first, then the others
// that could run it, by cost, and then the rest, by name. The run is nil if the job is only planned. The prediction is nil if
// there is none, or if the chooser has got it with the records of the job.
func (c *Chooser) Explain(job *ares.Job, run *ares.Run, predicted *ares.RuntimePredicted) []Verdict {
	clear(c.ranked)
	e := &entry{job: job, run: run, predicted: predicted, needs: c.options.Needs(job), ask: requestOf(job)}
	if run != nil {
		e.needs.Excluded = run.ExcludedClusters
		if known := c.jobs[job.ID]; known != nil {
			e.needs.Left = known.needs.Left
		}
		if known := c.jobs[job.ID]; known != nil && known.grant != nil { // what an offer of the job holds is free for the job
			known.grant.charge(-1)
			defer known.grant.charge(+1)
		}
	}
	best := map[string]Candidate{}
	for _, k := range c.candidates(e) {
		if f := c.fleet(k.Cluster); f.mayFit(&e.ask) && f.place(&e.ask, k.Model) != nil {
			k.Fits = true
		} else {
			c.delay(e, &k)
		}
		if old, ok := best[k.Cluster]; !ok || compareCandidates(&k, &old) < 0 {
			best[k.Cluster] = k
		}
	}
	out := make([]Verdict, 0, len(c.fleets))
	for _, f := range c.fleets {
		v := Verdict{Cluster: f.Name, Region: f.Region}
		if k, ok := best[f.Name]; !ok {
			v.Blockers = c.obstacles(e, f)
		} else if v.Best = &k; !k.Fits {
			v.Blockers = []Blocker{{Capacity, e.ask.shortage(f, k.Model)}}
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b Verdict) int {
		if a.Best == nil || b.Best == nil {
			return cmp.Or(compareBools(a.Best != nil, b.Best != nil), compareNames(a.Cluster, b.Cluster))
		}
		return compareCandidates(a.Best, b.Best)
	})
	for i := range out { // clusters without free capacity get an offer only if no cluster has any
		if k := out[i].Best; k != nil && k.Fits == out[0].Best.Fits && i < ares.MaxOffered {
			out[i].Rank = i + 1
		}
	}
	return out
}

// compareCandidates puts what fits first, and then the lowest cost.
func compareCandidates(a, b *Candidate) int {
	return cmp.Or(compareBools(a.Fits, b.Fits), compareCosts(a, b))
}

// compareBools puts true first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// obstacles returns why a cluster is no candidate: at least one blocker.
func (c *Chooser) obstacles(e *entry, f *fleet) (out []Blocker) {
	if !f.Open {
		closed := f.Closed
		if closed == (Blocker{}) {
			closed = Blocker{NoOffers, "it gets no offers now"}
		}
		out = append(out, closed)
	}
	out = append(out, c.blockers(e, f)...)
	if f.Summary != nil {
		return append(out, e.ask.tooSmall(f)...)
	}
	if f.Open {
		out = append(out, Blocker{NoSummary, "it has not told the hub yet what it has"})
	}
	return out
}

// tooSmall returns why a cluster could not run the job even if nothing else ran there.
func (r *request) tooSmall(f *fleet) []Blocker {
	most, known, fits := 0, false, false
	for i := range f.Summary.Models {
		if m := &f.Summary.Models[i]; r.wantsModel(m.Name) {
			known, most = true, max(most, m.Devices)
			fits = fits || f.hasNodeFor(r, m.Name)
		}
	}
	switch needed := int((r.milliGPUs() + 999) / 1000); {
	case needed == 0:
		fits = f.hasNodeFor(r, "")
	case !known:
		return []Blocker{{NoModel, "it has no devices" + r.modelText()}}
	case int64(most)*1000 < r.milliGPUs():
		return []Blocker{{TooSmall, fmt.Sprintf("it has %s%s, and the job needs %d", devicesText(most), r.modelText(), needed)}}
	}
	if fits {
		return nil
	}
	return []Blocker{{TooSmall, "none of its nodes is large enough for one member: " + r.memberText()}}
}

// shortage says what of a model is free.
func (r *request) shortage(f *fleet, model string) string {
	m, ok := f.Summary.Model(model)
	needed := int((r.milliGPUs() + 999) / 1000)
	switch {
	case !ok:
		return "too little is free on its nodes now: one member needs " + r.memberText()
	case m.Free < needed:
		return fmt.Sprintf("%d of its %s of model %s are free now, and the job needs %d", m.Free, devicesText(m.Devices), ares.Clip(model), needed)
	}
	return fmt.Sprintf("%d of its %s of model %s are free now, but not enough of them together: one member needs %s", m.Free, devicesText(m.Devices), ares.Clip(model), r.memberText())
}

func (r *request) modelText() string {
	if r.model == "" {
		return ""
	}
	return " of model " + ares.Clip(r.model)
}

// memberText says what one member needs on its node.
func (r *request) memberText() string {
	var parts []string
	if r.gpus > 0 {
		parts = append(parts, devicesText(r.gpus))
	}
	if r.milli > 0 {
		parts = append(parts, fmt.Sprintf("%d thousandths of a device", r.milli))
	}
	if r.deviceMB > 0 {
		parts = append(parts, fmt.Sprintf("%d MB in each device", r.deviceMB))
	}
	parts = append(parts, fmt.Sprintf("%d CPU cores", r.cpus), fmt.Sprintf("%d MB of memory", r.memory))
	return strings.Join(parts, ", ")
}

func devicesText(n int) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}
