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

// wholeMilli is a whole device in thousandths.
const wholeMilli = 1000

// node is a machine with the account of what is taken there. It exists as soon
// as a record, session, cordon, score or seat speaks of it.
type node struct {
	id      string
	at      int // in State.nodes
	record  *ares.Node
	session *ares.Session
	cordon  *ares.Cordon
	past    *ares.NodeScore // nil: nothing is known of how it did
	blame   int64           // what that adds to every cost
	place   topology.Place
	profile *profile // of the record
	devices []device // in the order of the profile
	strays  []device // not listed by the record, but held by seats
	cpus    int      // taken
	memory  int      // taken, MB
	pins    []pin    // taken by seats that are bound to a NUMA node
	seats   int      // not free here
	sitters []sitter // who has them, in no order
	shelf   shelf    // what is left of it, while it is open
	kinds   kinds    // of the seats
	lot     uint64   // where lots are drawn
	moves   int      // State.moves at its last change

	departs  [lenses]departures // of its sitters
	visitors []visitor          // while a reservation is sought
	heldIn   int                // the last decision in which a reservation held something of it

	usable uint64 // healthy, neither cut into slices nor too hot
	warm   uint64 // near the limit of heat
	free   uint64 // usable, and nobody holds a part of it

	touched bool // noted in State.touched
	grew    bool // by the batch under way it may have more room than before
	altered bool // by the batch under way its nature changed
}

// device is one accelerator with what is taken of it.
type device struct {
	id    string
	index int
	link  int // row and column in the record's Links
	taken int // thousandths
}

// sitter is a seat that is not free, and whose it is.
type sitter struct {
	entry *entry
	seat  *ares.Seat
}

// pin is what is taken of one NUMA node by seats that are bound to it.
type pin struct{ numa, cpus, memory int }

// describe takes over a node's record, nil when it went. What seats hold stays
// in the account, on devices the record no longer lists too.
func (s *State) describe(n *node, r *ares.Node) {
	same := n.record != nil && r != nil && sameModels(n.record, r)
	// What ended jobs used there is counted by the weights of its models too.
	if same || n.seats == 0 && len(s.cfg.ModelWeights) == 0 {
		s.redescribe(n, r)
		return
	}
	s.recharge(n, func() { s.redescribe(n, r) })
}

// sameModels says whether the devices count alike in shares and quotas.
func sameModels(a, b *ares.Node) bool {
	return slices.EqualFunc(a.Devices, b.Devices, func(x, y ares.Device) bool { return x.ID == y.ID && x.Model == y.Model })
}

func sameLabels(a, b map[string]string) bool {
	for k, v := range a { // order-free: all of them
		if w, ok := b[k]; !ok || w != v {
			return false
		}
	}
	return len(a) == len(b)
}

func (s *State) redescribe(n *node, r *ares.Node) {
	before := slices.Concat(n.devices, n.strays)
	old, was := n.record, n.profile
	n.record, n.profile, n.devices, n.strays = r, nil, nil, nil
	n.usable, n.warm = 0, 0
	if r != nil {
		order := orderOf(r)
		n.profile = s.profileOf(r, order)
		for pos, i := range order {
			d := &r.Devices[i]
			n.devices = append(n.devices, device{id: d.ID, index: d.Index, link: i})
			// A slice without a profile, or a profile without a slice, is nothing
			// anybody could ask for.
			sliced := d.ID != "" && slices.ContainsFunc(r.Devices, func(o ares.Device) bool { return o.Parent == d.ID })
			limit := s.cfg.ThermalLimit
			if hot := limit > 0 && d.Celsius > limit; d.Healthy && !sliced && !hot && (d.Parent == "") == (d.Profile == "") {
				n.usable |= 1 << pos
			}
			if limit > 0 && d.Celsius > limit-s.cfg.ThermalMargin {
				n.warm |= 1 << pos
			}
		}
	}
	for _, d := range before {
		if d.taken != 0 {
			n.device(d.id).taken = d.taken
		}
	}
	n.altered = n.altered || was != n.profile || old != nil && r != nil && (!sameLabels(old.Labels, r.Labels) || !slices.Equal(old.Taints, r.Taints))
	n.grew, s.remeasure = true, true
	s.locate(n)
}

// orderOf is the record's devices by index, each once, as many as are given.
func orderOf(r *ares.Node) []int {
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
	for i := range n.strays {
		if n.strays[i].id == id {
			return &n.strays[i]
		}
	}
	n.strays = append(n.strays, device{id: id, link: -1})
	return &n.strays[len(n.strays)-1]
}

// charge adds a seat to the account, or takes it out with sign -1.
func (n *node) charge(seat *ares.Seat, sign int) {
	n.seats += sign
	n.kinds.add(seatKind(seat), sign)
	n.cpus += sign * seat.CPUs
	n.memory += sign * seat.Memory
	for _, sh := range seat.Shares {
		n.device(sh.Device).taken += sign * sh.Milli
	}
	if seat.NUMA >= 0 {
		n.pin(seat.NUMA, sign*seat.CPUs, sign*seat.Memory)
	}
	if sign < 0 {
		n.grew = true
	}
}

