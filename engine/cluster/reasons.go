package cluster

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// Reason is the first thing that rules a node out, in the order they are told.
type Reason int

const (
	ReasonNoSession Reason = iota
	ReasonCordoned
	ReasonUnfit
	ReasonSelector
	ReasonNodeAffinity
	ReasonRegion
	ReasonTaint
	ReasonAccelerator
	ReasonModel
	ReasonDeviceMemory
	ReasonQuota
	ReasonUnhealthy
	ReasonTooSmall
	ReasonReserved
	ReasonBusyDevices
	ReasonBusyCPUs
	ReasonBusyMemory
	ReasonNUMA
	ReasonSeatLimit
	ReasonJobAffinity
	ReasonHeld
	ReasonNone
	ReasonCount
)

// Reasons is hurdles of one node, a bit each. The lowest is the one that is told.
type Reasons uint32

func (h Reason) Bit() Reasons { return 1 << h }

func (m Reasons) Has(h Reason) bool { return m&h.Bit() != 0 }

// First is the hurdle that is told.
func (m Reasons) First() Reason {
	if m == 0 {
		return ReasonNone
	}
	return Reason(bits.TrailingZeros32(uint32(m)))
}

// BusyReasons are those that go away when others leave.
const BusyReasons = 1<<ReasonBusyDevices | 1<<ReasonBusyCPUs | 1<<ReasonBusyMemory | 1<<ReasonNUMA | 1<<ReasonSeatLimit

// ReasonsAgainst is everything that rules the node out for one member. v is what the
// want sees in its profile.
func (n *Node) ReasonsAgainst(w *Request, v *DeviceMatch) Reasons {
	var m Reasons
	put := func(h Reason, is bool) {
		if is {
			m |= h.Bit()
		}
	}
	put(ReasonNoSession, n.Session == nil)
	put(ReasonCordoned, n.Cordon != nil)
	put(ReasonUnfit, n.Record.Unfit != "")
	put(ReasonSelector, !n.matchesSelector(w))
	put(ReasonNodeAffinity, !n.matchesAffinity(w))
	put(ReasonRegion, !n.inRegion(w))
	put(ReasonTaint, !n.toleratedBy(w))
	if w.NeedsDevices() {
		m |= n.deviceReasons(w, v)
	}
	lacksCPUs, lacksMemory := n.Type.CPUs < w.CPUs, n.Record.MemoryMB < w.Memory
	put(ReasonTooSmall, lacksCPUs || lacksMemory)
	put(ReasonBusyCPUs, !lacksCPUs && n.Type.CPUs-n.CPUs < w.CPUs)
	put(ReasonBusyMemory, !lacksMemory && n.Record.MemoryMB-n.Memory < w.Memory)
	put(ReasonSeatLimit, n.Seats >= MaxSeats)
	put(ReasonNUMA, m>>ReasonAccelerator == 0 && n.RoomFor(w) == 0)
	return m
}

// toleratedBy says whether the node has no taint that keeps the want off.
func (n *Node) toleratedBy(w *Request) bool {
	for _, t := range n.Record.Taints {
		if t.Effect != ares.PreferNoSchedule && !w.Tolerates(t) {
			return false
		}
	}
	return true
}

// DeviceMatch is what a want sees in the machines of a profile: devices by what is
// asked of them.
type DeviceMatch struct {
	Known bool
	kind  uint64 // of the kind asked for
	model uint64 // of these, of a model asked for
	large uint64 // of the kind, with enough memory
	asked uint64 // all three
	Fit   uint64 // of these, of a model that quotas leave enough of
}

func (p *NodeType) MatchDevices(w, asked *Request) DeviceMatch {
	v := DeviceMatch{Known: true}
	if !w.NeedsDevices() {
		return v
	}
	for i := range p.Devices {
		d := &p.Devices[i]
		if d.kind != w.Kind || d.mig != w.MIG {
			continue
		}
		v.kind |= 1 << i
		if w.acceptsModel(d.model) {
			v.model |= 1 << i
		}
		if d.memory >= w.DeviceMemory {
			v.large |= 1 << i
		}
	}
	v.asked, v.Fit = asked.DeviceMask(p), w.DeviceMask(p)
	return v
}

// deviceReasons follows the devices through what is asked of them. Where a wish
// leaves too few, the next ones are held against the devices without it.
func (n *Node) deviceReasons(w *Request, v *DeviceMatch) Reasons {
	need := max(w.GPUs, 1)
	enough := func(mask uint64) bool { return bits.OnesCount64(mask) >= need }
	switch {
	case v.kind == 0:
		return ReasonAccelerator.Bit()
	case !enough(v.kind):
		return ReasonTooSmall.Bit()
	}
	var m Reasons
	left := v.kind
	if enough(v.model) {
		left = v.model
	} else {
		m |= ReasonModel.Bit()
	}
	if enough(left & v.large) {
		left &= v.large
	} else {
		m |= ReasonDeviceMemory.Bit()
	}
	if m == 0 {
		if !enough(v.Fit) {
			m |= ReasonQuota.Bit() // or else asked would not be enough either
		} else {
			left = v.Fit
		}
	}
	switch {
	case !enough(left & n.Usable):
		m |= ReasonUnhealthy.Bit()
	case w.GPUs > 0 && !enough(left&n.Free), w.Milli > 0 && n.shareSlots(left, w.Milli) == 0:
		m |= ReasonBusyDevices.Bit()
	}
	return m
}
