package cluster

import (
	"cmp"
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// WholeMilli is the capacity of a whole device, in thousandths.
const WholeMilli = 1000

// Node is a node of the cluster with its allocations. A Node exists while there is a node record, a session, a
// cordon, a history score or a seat for it.
type Node struct {
	ID        string
	Pos       int // position in Cluster.Nodes
	Record    *ares.Node
	Session   *ares.Session
	Cordon    *ares.Cordon
	Score     *ares.NodeScore // history; nil if nothing is known
	Place     topology.Location
	Type      *NodeType  // type of the record; nil without a record
	Devices   []Device   // in the order of Type.Devices
	Unlisted  []Device   // devices that are not in the record, but are used by seats
	MilliCPUs int        // taken, in thousandths of a core
	Memory    int        // taken, MB
	NUMAUses  []NUMAUse  // taken by seats that are bound to a NUMA node
	Seats     int        // number of seats taken
	SeatLimit int        // maximum of Seats, the same for all nodes of a cluster
	Occupants []Occupant // the seats and their jobs, in no order
	Kinds     SeatKinds  // the seats by kind
	Changes   int        // Cluster.changeCount at its last change

	Usable uint64 // devices that are healthy, not sliced and not too hot
	Warm   uint64 // devices near or above the thermal limit
	Free   uint64 // usable devices of which nothing is taken

	dirty         bool // it is in Cluster.Stale.Nodes
	GainedRoom    bool // its free capacity may have increased since the last RefreshIndex
	traitsChanged bool // its type, labels, taints, TrustedOnly, Images, ContainerRoot, OwnNetwork, Attachable or location changed since the last RefreshIndex
}

// Device is one device of a node, with its allocated amount.
type Device struct {
	ID        string
	index     int
	linkIndex int // row and column in the record's Links
	Taken     int // thousandths
}

// Occupant is a taken seat and the job that owns it.
type Occupant struct {
	Owner int // slot of the job in the job table; the ledger does not know jobs
	Seat  *ares.Seat
}

// NUMAUse is the total allocation of the seats that are bound to one NUMA node.
type NUMAUse struct{ NUMA, MilliCPUs, Memory int }

func sameLabels(a, b map[string]string) bool {
	for k, v := range a { // order-free: checks all entries
		if w, ok := b[k]; !ok || w != v {
			return false
		}
	}
	return len(a) == len(b)
}

// ApplyNodeRecord replaces the record of a node. The argument `r` is nil if the record was deleted.
// Existing allocations remain, even on devices that the new record does not list.
func (c *Cluster) ApplyNodeRecord(n *Node, r *ares.Node) {
	before := slices.Concat(n.Devices, n.Unlisted)
	old, was := n.Record, n.Type
	n.Record, n.Type, n.Devices, n.Unlisted = r, nil, nil, nil
	n.Usable, n.Warm = 0, 0
	if r != nil {
		order := deviceOrder(r)
		n.Type = c.nodeTypeOf(r, order)
		for pos, i := range order {
			d := &r.Devices[i]
			n.Devices = append(n.Devices, Device{ID: d.ID, index: d.Index, linkIndex: i})
			// A MIG slice without a profile is not usable, and neither is a whole device with a profile,
			// because no request matches them.
			sliced := d.ID != "" && slices.ContainsFunc(r.Devices, func(o ares.Device) bool { return o.Parent == d.ID })
			limit := c.cfg.ThermalLimit
			if hot := limit > 0 && d.Celsius > limit; d.Healthy && !sliced && !hot && (d.Parent == "") == (d.Profile == "") {
				n.Usable |= 1 << pos
			}
			if limit > 0 && d.Celsius > limit-c.cfg.ThermalMargin {
				n.Warm |= 1 << pos
			}
		}
	}
	for _, d := range before {
		if d.Taken != 0 {
			n.device(d.ID).Taken = d.Taken
		}
	}
	n.traitsChanged = n.traitsChanged || was != n.Type || old != nil && r != nil && (!sameLabels(old.Labels, r.Labels) || !slices.Equal(old.Taints, r.Taints) || old.TrustedOnly != r.TrustedOnly || old.Images != r.Images || old.OwnNetwork != r.OwnNetwork || old.Attachable != r.Attachable || old.ContainerRoot != r.ContainerRoot)
	n.GainedRoom, c.Stale.Capacity = true, true
	c.locateNode(n)
}

// deviceOrder returns up to MaxDevices devices of the record, ordered by index and without duplicates.
func deviceOrder(r *ares.Node) []int {
	var order []int
	for i := range r.Devices {
		if !slices.ContainsFunc(order, func(k int) bool { return r.Devices[k].ID == r.Devices[i].ID }) {
			order = append(order, i) // only the first of several duplicates counts
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.Devices[a].Index, r.Devices[b].Index), cmp.Compare(r.Devices[a].ID, r.Devices[b].ID))
	})
	return order[:min(len(order), MaxDevices)]
}

// The method `device` returns the device with the given ID, and adds the device to Unlisted if the
// node's record does not list it.
func (n *Node) device(id string) *Device {
	for i := range n.Devices {
		if n.Devices[i].ID == id {
			return &n.Devices[i]
		}
	}
	for i := range n.Unlisted {
		if n.Unlisted[i].ID == id {
			return &n.Unlisted[i]
		}
	}
	n.Unlisted = append(n.Unlisted, Device{ID: id, linkIndex: -1})
	return &n.Unlisted[len(n.Unlisted)-1]
}

