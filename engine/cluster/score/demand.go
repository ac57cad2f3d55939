package score

import (
	"cmp"
	"iter"
	"math/bits"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// demandTracker counts the requests of the jobs in the state, from which the mix is
// learned. The counts are a function of the jobs and the revision alone, however the
// state got there, so that a snapshot decides as the history would.
//
// Only jobs up to a revision that moves rarely are counted, and counts are rounded. So
// the mix changes rarely, which matters because every score depends on it.
type demandTracker struct {
	CountedUntil int64        // the horizon: the last revision of jobs that are counted
	pending      []*DemandAsk // jobs after the horizon
	Window       int64        // first revision of the current window: see demandWindowLength
	Recent       int          // jobs of the current window
	Kinds        map[demandKind]*demandCount
	Shares       [cluster.WholeMilli + 1]int // members by thousandths of a device; the last one also counts requests for one whole device
	stale        bool                        // the rounded counts changed since the mix was made
	Mix          WorkloadMix
}

// demandKind is a kind of request. CPUs and memory are rounded to powers of two for
// each device, which is precise enough to tell which nodes have too little.
type demandKind struct {
	GPUs    int // whole devices, 0 for shares
	percent int // of a configured mix: of a device's even share of the node
	cpus    int64
	memory  int64 // MB
	device  string
}

func (k demandKind) compare(o demandKind) int {
	return cmp.Or(cmp.Compare(k.GPUs, o.GPUs), cmp.Compare(k.percent, o.percent), cmp.Compare(k.cpus, o.cpus), cmp.Compare(k.memory, o.memory),
		cmp.Compare(k.device, o.device))
}

// demandCount is how many members of a kind are requested.
type demandCount struct {
	key     demandKind
	example *cluster.Request // a request of the kind; its constraints on devices hold for all of them
	Count   int
}

// demandKindOf returns the kind of a request for devices.
func demandKindOf(r *cluster.Request) demandKind {
	k := demandKind{GPUs: r.GPUs}
	milli := r.GPUs * cluster.WholeMilli
	if r.Milli > 0 {
		k.GPUs, milli = 0, r.Milli
	}
	k.cpus, k.memory = NearestPowerOfTwo(r.CPUs*cluster.WholeMilli/milli), NearestPowerOfTwo(r.Memory*cluster.WholeMilli/milli)
	k.device = r.DeviceKey
	return k
}

// NearestPowerOfTwo returns the nearest power of two; 0 for 0.
func NearestPowerOfTwo(n int) int64 {
	if n <= 0 {
		return 0
	}
	shift := bits.Len(uint(n)) - 1
	return (int64(n) + int64(1)<<shift/2) >> shift << shift
}

// RoughCount rounds a count down to two significant binary digits.
func RoughCount(n int) int {
	if shift := bits.Len(uint(n)) - 2; shift > 0 {
		return n >> shift << shift
	}
	return n
}

// DemandAsk is the contribution of one job to the demand: a number of members with one
// request. It is a part of the job's entry. The zero value contributes nothing.
type DemandAsk struct {
	Request  *cluster.Request // nil without a job
	Members  int
	Revision int64 // of the job

	count   *demandCount // the count that includes it, nil for none
	window  int64        // demandTracker.Window plus 1 while it counts as recent there
	pending bool         // it is in demandTracker.pending
}

// CountDemand adds a job's request to the counts, or to the pending ones when the job
// is after the horizon. Requests without devices do not count.
func (sc *Scorer) CountDemand(a *DemandAsk) {
	sc.Demand.countRecent(a)
	if a.Request == nil || !a.Request.NeedsDevices() || a.Request.Milli > cluster.WholeMilli {
		return
	}
	d := &sc.Demand
	if a.Revision > d.CountedUntil {
		if !a.pending {
			a.pending = true
			d.pending = append(d.pending, a)
		}
		return
	}
	a.count = d.countFor(a.Request)
	d.addMembers(a, +1)
}

// countFor returns the count of a request's kind, a new one if need be.
func (d *demandTracker) countFor(r *cluster.Request) *demandCount {
	key := demandKindOf(r)
	k := d.Kinds[key]
	if k == nil {
		k = &demandCount{key: key, example: r}
		d.Kinds[key] = k
	}
	return k
}

// UncountDemand removes a job's request from the counts.
func (sc *Scorer) UncountDemand(a *DemandAsk) {
	sc.Demand.uncountRecent(a)
	if a.count == nil {
		return
	}
	d := &sc.Demand
	d.addMembers(a, -1)
	if a.count.Count == 0 {
		delete(d.Kinds, a.count.key)
	}
	a.count = nil
}

// addMembers adds the members of a job to its counts, or removes them with sign -1.
func (d *demandTracker) addMembers(a *DemandAsk, sign int) {
	d.stale = d.addTo(&a.count.Count, sign*a.Members) || d.stale
	switch {
	case a.Request.Milli > 0:
		d.stale = d.addTo(&d.Shares[a.Request.Milli], sign*a.Members) || d.stale
	case a.count.key.GPUs == 1:
		d.stale = d.addTo(&d.Shares[cluster.WholeMilli], sign*a.Members) || d.stale
	}
}

// addTo adds to a count and reports whether the rounded count changed.
func (d *demandTracker) addTo(count *int, by int) bool {
	before := RoughCount(*count)
	*count += by
	return RoughCount(*count) != before
}

// RecountDemand counts the requests of all jobs anew.
func (sc *Scorer) RecountDemand(all iter.Seq[*DemandAsk]) {
	d := &sc.Demand
	d.Kinds, d.pending, d.stale = map[demandKind]*demandCount{}, nil, true
	clear(d.Shares[:])
	for a := range all { // order-free: sums
		a.count, a.pending = nil, false
		sc.CountDemand(a)
	}
}

// ForgetPending removes the pending request of a job that was only simulated: the last
// one added.
func (d *demandTracker) ForgetPending(a *DemandAsk) {
	if last := len(d.pending) - 1; last >= 0 && d.pending[last] == a {
		d.pending[last] = nil
		d.pending, a.pending = d.pending[:last], false
	}
}
