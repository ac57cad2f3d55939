package score

import (
	"cmp"
	"iter"
	"math/bits"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// demandTracker counts what the jobs in the state ask for: the mix that is to be
// expected. It is a function of the state's jobs and revision, whatever way it
// came to them, so that a snapshot decides as the history would.
//
// Only jobs up to a revision that moves rarely count, and counts are rounded:
// the mix changes seldom, because everything worked out for it is lost then.
type demandTracker struct {
	CountedUntil int64        // the last revision of jobs that count
	pending      []*DemandAsk // jobs that do not count yet
	Window       int64        // the revision that this window of revisions began with
	Recent       int          // jobs of this window
	Kinds        map[demandKind]*demandCount
	Shares       [cluster.WholeMilli + 1]int // asks for a part of a device, and at the end for one whole
	stale        bool                        // the prospect is no longer what the counts say
	Mix          WorkloadMix
}

// demandKind is a kind of ask. CPUs and memory are powers of two for each device:
// that is fine enough to tell who would be left without.
type demandKind struct {
	GPUs    int // whole devices, 0 for shares
	percent int // of a Mix: of a device's even share of the machine
	cpus    int64
	memory  int64 // MB
	device  string
}

func (k demandKind) compare(o demandKind) int {
	return cmp.Or(cmp.Compare(k.GPUs, o.GPUs), cmp.Compare(k.percent, o.percent), cmp.Compare(k.cpus, o.cpus), cmp.Compare(k.memory, o.memory),
		cmp.Compare(k.device, o.device))
}

// demandCount is a kind of ask and how many asks of it count.
type demandCount struct {
	key     demandKind
	example *cluster.Request // one of them; what it asks devices to be like is the same for all
	Count   int
}

// demandKindOf is the kind of a want that asks for devices.
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

// NearestPowerOfTwo is the nearest power of two, 0 for none.
func NearestPowerOfTwo(n int) int64 {
	if n <= 0 {
		return 0
	}
	shift := bits.Len(uint(n)) - 1
	return (int64(n) + int64(1)<<shift/2) >> shift << shift
}

// RoughCount is a count to two significant digits of its binary form.
func RoughCount(n int) int {
	if shift := bits.Len(uint(n)) - 2; shift > 0 {
		return n >> shift << shift
	}
	return n
}

// DemandAsk is what one job adds to the demand: so many members with one request.
// It is a part of the job's entry, and the zero value adds nothing.
type DemandAsk struct {
	Request  *cluster.Request // nil without a job
	Members  int
	Revision int64 // of the job

	count   *demandCount // the count that it is part of, nil for none
	window  int64        // demandTracker.window and one more, while it counts as recent there
	pending bool         // in demandTracker.pending
}

// CountDemand adds the ask to the counts, or puts it among the pending ones.
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

// countFor finds the account of the want's kind, or opens one.
func (d *demandTracker) countFor(r *cluster.Request) *demandCount {
	key := demandKindOf(r)
	k := d.Kinds[key]
	if k == nil {
		k = &demandCount{key: key, example: r}
		d.Kinds[key] = k
	}
	return k
}

// UncountDemand takes the ask out of the counts.
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

func (d *demandTracker) addMembers(a *DemandAsk, sign int) {
	d.stale = d.addTo(&a.count.Count, sign*a.Members) || d.stale
	switch {
	case a.Request.Milli > 0:
		d.stale = d.addTo(&d.Shares[a.Request.Milli], sign*a.Members) || d.stale
	case a.count.key.GPUs == 1:
		d.stale = d.addTo(&d.Shares[cluster.WholeMilli], sign*a.Members) || d.stale
	}
}

// addTo adds to a count, and says whether that makes a difference.
func (d *demandTracker) addTo(count *int, by int) bool {
	before := RoughCount(*count)
	*count += by
	return RoughCount(*count) != before
}

// RecountDemand counts every ask anew.
func (sc *Scorer) RecountDemand(all iter.Seq[*DemandAsk]) {
	d := &sc.Demand
	d.Kinds, d.pending, d.stale = map[demandKind]*demandCount{}, nil, true
	clear(d.Shares[:])
	for a := range all { // order-free: sums
		a.count, a.pending = nil, false
		sc.CountDemand(a)
	}
}

// ForgetPending drops an ask of a job that was only supposed.
func (d *demandTracker) ForgetPending(a *DemandAsk) {
	if last := len(d.pending) - 1; last >= 0 && d.pending[last] == a {
		d.pending[last] = nil
		d.pending, a.pending = d.pending[:last], false
	}
}
