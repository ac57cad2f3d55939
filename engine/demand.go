package engine

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// demand counts what the jobs in the state ask for: the mix that is to be
// expected. It is a function of the state's jobs and revision, whatever way it
// came to them, so that a snapshot decides as the history would.
//
// Only jobs up to a revision that moves rarely count, and counts are rounded:
// the mix changes seldom, because everything worked out for it is lost then.
type demand struct {
	until  int64    // the last revision of jobs that count
	later  []*entry // jobs that do not count yet
	window int64    // the revision that this window of revisions began with
	recent int      // jobs of this window
	kinds  map[askKind]*asked
	shares [wholeMilli + 1]int // asks for a part of a device, and at the end for one whole
	stale  bool                // the prospect is no longer what the counts say
	now    prospect
}

// askKind is a kind of ask. CPUs and memory are powers of two for each device:
// that is fine enough to tell who would be left without.
type askKind struct {
	gpus    int // whole devices, 0 for shares
	percent int // of a Mix: of a device's even share of the machine
	cpus    int64
	memory  int64 // MB
	device  string
}

func (k askKind) compare(o askKind) int {
	return cmp.Or(cmp.Compare(k.gpus, o.gpus), cmp.Compare(k.percent, o.percent), cmp.Compare(k.cpus, o.cpus), cmp.Compare(k.memory, o.memory),
		cmp.Compare(k.device, o.device))
}

// asked is a kind of ask and how many asks of it count.
type asked struct {
	key   askKind
	like  *want // one of them; what it asks devices to be like is the same for all
	count int
}

// askKindOf is the kind of a want that asks for devices.
func askKindOf(w *want) askKind {
	k := askKind{gpus: w.gpus}
	milli := w.gpus * wholeMilli
	if w.milli > 0 {
		k.gpus, milli = 0, w.milli
	}
	k.cpus, k.memory = octave(w.cpus*wholeMilli/milli), octave(w.memory*wholeMilli/milli)
	k.device = fmt.Sprintf("%q %q %d %q", w.kind, w.mig, w.deviceMemory, w.models)
	return k
}

// octave is the nearest power of two, 0 for none.
func octave(n int) int64 {
	if n <= 0 {
		return 0
	}
	shift := bits.Len(uint(n)) - 1
	return (int64(n) + int64(1)<<shift/2) >> shift << shift
}

// rough is a count to two significant digits of its binary form.
func rough(n int) int {
	if shift := bits.Len(uint(n)) - 2; shift > 0 {
		return n >> shift << shift
	}
	return n
}

