package cluster

import "math/bits"

// Reason is why a node cannot take a member. When a node has several, the diagnosis
// counts it under the first in this order. Every reason has a row in Filters.
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
	ReasonNone  // the node can take the member
	ReasonCount // number of reasons, with ReasonNone
)

// Reasons is a set of reasons.
type Reasons uint32

// Bit returns the set with this reason alone.
func (r Reason) Bit() Reasons { return 1 << r }

// Has reports whether the reason is in the set.
func (m Reasons) Has(r Reason) bool { return m&r.Bit() != 0 }

// First returns the first reason of the set, ReasonNone for an empty set.
func (m Reasons) First() Reason {
	if m == 0 {
		return ReasonNone
	}
	return Reason(bits.TrailingZeros32(uint32(m)))
}

// ReasonsAgainst returns every reason why the node cannot take one member. v is the
// result of MatchDevices for the type of the node.
func (n *Node) ReasonsAgainst(w *Request, v *DeviceMatch) Reasons {
	var m Reasons
	for i := range Filters {
		if f := &Filters[i]; f.rejects != nil && f.rejects(n, w) {
			m |= f.Reason.Bit()
		}
	}
	var devices Reasons
	if w.NeedsDevices() {
		devices = n.deviceReasons(w, v)
		m |= devices
	}
	// NUMA is the reason only where no other reason from ReasonAccelerator on holds.
	if m>>ReasonAccelerator == 0 && devices == 0 && n.RoomFor(w) == 0 {
		m |= ReasonNUMA.Bit()
	}
	return m
}

// DeviceMatch is the devices of a node type, as masks, by the filters of devices that
// they pass for one request.
type DeviceMatch struct {
	Known bool // false in the zero value, which is not computed yet
	// kind is the devices of the requested accelerator type and MIG profile.
	kind uint64
	// passes is the devices of that kind that pass each of the other filters.
	passes [ReasonCount]uint64
	// Fit is the devices that pass all filters, with that of the quota.
	Fit uint64
}

// MatchDevices tests the devices of the node type with every filter of devices.
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
			if f := &Filters[k]; f.passesDevice != nil && f.passesDevice(d, w) {
				v.passes[f.Reason] |= 1 << i
			}
		}
	}
	v.Fit = w.DeviceMask(p)
	return v
}

// deviceReasons applies the filters of devices one after the other. A filter that leaves
// too few devices becomes a reason, and the next filter gets the devices from before it,
// so that the result names every filter that excludes the node.
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
		if f.passesDevice == nil || f.Reason == ReasonAccelerator {
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
