package engine

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// hurdle is the first thing that rules a node out, in the order they are told.
type hurdle int

const (
	noSession hurdle = iota
	isCordoned
	isUnfit
	otherLabels
	otherConditions
	otherRegion
	tainted
	otherKind
	otherModel
	smallDevices
	overQuota
	unhealthy
	tooSmall
	isReserved
	busyDevices
	busyCPUs
	busyMemory
	noNUMA
	fullSeats
	badCompany
	isKept
	allClear
	hurdles
)

// hurdleSet is hurdles of one node, a bit each. The lowest is the one that is told.
type hurdleSet uint32

func (h hurdle) bit() hurdleSet { return 1 << h }

func (m hurdleSet) has(h hurdle) bool { return m&h.bit() != 0 }

// first is the hurdle that is told.
func (m hurdleSet) first() hurdle {
	if m == 0 {
		return allClear
	}
	return hurdle(bits.TrailingZeros32(uint32(m)))
}

// busyHurdles are those that go away when others leave.
const busyHurdles = 1<<busyDevices | 1<<busyCPUs | 1<<busyMemory | 1<<noNUMA | 1<<fullSeats

// kind is the kind of blocker: what is busy may come free.
func (h hurdle) kind() string {
	switch {
	case h == badCompany:
		return kindNear
	case h == isReserved:
		return kindReserved
	case h == overQuota:
		return kindQuota
	case h >= busyDevices:
		return kindCapacity
	}
	return kindNodes
}

// hurdles is everything that rules the node out for one member. v is what the
// want sees in its profile.
func (n *node) hurdles(w *want, v *outlook) hurdleSet {
	var m hurdleSet
	put := func(h hurdle, is bool) {
		if is {
			m |= h.bit()
		}
	}
	put(noSession, n.session == nil)
	put(isCordoned, n.cordon != nil)
	put(isUnfit, n.record.Unfit != "")
	put(otherLabels, !n.chosen(w))
	put(otherConditions, !n.conditioned(w))
	put(otherRegion, !n.within(w))
	put(tainted, !n.tolerated(w))
	if w.devices() {
		m |= n.deviceHurdles(w, v)
	}
	lacksCPUs, lacksMemory := n.profile.cpus < w.cpus, n.record.MemoryMB < w.memory
	put(tooSmall, lacksCPUs || lacksMemory)
	put(busyCPUs, !lacksCPUs && n.profile.cpus-n.cpus < w.cpus)
	put(busyMemory, !lacksMemory && n.record.MemoryMB-n.memory < w.memory)
	put(fullSeats, n.seats >= MaxSeats)
	put(noNUMA, m>>otherKind == 0 && n.room(w) == 0)
	return m
}

// tolerated says whether the node has no taint that keeps the want off.
func (n *node) tolerated(w *want) bool {
	for _, t := range n.record.Taints {
		if t.Effect != ares.PreferNoSchedule && !w.tolerates(t) {
			return false
		}
	}
	return true
}

// outlook is what a want sees in the machines of a profile: devices by what is
// asked of them.
type outlook struct {
	known bool
	kind  uint64 // of the kind asked for
	model uint64 // of these, of a model asked for
	large uint64 // of the kind, with enough memory
	asked uint64 // all three
	fit   uint64 // of these, of a model that quotas leave enough of
}

func (p *profile) outlook(w, asked *want) outlook {
	v := outlook{known: true}
	if !w.devices() {
		return v
	}
	for i := range p.devices {
		d := &p.devices[i]
		if d.kind != w.kind || d.mig != w.mig {
			continue
		}
		v.kind |= 1 << i
		if w.likes(d.model) {
			v.model |= 1 << i
		}
		if d.memory >= w.deviceMemory {
			v.large |= 1 << i
		}
	}
	v.asked, v.fit = asked.mask(p), w.mask(p)
	return v
}

// deviceHurdles follows the devices through what is asked of them. Where a wish
// leaves too few, the next ones are held against the devices without it.
func (n *node) deviceHurdles(w *want, v *outlook) hurdleSet {
	need := max(w.gpus, 1)
	enough := func(mask uint64) bool { return bits.OnesCount64(mask) >= need }
	switch {
	case v.kind == 0:
		return otherKind.bit()
	case !enough(v.kind):
		return tooSmall.bit()
	}
	var m hurdleSet
	left := v.kind
	if enough(v.model) {
		left = v.model
	} else {
		m |= otherModel.bit()
	}
	if enough(left & v.large) {
		left &= v.large
	} else {
		m |= smallDevices.bit()
	}
	if m == 0 {
		if !enough(v.fit) {
			m |= overQuota.bit() // or else asked would not be enough either
		} else {
			left = v.fit
		}
	}
	switch {
	case !enough(left & n.usable):
		m |= unhealthy.bit()
	case w.gpus > 0 && !enough(left&n.free), w.milli > 0 && n.parts(left, w.milli) == 0:
		m |= busyDevices.bit()
	}
	return m
}
