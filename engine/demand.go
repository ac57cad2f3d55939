package engine

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// demandTracker counts what the jobs in the state ask for: the mix that is to be
// expected. It is a function of the state's jobs and revision, whatever way it
// came to them, so that a snapshot decides as the history would.
//
// Only jobs up to a revision that moves rarely count, and counts are rounded:
// the mix changes seldom, because everything worked out for it is lost then.
type demandTracker struct {
	countedUntil int64        // the last revision of jobs that count
	pending      []*demandAsk // jobs that do not count yet
	window       int64        // the revision that this window of revisions began with
	recent       int          // jobs of this window
	kinds        map[demandKind]*demandCount
	shares       [cluster.WholeMilli + 1]int // asks for a part of a device, and at the end for one whole
	stale        bool                        // the prospect is no longer what the counts say
	mix          workloadMix
}

// demandKind is a kind of ask. CPUs and memory are powers of two for each device:
// that is fine enough to tell who would be left without.
type demandKind struct {
	gpus    int // whole devices, 0 for shares
	percent int // of a Mix: of a device's even share of the machine
	cpus    int64
	memory  int64 // MB
	device  string
}

func (k demandKind) compare(o demandKind) int {
	return cmp.Or(cmp.Compare(k.gpus, o.gpus), cmp.Compare(k.percent, o.percent), cmp.Compare(k.cpus, o.cpus), cmp.Compare(k.memory, o.memory),
		cmp.Compare(k.device, o.device))
}

// demandCount is a kind of ask and how many asks of it count.
type demandCount struct {
	key     demandKind
	example *cluster.Request // one of them; what it asks devices to be like is the same for all
	count   int
}

// demandKindOf is the kind of a want that asks for devices.
func demandKindOf(w *cluster.Request) demandKind {
	k := demandKind{gpus: w.Gpus}
	milli := w.Gpus * cluster.WholeMilli
	if w.Milli > 0 {
		k.gpus, milli = 0, w.Milli
	}
	k.cpus, k.memory = nearestPowerOfTwo(w.Cpus*cluster.WholeMilli/milli), nearestPowerOfTwo(w.Memory*cluster.WholeMilli/milli)
	k.device = w.DeviceKey
	return k
}

// nearestPowerOfTwo is the nearest power of two, 0 for none.
func nearestPowerOfTwo(n int) int64 {
	if n <= 0 {
		return 0
	}
	shift := bits.Len(uint(n)) - 1
	return (int64(n) + int64(1)<<shift/2) >> shift << shift
}

// roughCount is a count to two significant digits of its binary form.
func roughCount(n int) int {
	if shift := bits.Len(uint(n)) - 2; shift > 0 {
		return n >> shift << shift
	}
	return n
}

// demandHorizon is the last revision of jobs that count in a state of so many jobs:
// of the revisions not far behind, the first that is as round a number as any,
// to base four. While the revision goes up it stays for long.
func demandHorizon(revision int64, jobs int) int64 {
	span := int64(64)
	for span < int64(jobs) {
		span *= 4
	}
	oldest, step := max(revision-span, 1), int64(1)
	round := oldest
	for next := round; next <= revision; step *= 4 {
		round = next
		next = (oldest + 4*step - 1) / (4 * step) * 4 * step
	}
	return round
}

// demandAsk is what one job adds to the demand: so many members with one request.
// It is a part of the job's entry, and the zero value adds nothing.
type demandAsk struct {
	request  *cluster.Request // nil without a job
	members  int
	revision int64 // of the job

	count   *demandCount // the count that it is part of, nil for none
	window  int64        // demandTracker.window and one more, while it counts as recent there
	pending bool         // in demandTracker.pending
}

// countDemand adds the ask to the counts, or puts it among the pending ones.
func (sc *Scorer) countDemand(a *demandAsk) {
	sc.demand.countRecent(a)
	if a.request == nil || !a.request.NeedsDevices() || a.request.Milli > cluster.WholeMilli {
		return
	}
	d := &sc.demand
	if a.revision > d.countedUntil {
		if !a.pending {
			a.pending = true
			d.pending = append(d.pending, a)
		}
		return
	}
	a.count = d.countFor(a.request)
	d.addMembers(a, +1)
}

// countFor finds the account of the want's kind, or opens one.
func (d *demandTracker) countFor(w *cluster.Request) *demandCount {
	key := demandKindOf(w)
	k := d.kinds[key]
	if k == nil {
		k = &demandCount{key: key, example: w}
		d.kinds[key] = k
	}
	return k
}

// uncountDemand takes the ask out of the counts.
func (sc *Scorer) uncountDemand(a *demandAsk) {
	sc.demand.uncountRecent(a)
	if a.count == nil {
		return
	}
	d := &sc.demand
	d.addMembers(a, -1)
	if a.count.count == 0 {
		delete(d.kinds, a.count.key)
	}
	a.count = nil
}

// demandWindowLength is how many revisions the size of the state is taken to be the
// same for, but for jobs that go. Else the horizon would move to and fro with
// every job that comes and goes where its span changes.
const demandWindowLength = 1024

// beginWindow begins the window of a revision, if it is another one: no job that is
// there already is of it.
func (d *demandTracker) beginWindow(revision int64) {
	if window := revision / demandWindowLength * demandWindowLength; window != d.window {
		d.window, d.recent = window, 0
	}
}