// horizon is the last revision of jobs that count in a state of so many jobs:
// of the revisions not far behind, the first that is as round a number as any,
// to base four. While the revision goes up it stays for long.
func horizon(revision int64, jobs int) int64 {
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

// learn counts the entry's asks, or remembers to when they come to count.
func (s *State) learn(e *entry) {
	s.demand.enter(e)
	if e.job == nil || !e.shape.want.devices() || e.shape.want.milli > wholeMilli {
		return
	}
	d, w := &s.demand, e.shape.want
	if e.job.Revision > d.until {
		if !e.later {
			e.later = true
			d.later = append(d.later, e)
		}
		return
	}
	if w.asked == nil || w.asked.count == 0 {
		w.asked = d.kind(w)
	}
	e.asks, e.askers, e.share = w.asked, e.shape.members, w.milli
	d.add(e, +1)
}

// kind finds the account of the want's kind, or opens one.
func (d *demand) kind(w *want) *asked {
	key := askKindOf(w)
	k := d.kinds[key]
	if k == nil {
		k = &asked{key: key, like: w}
		d.kinds[key] = k
	}
	return k
}

// unlearn takes the entry's asks out of the counts.
func (s *State) unlearn(e *entry) {
	s.demand.leave(e)
	if e.asks == nil {
		return
	}
	d := &s.demand
	d.add(e, -1)
	if e.asks.count == 0 {
		delete(d.kinds, e.asks.key)
	}
	e.asks = nil
}

// windowLength is how many revisions the size of the state is taken to be the
// same for, but for jobs that go. Else the horizon would move to and fro with
// every job that comes and goes where its span changes.
const windowLength = 1024

// begin begins the window of a revision, if it is another one: no job that is
// there already is of it.
func (d *demand) begin(revision int64) {
	if window := revision / windowLength * windowLength; window != d.window {
		d.window, d.recent = window, 0
	}
}

// enter counts the job among the recent ones, if it is one.
func (d *demand) enter(e *entry) {
	if e.job != nil && e.job.Revision > d.window && e.window != d.window+1 {
		e.window = d.window + 1
		d.recent++
	}
}

func (d *demand) leave(e *entry) {
	if e.window == d.window+1 {
		e.window = 0
		d.recent--
	}
}

// advance moves the horizon to where it is at the state's revision.
func (s *State) advance() {
	d := &s.demand
	before := d.until
	d.until = horizon(s.revision, len(s.jobs)-d.recent)
	switch {
	case d.until < before:
		s.recount()
	case d.until > before:
		later := d.later
		d.later = d.later[:0]
		for _, e := range later {
			if e.later = false; e.asks == nil {
				s.learn(e)
			}
		}
		clear(later[len(d.later):])
	}
}

func (d *demand) add(e *entry, sign int) {
	d.stale = d.change(&e.asks.count, sign*e.askers) || d.stale
	switch {
	case e.share > 0:
		d.stale = d.change(&d.shares[e.share], sign*e.askers) || d.stale
	case e.asks.key.gpus == 1:
		d.stale = d.change(&d.shares[wholeMilli], sign*e.askers) || d.stale
	}
}

// change adds to a count, and says whether that makes a difference.
func (d *demand) change(count *int, by int) bool {
	before := rough(*count)
	*count += by
	return rough(*count) != before
}

// recount counts every job anew.
func (s *State) recount() {
	d := &s.demand
	d.kinds, d.later, d.stale = map[askKind]*asked{}, nil, true
	clear(d.shares[:])
	for _, w := range s.shapes.wants.byKey { // order-free: each by itself
		w.asked = nil
	}
	for _, e := range s.jobs { // order-free: sums
		e.asks, e.later = nil, false
		s.learn(e)
	}
}

// expect brings the prospect up to date, and says whether it changed.
func (s *State) expect() bool {
	d := &s.demand
	if len(s.cfg.Mix) > 0 {
		if d.now.id == 0 {
			d.now = blend(s.cfg.Mix, nil)
			d.now.id = s.newProspect()
			return true
		}
		return false
	}
	if !d.stale && d.now.id > 0 {
		return false
	}
	d.stale = false
	next := blend(DefaultMix(), d)
	if next.fills == d.now.fills && slices.EqualFunc(next.kinds, d.now.kinds, func(a, b awaited) bool {
		return a.kind == b.kind && a.weight == b.weight
	}) {
		return false
	}
	next.id = s.newProspect()
	d.now = next
	return true
}

// newProspect is a number that no other prospect has.
func (s *State) newProspect() int {
	s.prospects++
	return s.prospects
}

// blend is what is to be expected by a mix and by what was asked for.
func blend(mix []Mix, d *demand) prospect {
	var o prospect
	var rates [wholeMilli + 1]int64
	for _, m := range mix {
		weight := 2 * m.Weight
		o.kinds = append(o.kinds, awaited{kind: askKind{gpus: m.GPUs, percent: m.CPUs}, weight: weight})
		switch {
		case m.Milli > 0:
			rates[min(m.Milli, wholeMilli)] += int64(weight)
		case m.GPUs == 1:
			rates[wholeMilli] += int64(weight)
		}
	}
	if d != nil {
		o.kinds = append(o.kinds, d.frequent()...)
		for size, count := range d.shares {
			rates[size] += int64(rough(count)) * askWeight
		}
	}
	total := 0
	for i := range o.kinds {
		total += o.kinds[i].weight
	}
	for i := range o.kinds {
		o.kinds[i].weight = o.kinds[i].weight * mixWhole / max(total, 1)
	}
	o.kinds = slices.DeleteFunc(o.kinds, func(e awaited) bool { return e.weight < leastWeight })
	o.foresee(&rates)
	return o
}

// frequent is the kinds that ask for the most.
func (d *demand) frequent() []awaited {
	all := make([]awaited, 0, len(d.kinds))
	for _, k := range d.kinds { // order-free: sorted right below
		all = append(all, awaited{k.key, k.like, rough(k.count) * askWeight})
	}
	slices.SortFunc(all, compareKinds)
	all = all[:min(len(all), maxKinds)]
	slices.SortFunc(all, func(a, b awaited) int { return a.kind.compare(b.kind) })
	return all
}