// seat notes whose a seat is, or with sign -1 that it is nobody's.
func (n *node) seat(e *entry, seat *ares.Seat, sign int) {
	if sign > 0 {
		n.sitters = append(n.sitters, sitter{e, seat})
		return
	}
	at := slices.Index(n.sitters, sitter{e, seat})
	last := len(n.sitters) - 1
	n.sitters[at], n.sitters[last] = n.sitters[last], sitter{}
	n.sitters = n.sitters[:last]
}

// pin adds to what is taken of a NUMA node. One of which nothing is taken has
// no entry, so that a decision that is taken back leaves none.
func (n *node) pin(numa, cpus, memory int) {
	for i := range n.pins {
		if p := &n.pins[i]; p.numa == numa {
			p.cpus += cpus
			p.memory += memory
			if p.cpus == 0 && p.memory == 0 {
				n.pins = slices.Delete(n.pins, i, i+1)
			}
			return
		}
	}
	if cpus != 0 || memory != 0 {
		n.pins = append(n.pins, pin{numa, cpus, memory})
	}
}

// pinned is what is taken of a NUMA node by seats that are bound to it.
func (n *node) pinned(numa int) pin {
	for _, p := range n.pins {
		if p.numa == numa {
			return p
		}
	}
	return pin{}
}

// survey counts anew after a batch, and drops accounts that are closed.
func (n *node) survey() {
	n.strays = slices.DeleteFunc(n.strays, func(d device) bool { return d.taken == 0 })
	n.free = 0
	for i := range n.devices {
		if n.devices[i].taken == 0 {
			n.free |= 1 << i
		}
	}
	n.free &= n.usable
}

// forgotten says whether nothing speaks of the node any more.
func (n *node) forgotten() bool {
	return n.record == nil && n.session == nil && n.cordon == nil && n.past == nil && n.seats == 0
}

// open says whether anything may be placed here.
func (n *node) open() bool {
	return n.record != nil && n.session != nil && n.cordon == nil && n.record.Unfit == ""
}

// room is how many members of the want the node could take now.
func (n *node) room(w *want) int {
	fit := n.slots(w.cpus, w.memory)
	switch {
	case fit <= 0 || n.record == nil:
		return 0
	case w.numa == numaRequired:
		return min(fit, n.roomByNUMA(w))
	case w.gpus > 0:
		return min(fit, bits.OnesCount64(w.mask(n.profile)&n.free)/w.gpus)
	case w.milli > 0:
		return min(fit, n.parts(w.mask(n.profile), w.milli))
	}
	return fit
}

// fits says whether there is room for one member of the want on a node that has
// the CPUs and the memory.
func (n *node) fits(w *want) bool {
	switch {
	case n.seats >= MaxSeats:
		return false
	case w.numa == numaRequired:
		return n.roomByNUMA(w) > 0
	case w.gpus > 0:
		return bits.OnesCount64(w.mask(n.profile)&n.free) >= w.gpus
	case w.milli > wholeMilli:
		return false
	case w.milli > 0:
		mask := w.mask(n.profile)
		return mask&n.free != 0 || n.tightest(mask, w.milli) != 0
	}
	return true
}

// slots is how many members the node has seats, CPUs and memory for.
func (n *node) slots(cpus, memory int) int {
	fit := MaxSeats - n.seats
	if cpus > 0 {
		fit = min(fit, (n.profile.cpus-n.cpus)/cpus)
	}
	if memory > 0 {
		fit = min(fit, (n.record.MemoryMB-n.memory)/memory)
	}
	return max(fit, 0)
}

// parts is how many shares of this size the devices have left.
func (n *node) parts(mask uint64, milli int) int {
	parts := 0
	for m := mask & n.usable; m != 0; m &= m - 1 {
		parts += max(wholeMilli-n.devices[bits.TrailingZeros64(m)].taken, 0) / milli
	}
	return parts
}

// roomByNUMA is how many members fit when each stays within one NUMA node, or
// all of them in the same.
func (n *node) roomByNUMA(w *want) int {
	total, most := 0, 0
	for k := range n.profile.numa {
		room := n.roomAt(w, k)
		total += room
		most = max(most, room)
	}
	if w.together {
		return most
	}
	return total
}

// numaFor is the NUMA node for members that stay together: the one with the
// least room that is enough.
func (n *node) numaFor(w *want, members int) int {
	best, least := -1, 0
	for k := range n.profile.numa {
		if room := n.roomAt(w, k); room >= members && (best < 0 || room < least) {
			best, least = k, room
		}
	}
	return best
}

// roomAt is how many members NUMA node k of the machine could take.
func (n *node) roomAt(w *want, k int) int {
	fit := MaxSeats
	at := &n.profile.numa[k]
	taken := n.pinned(at.ID)
	if w.cpus > 0 {
		fit = min(fit, (at.CPUs-taken.cpus)/w.cpus)
	}
	if w.memory > 0 {
		fit = min(fit, (at.MemoryMB-taken.memory)/w.memory)
	}
	mask := w.mask(n.profile) & n.profile.near[k]
	switch {
	case w.gpus > 0:
		fit = min(fit, bits.OnesCount64(mask&n.free)/w.gpus)
	case w.milli > 0:
		fit = min(fit, n.parts(mask, w.milli))
	}
	return max(fit, 0)
}
