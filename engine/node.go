package engine

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

// node is a machine with the account of what is taken there. It exists as soon
// as a record, session, cordon, score or seat speaks of it.
type node struct {
	id        string
	pos       int // in State.nodes
	record    *ares.Node
	session   *ares.Session
	cordon    *ares.Cordon
	score     *ares.NodeScore // nil: nothing is known of how it did
	place     topology.Location
	typ       *nodeType  // of the record
	devices   []device   // in the order of the profile
	unlisted  []device   // not listed by the record, but held by seats
	cpus      int        // taken
	memory    int        // taken, MB
	numaUses  []numaUse  // taken by seats that are bound to a NUMA node
	seats     int        // not free here
	occupants []occupant // who has them, in no order
	kinds     seatKinds  // of the seats
	changes   int        // State.moves at its last change

	usable uint64 // healthy, neither cut into slices nor too hot
	warm   uint64 // near the limit of heat
	free   uint64 // usable, and nobody holds a part of it

	dirty         bool // noted in State.touched
	gainedRoom    bool // by the batch under way it may have more room than before
	traitsChanged bool // by the batch under way its nature changed
}

// device is one accelerator with what is taken of it.
type device struct {
	id    string
	index int
	link  int // row and column in the record's Links
	taken int // thousandths
}

// occupant is a seat that is not free, and whose it is.
type occupant struct {
	owner int // the number of its job in the job table: the ledger knows no jobs
	seat  *ares.Seat
}

// numaUse is what is taken of one NUMA node by seats that are bound to it.
type numaUse struct{ numa, cpus, memory int }

func sameLabels(a, b map[string]string) bool {
	for k, v := range a { // order-free: all of them
		if w, ok := b[k]; !ok || w != v {
			return false
		}
	}
	return len(a) == len(b)
}

