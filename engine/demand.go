package engine

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// demandTracker counts what the jobs in the state ask for: the mix that is to be
// expected. It is a function of the state's jobs and revision, whatever way it
// came to them, so that a snapshot decides as the history would.
//
// Only jobs up to a revision that moves rarely count, and counts are rounded:
// the mix changes seldom, because everything worked out for it is lost then.
type demandTracker struct {
	countedUntil int64    // the last revision of jobs that count
	pending      []*entry // jobs that do not count yet
	window       int64    // the revision that this window of revisions began with
	recent       int      // jobs of this window
	kinds        map[demandKind]*demandCount
	shares       [WholeMilli + 1]int // asks for a part of a device, and at the end for one whole
	stale        bool                // the prospect is no longer what the counts say
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
	example *request // one of them; what it asks devices to be like is the same for all
	count   int
}

// demandKindOf is the kind of a want that asks for devices.
func demandKindOf(w *request) demandKind {
	k := demandKind{gpus: w.gpus}
	milli := w.gpus * WholeMilli
	if w.milli > 0 {
		k.gpus, milli = 0, w.milli
	}
	k.cpus, k.memory = nearestPowerOfTwo(w.cpus*WholeMilli/milli), nearestPowerOfTwo(w.memory*WholeMilli/milli)
	k.device = fmt.Sprintf("%q %q %d %q", w.kind, w.mig, w.deviceMemory, w.models)
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

// countDemand counts the entry's asks, or remembers to when they come to count.
func (s *State) countDemand(e *entry) {
	s.demand.countRecent(e)
	if e.job == nil || !e.shape.request.needsDevices() || e.shape.request.milli > WholeMilli {
		return
	}
	d, w := &s.demand, e.shape.request
	if e.job.Revision > d.countedUntil {
		if !e.demandPending {
			e.demandPending = true
			d.pending = append(d.pending, e)
		}
		return
	}
	if w.demand == nil || w.demand.count == 0 {
		w.demand = d.countFor(w)
	}
	e.demand, e.demandMembers, e.demandShare = w.demand, e.shape.members, w.milli
	d.addMembers(e, +1)
}

// countFor finds the account of the want's kind, or opens one.
func (d *demandTracker) countFor(w *request) *demandCount {
	key := demandKindOf(w)
	k := d.kinds[key]
	if k == nil {
		k = &demandCount{key: key, example: w}
		d.kinds[key] = k
	}
	return k
}

// uncountDemand takes the entry's asks out of the counts.
func (s *State) uncountDemand(e *entry) {
	s.demand.uncountRecent(e)
	if e.demand == nil {
		return
	}
	d := &s.demand
	d.addMembers(e, -1)
	if e.demand.count == 0 {
		delete(d.kinds, e.demand.key)
	}
	e.demand = nil
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
func (d *demandTracker) countRecent(e *entry) {
	if e.job != nil && e.job.Revision > d.window && e.demandWindow != d.window+1 {
		e.demandWindow = d.window + 1
		d.recent++
	}
}

func (d *demandTracker) uncountRecent(e *entry) {
	if e.demandWindow == d.window+1 {
		e.demandWindow = 0
		d.recent--
	}
}

// advanceHorizon moves the horizon to where it is at the state's revision.
func (s *State) advanceHorizon() {
	d := &s.demand
	before := d.countedUntil
	d.countedUntil = demandHorizon(s.revision, len(s.entryByID)-d.recent)
	switch {
	case d.countedUntil < before:
		s.recountDemand()
	case d.countedUntil > before:
		later := d.pending
		d.pending = d.pending[:0]
		for _, e := range later {
			if e.demandPending = false; e.demand == nil {
				s.countDemand(e)
			}
		}
		clear(later[len(d.pending):])
	}
}

func (d *demandTracker) addMembers(e *entry, sign int) {
	d.stale = d.addTo(&e.demand.count, sign*e.demandMembers) || d.stale
	switch {
	case e.demandShare > 0:
		d.stale = d.addTo(&d.shares[e.demandShare], sign*e.demandMembers) || d.stale
	case e.demand.key.gpus == 1:
		d.stale = d.addTo(&d.shares[WholeMilli], sign*e.demandMembers) || d.stale
	}
}

// addTo adds to a count, and says whether that makes a difference.
func (d *demandTracker) addTo(count *int, by int) bool {
	before := roughCount(*count)
	*count += by
	return roughCount(*count) != before
}

// recountDemand counts every job anew.
func (s *State) recountDemand() {
	d := &s.demand
	d.kinds, d.pending, d.stale = map[demandKind]*demandCount{}, nil, true
	clear(d.shares[:])
	for _, w := range s.shapes.requests.byKey { // order-free: each by itself
		w.demand = nil
	}
	for _, e := range s.entryByID { // order-free: sums
		e.demand, e.demandPending = nil, false
		s.countDemand(e)
	}
}

// refreshMix brings the prospect up to date, and says whether it changed.
func (s *State) refreshMix() bool {
	d := &s.demand
	if len(s.cfg.Mix) > 0 {
		if d.mix.id == 0 {
			d.mix = blendMix(s.cfg.Mix, nil)
			d.mix.id = s.newMixID()
			return true
		}
		return false
	}
	if !d.stale && d.mix.id > 0 {
		return false
	}
	d.stale = false
	next := blendMix(DefaultMix(), d)
	if next.fills == d.mix.fills && slices.EqualFunc(next.kinds, d.mix.kinds, func(a, b mixKind) bool {
		return a.kind == b.kind && a.weight == b.weight
	}) {
		return false
	}
	next.id = s.newMixID()
	d.mix = next
	return true
}

// newMixID is a number that no other prospect has.
func (s *State) newMixID() int {
	s.mixCount++
	return s.mixCount
}

// blendMix is what is to be expected by a mix and by what was asked for.
func blendMix(mix []Mix, d *demandTracker) workloadMix {
	var o workloadMix
	var rates [WholeMilli + 1]int64
	for _, m := range mix {
		weight := 2 * m.Weight
		o.kinds = append(o.kinds, mixKind{kind: demandKind{gpus: m.GPUs, percent: m.CPUs}, weight: weight})
		switch {
		case m.Milli > 0:
			rates[min(m.Milli, WholeMilli)] += int64(weight)
		case m.GPUs == 1:
			rates[WholeMilli] += int64(weight)
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
