package cluster

import "math/bits"

// Reason says why a member cannot be placed on a node. If several reasons apply to a node, the diagnosis counts the
// node only under the reason whose constant is declared first. Every reason has a row in Filters.
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
	ReasonUntrusted
	ReasonImages
	ReasonContainerRoot
	ReasonNetwork
	ReasonAttach
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
	ReasonCount // number of reasons, including ReasonNone
)

// Reasons is a set of reasons.
type Reasons uint32

// Bit returns the set that contains only this reason.
func (r Reason) Bit() Reasons { return 1 << r }

// Has reports whether the reason is in the set.
func (m Reasons) Has(r Reason) bool { return m&r.Bit() != 0 }

// First returns the first reason in the set, or ReasonNone if the set is empty.
func (m Reasons) First() Reason {
	if m == 0 {
		return ReasonNone
	}
	return Reason(bits.TrailingZeros32(uint32(m)))
}

// ReasonsAgainst returns every reason why one member cannot be placed on the node. The argument `v` is the result
// of MatchDevices for the node's type.
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
	// ReasonNUMA is added only if deviceReasons finds no reason. In addition, neither
	// ReasonAccelerator nor any reason declared after it may apply.
	if m>>ReasonAccelerator == 0 && devices == 0 && n.RoomFor(w) == 0 {
		m |= ReasonNUMA.Bit()
	}
	return m
}

// DeviceMatch holds one mask for each device filter. The mask contains the devices of a node type that pass the
// filter for one request.
type DeviceMatch struct {
	Known bool // false in the zero value, which has not been computed
	// The field `kind` is the mask of the devices with the requested accelerator type and MIG profile.
	kind uint64
	// The field `passes` holds one mask for each device filter. The mask contains the devices of the requested
	// kind that pass the filter.
	passes [ReasonCount]uint64
	// Fit is the mask of the devices that pass all filters, including the quota filter.
	Fit uint64
}

// MatchDevices tests the devices of the node type with every device filter.
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

// deviceReasons applies the device filters one after the other. If too few devices pass a filter, the filter becomes
// a reason. The next filter is then applied as if this filter did not exist. So the result names every filter that
// excludes the node.
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