// Charge adds a seat to the node's allocations if `sign` is 1. It removes the seat if `sign` is -1. Charge
// updates neither Free nor the indexes.
func (n *Node) Charge(seat *ares.Seat, sign int) {
	n.Seats += sign
	n.Kinds.Add(KindOfSeat(seat), sign)
	n.MilliCPUs += sign * seat.MilliCPUs()
	n.Memory += sign * seat.Memory
	for _, sh := range seat.Shares {
		n.device(sh.Device).Taken += sign * sh.Milli
	}
	if seat.NUMA >= 0 {
		n.chargeNUMA(seat.NUMA, sign*seat.MilliCPUs(), sign*seat.Memory)
	}
	if sign < 0 {
		n.GainedRoom = true
	}
}

// CountOccupant adds a seat and its job to the occupants if `sign` is 1. It removes them if `sign` is -1.
func (n *Node) CountOccupant(owner int, seat *ares.Seat, sign int) {
	if sign > 0 {
		n.Occupants = append(n.Occupants, Occupant{owner, seat})
		return
	}
	at := slices.Index(n.Occupants, Occupant{owner, seat})
	last := len(n.Occupants) - 1
	n.Occupants[at], n.Occupants[last] = n.Occupants[last], Occupant{}
	n.Occupants = n.Occupants[:last]
}

// chargeNUMA adds CPUs and memory to the allocation of a NUMA node. If the CPUs and the memory of an entry become
// zero, the entry is deleted, so that undoing a transaction restores the list exactly.
func (n *Node) chargeNUMA(numa, cpus, memory int) {
	for i := range n.NUMAUses {
		if p := &n.NUMAUses[i]; p.NUMA == numa {
			p.MilliCPUs += cpus
			p.Memory += memory
			if p.MilliCPUs == 0 && p.Memory == 0 {
				n.NUMAUses = slices.Delete(n.NUMAUses, i, i+1)
			}
			return
		}
	}
	if cpus != 0 || memory != 0 {
		n.NUMAUses = append(n.NUMAUses, NUMAUse{numa, cpus, memory})
	}
}

// numaTaken returns the total allocation of the seats that are bound to a NUMA node.
func (n *Node) numaTaken(numa int) NUMAUse {
	for _, p := range n.NUMAUses {
		if p.NUMA == numa {
			return p
		}
	}
	return NUMAUse{}
}

// recountFree computes Free again. It also removes from Unlisted the devices that no seat uses any more.
func (n *Node) recountFree() {
	n.Unlisted = slices.DeleteFunc(n.Unlisted, func(d Device) bool { return d.Taken == 0 })
	n.Free = 0
	for i := range n.Devices {
		if n.Devices[i].Taken == 0 {
			n.Free |= 1 << i
		}
	}
	n.Free &= n.Usable
}

// IsUnknown returns true if no record and no seat refers to the node any more. Such a node can be
// deleted.
func (n *Node) IsUnknown() bool {
	return n.Record == nil && n.Session == nil && n.Cordon == nil && n.Score == nil && n.Seats == 0
}

// Schedulable reports whether jobs may be placed on the node. The node must have a record and a session, and it must
// be neither cordoned nor reported as unfit for jobs.
func (n *Node) Schedulable() bool {
	return n.Record != nil && n.Session != nil && n.Cordon == nil && n.Record.Unfit == ""
}

// ShareBit finds the device that a seat's share is on, and returns its bit mask. The result is 0 if the node's
// record does not list the device. On most nodes the index of a device is also its position, so ShareBit tries
// this position first.
func (n *Node) ShareBit(sh *ares.Share) uint64 {
	if i := sh.Index; i >= 0 && i < len(n.Devices) && n.Devices[i].ID == sh.Device {
		return 1 << i
	}
	return n.deviceBit(sh.Device)
}

// DeviceSpecOf returns the spec of a device, or nil if the node's record does not list the device.
func (n *Node) DeviceSpecOf(id string) *DeviceSpec {
	if n == nil || n.Type == nil {
		return nil
	}
	for i := range n.Devices {
		if n.Devices[i].ID == id {
			return &n.Type.Devices[i]
		}
	}
	return nil
}

// deviceBit returns the bit mask of a device, or 0 if the node's record does not list the device.
func (n *Node) deviceBit(id string) uint64 {
	for i := range n.Devices {
		if n.Devices[i].ID == id {
			return 1 << i
		}
	}
	return 0
}

// FreeMilli returns the total free capacity of all usable devices of the node, in thousandths of a device.
func (n *Node) FreeMilli() int {
	sum := 0
	for m := n.Usable; m != 0; m &= m - 1 {
		sum += n.FreeMilliOf(bits.TrailingZeros64(m))
	}
	return sum
}

// FreeMilliOf returns the free capacity of a device, in thousandths.
func (n *Node) FreeMilliOf(device int) int { return max(WholeMilli-n.Devices[device].Taken, 0) }

// TakenMilliOf returns the allocated part of the device with the given ID, in thousandths. The device need not be in the
// node's record. TakenMilliOf first looks at the position `at` in Devices, where most devices are.
func (n *Node) TakenMilliOf(id string, at int) int {
	if at < len(n.Devices) && n.Devices[at].ID == id {
		return n.Devices[at].Taken
	}
	for _, list := range [2][]Device{n.Devices, n.Unlisted} {
		for i := range list {
			if list[i].ID == id {
				return list[i].Taken
			}
		}
	}
	return 0
}

// DeviceIndex finds the device that a seat's share is on, and returns its position in Devices. The result is -1
// if the node's record does not list the device.
func (n *Node) DeviceIndex(sh *ares.Share) int {
	if i := sh.Index; i >= 0 && i < len(n.Devices) && n.Devices[i].ID == sh.Device {
		return i
	}
	return slices.IndexFunc(n.Devices, func(d Device) bool { return d.ID == sh.Device })
}
