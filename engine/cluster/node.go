package cluster

import (
	"cmp"
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// MaxSeats is how many seats one node may hold at once, however little they ask
// for: each is a process there and a part of every message to its agent.
const MaxSeats = 512

// WholeMilli is a whole device in thousandths.
const WholeMilli = 1000

// Node is a machine with the account of what is taken there. It exists as soon
// as a record, session, cordon, score or seat speaks of it.
type Node struct {
	ID        string
	Pos       int // in State.nodes
	Record    *ares.Node
	Session   *ares.Session
	Cordon    *ares.Cordon
	Score     *ares.NodeScore // nil: nothing is known of how it did
	Place     topology.Location
	Type      *NodeType  // of the record
	Devices   []Device   // in the order of the profile
	Unlisted  []Device   // not listed by the record, but held by seats
	CPUs      int        // taken
	Memory    int        // taken, MB
	NUMAUses  []NUMAUse  // taken by seats that are bound to a NUMA node
	Seats     int        // not free here
	Occupants []Occupant // who has them, in no order
	Kinds     SeatKinds  // of the seats
	Changes   int        // State.moves at its last change

	Usable uint64 // healthy, neither cut into slices nor too hot
	Warm   uint64 // near the limit of heat
	Free   uint64 // usable, and nobody holds a part of it

	dirty         bool // noted in State.touched
	GainedRoom    bool // by the batch under way it may have more room than before
	traitsChanged bool // by the batch under way its nature changed
}

// Device is one accelerator with what is taken of it.
type Device struct {
	ID    string
	index int
	link  int // row and column in the record's Links
	Taken int // thousandths
}

// Occupant is a seat that is not free, and whose it is.
type Occupant struct {
	Owner int // the number of its job in the job table: the ledger knows no jobs
	Seat  *ares.Seat
}

// NUMAUse is what is taken of one NUMA node by seats that are bound to it.
type NUMAUse struct{ NUMA, CPUs, Memory int }

func sameLabels(a, b map[string]string) bool {
	for k, v := range a { // order-free: all of them
		if w, ok := b[k]; !ok || w != v {
			return false
		}
	}
	return len(a) == len(b)
}

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
			n.Devices = append(n.Devices, Device{ID: d.ID, index: d.Index, link: i})
			// A slice without a profile, or a profile without a slice, is nothing
			// anybody could ask for.
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
	n.traitsChanged = n.traitsChanged || was != n.Type || old != nil && r != nil && (!sameLabels(old.Labels, r.Labels) || !slices.Equal(old.Taints, r.Taints))
	n.GainedRoom, c.Stale.Capacity = true, true
	c.locateNode(n)
}

// deviceOrder is the record's devices by index, each once, as many as are given.
func deviceOrder(r *ares.Node) []int {
	var order []int
	for i := range r.Devices {
		if !slices.ContainsFunc(order, func(k int) bool { return r.Devices[k].ID == r.Devices[i].ID }) {
			order = append(order, i) // listed twice: the first counts
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.Devices[a].Index, r.Devices[b].Index), cmp.Compare(r.Devices[a].ID, r.Devices[b].ID))
	})
	return order[:min(len(order), MaxDevices)]
}

// device finds a device, or opens an account for one the record does not list.
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
	n.Unlisted = append(n.Unlisted, Device{ID: id, link: -1})
	return &n.Unlisted[len(n.Unlisted)-1]
}

// Charge adds a seat to the account, or takes it out with sign -1.
func (n *Node) Charge(seat *ares.Seat, sign int) {
	n.Seats += sign
	n.Kinds.Add(KindOfSeat(seat), sign)
	n.CPUs += sign * seat.CPUs
	n.Memory += sign * seat.Memory
	for _, sh := range seat.Shares {
		n.device(sh.Device).Taken += sign * sh.Milli
	}
	if seat.NUMA >= 0 {
		n.chargeNUMA(seat.NUMA, sign*seat.CPUs, sign*seat.Memory)
	}
	if sign < 0 {
		n.GainedRoom = true
	}
}

// CountOccupant notes whose a seat is, or with sign -1 that it is nobody's.
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

// chargeNUMA adds to what is taken of a NUMA node. One of which nothing is taken has
// no entry, so that a decision that is taken back leaves none.
func (n *Node) chargeNUMA(numa, cpus, memory int) {
	for i := range n.NUMAUses {
		if p := &n.NUMAUses[i]; p.NUMA == numa {
			p.CPUs += cpus
			p.Memory += memory
			if p.CPUs == 0 && p.Memory == 0 {
				n.NUMAUses = slices.Delete(n.NUMAUses, i, i+1)
			}
			return
		}
	}
	if cpus != 0 || memory != 0 {
		n.NUMAUses = append(n.NUMAUses, NUMAUse{numa, cpus, memory})
	}
}

// numaTaken is what is taken of a NUMA node by seats that are bound to it.
func (n *Node) numaTaken(numa int) NUMAUse {
	for _, p := range n.NUMAUses {
		if p.NUMA == numa {
			return p
		}
	}
	return NUMAUse{}
}

// recountFree counts anew after a batch, and drops accounts that are closed.
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

// IsUnknown says whether nothing speaks of the node any more.
func (n *Node) IsUnknown() bool {
	return n.Record == nil && n.Session == nil && n.Cordon == nil && n.Score == nil && n.Seats == 0
}

// Schedulable says whether anything may be placed here.
func (n *Node) Schedulable() bool {
	return n.Record != nil && n.Session != nil && n.Cordon == nil && n.Record.Unfit == ""
}

// ShareBit is the device of a share in the sets of the node. Most nodes number their
// devices from 0 without a gap.
func (n *Node) ShareBit(sh *ares.Share) uint64 {
	if i := sh.Index; i >= 0 && i < len(n.Devices) && n.Devices[i].ID == sh.Device {
		return 1 << i
	}
	return n.deviceBit(sh.Device)
}

// DeviceSpecOf is what a device of the node is, nil when the record does not list it.
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

// deviceBit is the device's place in the sets of the node.
func (n *Node) deviceBit(id string) uint64 {
	for i := range n.Devices {
		if n.Devices[i].ID == id {
			return 1 << i
		}
	}
	return 0
}

// FreeMilli is how many thousandths of the node's devices nobody has.
func (n *Node) FreeMilli() int {
	sum := 0
	for m := n.Usable; m != 0; m &= m - 1 {
		sum += n.FreeMilliOf(bits.TrailingZeros64(m))
	}
	return sum
}

// FreeMilliOf is how much of a device nobody has.
func (n *Node) FreeMilliOf(device int) int { return max(WholeMilli-n.Devices[device].Taken, 0) }

// DeviceIndex is the device of a share in the order of the profile, -1 when the node's
// record does not list it.
func (n *Node) DeviceIndex(sh *ares.Share) int {
	if i := sh.Index; i >= 0 && i < len(n.Devices) && n.Devices[i].ID == sh.Device {
		return i
	}
	return slices.IndexFunc(n.Devices, func(d Device) bool { return d.ID == sh.Device })
}