// countRecent counts the job among the recent ones, if it is one.
func (d *demandTracker) countRecent(a *demandAsk) {
	if a.request != nil && a.revision > d.window && a.window != d.window+1 {
		a.window = d.window + 1
		d.recent++
	}
}

func (d *demandTracker) uncountRecent(a *demandAsk) {
	if a.window == d.window+1 {
		a.window = 0
		d.recent--
	}
}

// advanceHorizon moves the horizon to where it is at a revision with so many
// jobs, whose asks are all.
func (sc *Scorer) advanceHorizon(revision int64, jobs int, all iter.Seq[*demandAsk]) {
	d := &sc.demand
	before := d.countedUntil
	d.countedUntil = demandHorizon(revision, jobs-d.recent)
	switch {
	case d.countedUntil < before:
		sc.recountDemand(all)
	case d.countedUntil > before:
		later := d.pending
		d.pending = d.pending[:0]
		for _, a := range later {
			if a.pending = false; a.count == nil {
				sc.countDemand(a)
			}
		}
		clear(later[len(d.pending):])
	}
}

func (d *demandTracker) addMembers(a *demandAsk, sign int) {
	d.stale = d.addTo(&a.count.count, sign*a.members) || d.stale
	switch {
	case a.request.Milli > 0:
		d.stale = d.addTo(&d.shares[a.request.Milli], sign*a.members) || d.stale
	case a.count.key.gpus == 1:
		d.stale = d.addTo(&d.shares[cluster.WholeMilli], sign*a.members) || d.stale
	}
}

// addTo adds to a count, and says whether that makes a difference.
func (d *demandTracker) addTo(count *int, by int) bool {
	before := roughCount(*count)
	*count += by
	return roughCount(*count) != before
}

// recountDemand counts every ask anew.
func (sc *Scorer) recountDemand(all iter.Seq[*demandAsk]) {
	d := &sc.demand
	d.kinds, d.pending, d.stale = map[demandKind]*demandCount{}, nil, true
	clear(d.shares[:])
	for a := range all { // order-free: sums
		a.count, a.pending = nil, false
		sc.countDemand(a)
	}
}

// refreshMix brings the prospect up to date, and says whether it changed.
func (sc *Scorer) refreshMix() bool {
	d := &sc.demand
	if len(sc.cfg.Mix) > 0 {
		if d.mix.id == 0 {
			d.mix = blendMix(sc.cfg.Mix, nil)
			d.mix.id = sc.newMixID()
			return true
		}
		return false
	}
	if !d.stale && d.mix.id > 0 {
		return false
	}
	d.stale = false
	next := blendMix(config.DefaultMix(), d)
	if next.fills == d.mix.fills && slices.EqualFunc(next.kinds, d.mix.kinds, func(a, b mixKind) bool {
		return a.kind == b.kind && a.weight == b.weight
	}) {
		return false
	}
	next.id = sc.newMixID()
	d.mix = next
	return true
}

// newMixID is a number that no other prospect has.
func (sc *Scorer) newMixID() int {
	sc.mixCount++
	return sc.mixCount
}

// blendMix is what is to be expected by a mix and by what was asked for.
func blendMix(mix []config.Mix, d *demandTracker) workloadMix {
	var o workloadMix
	var rates [cluster.WholeMilli + 1]int64
	for _, m := range mix {
		weight := 2 * m.Weight
		o.kinds = append(o.kinds, mixKind{kind: demandKind{gpus: m.GPUs, percent: m.CPUs}, weight: weight})
		switch {
		case m.Milli > 0:
			rates[min(m.Milli, cluster.WholeMilli)] += int64(weight)
		case m.GPUs == 1:
			rates[cluster.WholeMilli] += int64(weight)
		}
	}
	if d != nil {
		o.kinds = append(o.kinds, d.frequentKinds()...)
		for size, count := range d.shares {
			rates[size] += int64(roughCount(count)) * observedWeight
		}
	}
	total := 0
	for i := range o.kinds {
		total += o.kinds[i].weight
	}
	for i := range o.kinds {
		o.kinds[i].weight = o.kinds[i].weight * mixTotal / max(total, 1)
	}
	o.kinds = slices.DeleteFunc(o.kinds, func(e mixKind) bool { return e.weight < minMixWeight })
	o.computeFills(&rates)
	return o
}

// frequentKinds is the kinds that ask for the most.
func (d *demandTracker) frequentKinds() []mixKind {
	all := make([]mixKind, 0, len(d.kinds))
	for _, k := range d.kinds { // order-free: sorted right below
		all = append(all, mixKind{k.key, k.example, roughCount(k.count) * observedWeight})
	}
	slices.SortFunc(all, byDevicesAsked)
	all = all[:min(len(all), maxMixKinds)]
	slices.SortFunc(all, func(a, b mixKind) int { return a.kind.compare(b.kind) })
	return all
}

// forgetPending drops an ask of a job that was only supposed.
func (d *demandTracker) forgetPending(a *demandAsk) {
	if last := len(d.pending) - 1; last >= 0 && d.pending[last] == a {
		d.pending[last] = nil
		d.pending, a.pending = d.pending[:last], false
	}
}
