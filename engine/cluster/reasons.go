package cluster

import "math/bits"

// Reason is why a node cannot take a member. A node that has several is told under
// the first, in this order. Every reason has a row in the table of filters.
type Reason int

const (
	ReasonNoSession Reason = iota
	ReasonCordoned
	ReasonUnfit
	ReasonSelector
	ReasonNodeAffinity
	ReasonRequirements
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
	ReasonNone // the node can take it
	ReasonCount
)

// Reasons is a set of reasons.
type Reasons uint32

// Bit is the set with this reason alone.
func (r Reason) Bit() Reasons { return 1 << r }

// Has says whether the reason is in the set.
func (m Reasons) Has(r Reason) bool { return m&r.Bit() != 0 }

// First is the reason that is told, ReasonNone for an empty set.
func (m Reasons) First() Reason {
	if m == 0 {
		return ReasonNone
	}
	return Reason(bits.TrailingZeros32(uint32(m)))
}

// ReasonsAgainst is every reason why the node cannot take one member. v is the
// node type's devices by what the request asks of them.
func (n *Node) ReasonsAgainst(w *Request, v *DeviceMatch) Reasons {
	var m Reasons
	for i := range Filters {
		if f := &Filters[i]; f.Rejects != nil && f.Rejects(n, w) {
			m |= f.Reason.Bit()
		}
	}
	var devices Reasons
	if w.NeedsDevices() {
		devices = n.deviceReasons(w, v)
		m |= devices
	}
	// The last: whether a NUMA node has everything is asked only where nothing else
	// about devices, CPUs or memory is in the way.
	if m>>ReasonAccelerator == 0 && devices == 0 && n.RoomFor(w) == 0 {
		m |= ReasonNUMA.Bit()
	}
	return m
}

// DeviceMatch is the devices of a node type by what a request asks of them.
type DeviceMatch struct {
	Known bool
	// kind is the devices that pass the first filter of devices: the accelerator
	// asked for.
	kind uint64
	// passes is the devices of that kind that pass each of the other filters.
	passes [ReasonCount]uint64
	// Fit is the devices that pass all filters, the quota's too.
	Fit uint64
}

// MatchDevices holds the devices of the node type against a request.
func (p *NodeType) MatchDevices(w *Request) DeviceMatch {
	v := DeviceMatch{Known: true}
	if !w.NeedsDevices() {
		return v
	}
	for i := range p.Devices {
		d := &p.Devices[i]
		if !d.isKind(w) {
			continue
		}
		v.kind |= 1 << i
		for k := range Filters {
			if f := &Filters[k]; f.PassesDevice != nil && f.PassesDevice(d, w) {
				v.passes[f.Reason] |= 1 << i
			}
		}
	}
	v.Fit = w.DeviceMask(p)
	return v
}

// deviceReasons follows the devices through the filters. Where one leaves too few,
// the next is applied to the devices before it, so that every filter that is in the
// way is told.
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
	for i := range Filters {
		f := &Filters[i]
		if f.PassesDevice == nil || f.Reason == ReasonAccelerator {
			continue
		}
		if mask := left & v.passes[f.Reason]; f.Reason == ReasonQuota && m != 0 {
			continue // too few devices even without the quota
		} else if enough(mask) {
			left = mask
		} else {
			m |= f.Reason.Bit()
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