func (c *Cluster) applyNodeRecord(n *node, r *ares.Node) {
	before := slices.Concat(n.devices, n.unlisted)
	old, was := n.record, n.typ
	n.record, n.typ, n.devices, n.unlisted = r, nil, nil, nil
	n.usable, n.warm = 0, 0
	if r != nil {
		order := deviceOrder(r)
		n.typ = c.nodeTypeOf(r, order)
		for pos, i := range order {
			d := &r.Devices[i]
			n.devices = append(n.devices, device{id: d.ID, index: d.Index, link: i})
			// A slice without a profile, or a profile without a slice, is nothing
			// anybody could ask for.
			sliced := d.ID != "" && slices.ContainsFunc(r.Devices, func(o ares.Device) bool { return o.Parent == d.ID })
			limit := c.cfg.ThermalLimit
			if hot := limit > 0 && d.Celsius > limit; d.Healthy && !sliced && !hot && (d.Parent == "") == (d.Profile == "") {
				n.usable |= 1 << pos
			}
			if limit > 0 && d.Celsius > limit-c.cfg.ThermalMargin {
				n.warm |= 1 << pos
			}
		}
	}
	for _, d := range before {
		if d.taken != 0 {
			n.device(d.id).taken = d.taken
		}
	}
	n.traitsChanged = n.traitsChanged || was != n.typ || old != nil && r != nil && (!sameLabels(old.Labels, r.Labels) || !slices.Equal(old.Taints, r.Taints))
	n.gainedRoom, c.capacityStale = true, true
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
func (n *node) device(id string) *device {
	for i := range n.devices {
		if n.devices[i].id == id {
			return &n.devices[i]
		}
	}
	for i := range n.unlisted {
		if n.unlisted[i].id == id {
			return &n.unlisted[i]
		}
	}
	n.unlisted = append(n.unlisted, device{id: id, link: -1})
	return &n.unlisted[len(n.unlisted)-1]
}

// charge adds a seat to the account, or takes it out with sign -1.
func (n *node) charge(seat *ares.Seat, sign int) {
	n.seats += sign
	n.kinds.add(kindOfSeat(seat), sign)
	n.cpus += sign * seat.CPUs
	n.memory += sign * seat.Memory
	for _, sh := range seat.Shares {
		n.device(sh.Device).taken += sign * sh.Milli
	}
	if seat.NUMA >= 0 {
		n.chargeNUMA(seat.NUMA, sign*seat.CPUs, sign*seat.Memory)
	}
	if sign < 0 {
		n.gainedRoom = true
	}
}

// countOccupant notes whose a seat is, or with sign -1 that it is nobody's.
func (n *node) countOccupant(owner int, seat *ares.Seat, sign int) {
	if sign > 0 {
		n.occupants = append(n.occupants, occupant{owner, seat})
		return
	}
	at := slices.Index(n.occupants, occupant{owner, seat})
	last := len(n.occupants) - 1
	n.occupants[at], n.occupants[last] = n.occupants[last], occupant{}
	n.occupants = n.occupants[:last]
}

// chargeNUMA adds to what is taken of a NUMA node. One of which nothing is taken has
// no entry, so that a decision that is taken back leaves none.
func (n *node) chargeNUMA(numa, cpus, memory int) {
	for i := range n.numaUses {
		if p := &n.numaUses[i]; p.numa == numa {
			p.cpus += cpus
			p.memory += memory
			if p.cpus == 0 && p.memory == 0 {
				n.numaUses = slices.Delete(n.numaUses, i, i+1)
			}
			return
		}
	}
	if cpus != 0 || memory != 0 {
		n.numaUses = append(n.numaUses, numaUse{numa, cpus, memory})
	}
}

// numaTaken is what is taken of a NUMA node by seats that are bound to it.
func (n *node) numaTaken(numa int) numaUse {
	for _, p := range n.numaUses {
		if p.numa == numa {
			return p
		}
	}
	return numaUse{}
}

// recountFree counts anew after a batch, and drops accounts that are closed.
func (n *node) recountFree() {
	n.unlisted = slices.DeleteFunc(n.unlisted, func(d device) bool { return d.taken == 0 })
	n.free = 0
	for i := range n.devices {
		if n.devices[i].taken == 0 {
			n.free |= 1 << i
		}
	}
	n.free &= n.usable
}

// isUnknown says whether nothing speaks of the node any more.
func (n *node) isUnknown() bool {
	return n.record == nil && n.session == nil && n.cordon == nil && n.score == nil && n.seats == 0
}

// schedulable says whether anything may be placed here.
func (n *node) schedulable() bool {
	return n.record != nil && n.session != nil && n.cordon == nil && n.record.Unfit == ""
}

// shareBit is the device of a share in the sets of the node. Most nodes number their
// devices from 0 without a gap.
func (n *node) shareBit(sh *ares.Share) uint64 {
	if i := sh.Index; i >= 0 && i < len(n.devices) && n.devices[i].id == sh.Device {
		return 1 << i
	}
	return n.deviceBit(sh.Device)
}

// deviceSpecOf is what a device of the node is, nil when the record does not list it.
func (n *node) deviceSpecOf(id string) *deviceSpec {
	if n == nil || n.typ == nil {
		return nil
	}
	for i := range n.devices {
		if n.devices[i].id == id {
			return &n.typ.devices[i]
		}
	}
	return nil
}

// deviceBit is the device's place in the sets of the node.
func (n *node) deviceBit(id string) uint64 {
	for i := range n.devices {
		if n.devices[i].id == id {
			return 1 << i
		}
	}
	return 0
}

// freeMilli is how many thousandths of the node's devices nobody has.
func (n *node) freeMilli() int {
	sum := 0
	for m := n.usable; m != 0; m &= m - 1 {
		sum += n.freeMilliOf(bits.TrailingZeros64(m))
	}
	return sum
}

// freeMilliOf is how much of a device nobody has.
func (n *node) freeMilliOf(device int) int { return max(WholeMilli-n.devices[device].taken, 0) }

// deviceIndex is the device of a share in the order of the profile, -1 when the node's
// record does not list it.
func (n *node) deviceIndex(sh *ares.Share) int {
	if i := sh.Index; i >= 0 && i < len(n.devices) && n.devices[i].id == sh.Device {
		return i
	}
	return slices.IndexFunc(n.devices, func(d device) bool { return d.id == sh.Device })
}
