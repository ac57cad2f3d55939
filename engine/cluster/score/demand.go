package score

import (
	"cmp"
	"iter"
	"math/bits"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// demandTracker counts the requests of the jobs in the state. The workload mix is learned from these counts. The
// counts depend only on the jobs and on the store revision, not on the order of events. Because the counts do not
// depend on the order of events, a state restored from a snapshot makes the same decisions as the original state.
//
// Only jobs up to a certain revision, called the horizon, are counted. The demand horizon moves rarely, and the
// counts are rounded. Therefore the workload mix rarely changes. Scores depend on the mix. Because the mix
// rarely changes, scores can stay cached for longer.
type demandTracker struct {
	CountedUntil int64        // the horizon: the last revision of jobs that are counted
	pending      []*DemandAsk // jobs after the horizon
	Window       int64        // first revision of the current window; see demandWindowLength
	Recent       int          // jobs of the current window
	Kinds        map[demandKind]*demandCount
	Shares       [cluster.WholeMilli + 1]int // members by thousandths of a device; the last one also counts requests for one whole device
	stale        bool                        // the rounded counts changed since the mix was made
	Mix          WorkloadMix
}

// demandKind identifies a kind of request by the number of devices and by the CPUs and memory per device. CPUs and
// memory per device are rounded to powers of two, which is precise enough to find nodes with too little of either.
type demandKind struct {
	GPUs    int // whole devices, 0 for shares
	percent int // percentage of a device's even share of the node; used only in a configured mix
	cpus    int64
	memory  int64 // MB
	device  string
}

func (k demandKind) compare(o demandKind) int {
	return cmp.Or(cmp.Compare(k.GPUs, o.GPUs), cmp.Compare(k.percent, o.percent), cmp.Compare(k.cpus, o.cpus), cmp.Compare(k.memory, o.memory),
		cmp.Compare(k.device, o.device))
}

// demandCount is the number of requested members of one kind.
type demandCount struct {
	key     demandKind
	example *cluster.Request // a request of the kind; its constraints on devices apply to all of them
	Count   int
}

// demandKindOf returns the kind of a request for devices.
func demandKindOf(r *cluster.Request) demandKind {
	k := demandKind{GPUs: r.GPUs}
	milli := r.GPUs * cluster.WholeMilli
	if r.Milli > 0 {
		k.GPUs, milli = 0, r.Milli
	}
	k.cpus, k.memory = nearestPowerOfTwo(r.MilliCPUs/milli), nearestPowerOfTwo(r.Memory*cluster.WholeMilli/milli)
	k.device = r.DeviceKey
	return k
}

// nearestPowerOfTwo returns the power of two that is nearest to n, or 0 if n is 0.
func nearestPowerOfTwo(n int) int64 {
	if n <= 0 {
		return 0
	}
	shift := bits.Len(uint(n)) - 1
	return (int64(n) + int64(1)<<shift/2) >> shift << shift
}

// roughCount rounds a count down to two significant binary digits.
func roughCount(n int) int {
	if shift := bits.Len(uint(n)) - 2; shift > 0 {
		return n >> shift << shift
	}
	return n
}

// DemandAsk is the contribution of one job to the demand: a request and the number of members that need it. DemandAsk
// is stored in the job's entry. The zero value of DemandAsk contributes nothing.
type DemandAsk struct {
	Request  *cluster.Request // nil without a job
	Members  int
	Revision int64 // of the job

	count   *demandCount // the count that includes it, or nil
	window  int64        // demandTracker.Window plus 1 while it counts as recent in that window
	pending bool         // it is in demandTracker.pending
}

// CountDemand adds a job's request to the counts. If the job's revision is after the horizon, CountDemand adds the
// request to the pending requests instead. Requests that need no devices are not counted.
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

// countFor returns the count for the kind of a request, and creates the count if necessary.
func (d *demandTracker) countFor(r *cluster.Request) *demandCount {
	key := demandKindOf(r)
	k := d.Kinds[key]
	if k == nil {
		k = &demandCount{key: key, example: r}
		d.Kinds[key] = k
	}
	return k
}

// UncountDemand subtracts a job's request from the counts.
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

// addMembers adds the members of a job to the counts if `sign` is 1. It subtracts them if `sign` is -1.
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
	before := roughCount(*count)
	*count += by
	return roughCount(*count) != before
}

// RecountDemand counts the requests of all jobs again from zero.
func (sc *Scorer) RecountDemand(all iter.Seq[*DemandAsk]) {
	d := &sc.Demand
	d.Kinds, d.pending, d.stale = map[demandKind]*demandCount{}, nil, true
	clear(d.Shares[:])
	for a := range all { // order-free: sums
		a.count, a.pending = nil, false
		sc.CountDemand(a)
	}
}

// ForgetPending removes the given request if it is the last pending one. The request must belong to a job that
// existed only in a simulation.
func (d *demandTracker) ForgetPending(a *DemandAsk) {
	if last := len(d.pending) - 1; last >= 0 && d.pending[last] == a {
		d.pending[last] = nil
		d.pending, a.pending = d.pending[:last], false
	}
}
