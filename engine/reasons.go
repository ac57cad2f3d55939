package engine

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// reason is the first thing that rules a node out, in the order they are told.
type reason int

const (
	reasonNoSession reason = iota
	reasonCordoned
	reasonUnfit
	reasonSelector
	reasonNodeAffinity
	reasonRegion
	reasonTaint
	reasonAccelerator
	reasonModel
	reasonDeviceMemory
	reasonQuota
	reasonUnhealthy
	reasonTooSmall
	reasonReserved
	reasonBusyDevices
	reasonBusyCPUs
	reasonBusyMemory
	reasonNUMA
	reasonSeatLimit
	reasonJobAffinity
	reasonHeld
	reasonNone
	reasonCount
)

// reasons is hurdles of one node, a bit each. The lowest is the one that is told.
type reasons uint32

func (h reason) bit() reasons { return 1 << h }

func (m reasons) has(h reason) bool { return m&h.bit() != 0 }

// first is the hurdle that is told.
func (m reasons) first() reason {
	if m == 0 {
		return reasonNone
	}
	return reason(bits.TrailingZeros32(uint32(m)))
}

// busyReasons are those that go away when others leave.
const busyReasons = 1<<reasonBusyDevices | 1<<reasonBusyCPUs | 1<<reasonBusyMemory | 1<<reasonNUMA | 1<<reasonSeatLimit

// reasonsAgainst is everything that rules the node out for one member. v is what the
// want sees in its profile.
func (n *node) reasonsAgainst(w *request, v *deviceMatch) reasons {
	var m reasons
	put := func(h reason, is bool) {
		if is {
			m |= h.bit()
		}
	}
	put(reasonNoSession, n.session == nil)
	put(reasonCordoned, n.cordon != nil)
	put(reasonUnfit, n.record.Unfit != "")
	put(reasonSelector, !n.matchesSelector(w))
	put(reasonNodeAffinity, !n.matchesAffinity(w))
	put(reasonRegion, !n.inRegion(w))
	put(reasonTaint, !n.toleratedBy(w))
	if w.needsDevices() {
		m |= n.deviceReasons(w, v)
	}
	lacksCPUs, lacksMemory := n.typ.cpus < w.cpus, n.record.MemoryMB < w.memory
	put(reasonTooSmall, lacksCPUs || lacksMemory)
	put(reasonBusyCPUs, !lacksCPUs && n.typ.cpus-n.cpus < w.cpus)
	put(reasonBusyMemory, !lacksMemory && n.record.MemoryMB-n.memory < w.memory)
	put(reasonSeatLimit, n.seats >= MaxSeats)
	put(reasonNUMA, m>>reasonAccelerator == 0 && n.roomFor(w) == 0)
	return m
}

// toleratedBy says whether the node has no taint that keeps the want off.
func (n *node) toleratedBy(w *request) bool {
	for _, t := range n.record.Taints {
		if t.Effect != ares.PreferNoSchedule && !w.tolerates(t) {
			return false
		}
	}
	return true
}

// deviceMatch is what a want sees in the machines of a profile: devices by what is
// asked of them.
type deviceMatch struct {
	known bool
	kind  uint64 // of the kind asked for
	model uint64 // of these, of a model asked for
	large uint64 // of the kind, with enough memory
	asked uint64 // all three
	fit   uint64 // of these, of a model that quotas leave enough of
}

func (p *nodeType) matchDevices(w, asked *request) deviceMatch {
	v := deviceMatch{known: true}
	if !w.needsDevices() {
		return v
	}
	for i := range p.devices {
		d := &p.devices[i]
		if d.kind != w.kind || d.mig != w.mig {
			continue
		}
		v.kind |= 1 << i
		if w.acceptsModel(d.model) {
			v.model |= 1 << i
		}
		if d.memory >= w.deviceMemory {
			v.large |= 1 << i
		}
	}
	v.asked, v.fit = asked.deviceMask(p), w.deviceMask(p)
	return v
}

// deviceReasons follows the devices through what is asked of them. Where a wish
// leaves too few, the next ones are held against the devices without it.
func (n *node) deviceReasons(w *request, v *deviceMatch) reasons {
	need := max(w.gpus, 1)
	enough := func(mask uint64) bool { return bits.OnesCount64(mask) >= need }
	switch {
	case v.kind == 0:
		return reasonAccelerator.bit()
	case !enough(v.kind):
		return reasonTooSmall.bit()
	}
	var m reasons
	left := v.kind
	if enough(v.model) {
		left = v.model
	} else {
		m |= reasonModel.bit()
	}
	if enough(left & v.large) {
		left &= v.large
	} else {
		m |= reasonDeviceMemory.bit()
	}
	if m == 0 {
		if !enough(v.fit) {
			m |= reasonQuota.bit() // or else asked would not be enough either
		} else {
			left = v.fit
		}
	}
	switch {
	case !enough(left & n.usable):
		m |= reasonUnhealthy.bit()
	case w.gpus > 0 && !enough(left&n.free), w.milli > 0 && n.shareSlots(left, w.milli) == 0:
		m |= reasonBusyDevices.bit()
	}
	return m
}
