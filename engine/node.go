package engine

import (
	"cmp"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// MaxSeats is how many seats one node may hold at once, however little they ask
// for: each is a process there and a part of every message to its agent.
const MaxSeats = 512

// wholeMilli is a whole device in thousandths.
const wholeMilli = 1000

// Labels of a node that say where it stands.
const (
	labelRegion = "region"
	labelZone   = "zone"
	labelRack   = "rack"
)

// node is a machine with the account of what is taken there. It exists as soon
// as a record, session, cordon or seat speaks of it.
type node struct {
	id      string
	at      int // in State.nodes
	record  *ares.Node
	session *ares.Session
	cordon  *ares.Cordon
	devices []device // the record's by index; then those it no longer lists but seats hold
	cpus    int      // taken
	memory  int      // taken, MB
	seats   int      // not free here
	touched bool     // noted in State.touched

	// What survey counted over usable devices, kept right by take and give.
	whole int // devices nobody holds a part of
}

// device is one accelerator with what is taken of it.
type device struct {
	id     string
	index  int
	link   int // row and column in the node's Links
	kind   string
	model  string // lower case
	memory int    // MB
	usable bool   // listed, healthy, and neither a slice nor cut into slices
	taken  int    // thousandths
}

// describe takes over a node's record, nil when it went. What seats hold stays
// in the account, on devices the record no longer lists too.
func (n *node) describe(r *ares.Node) {
	n.record = r
	before := n.devices
	n.devices = nil
	if r != nil {
		n.devices = make([]device, 0, len(r.Devices))
		for i := range r.Devices {
			n.list(&r.Devices[i], i)
		}
		slices.SortFunc(n.devices, func(a, b device) int {
			return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.id, b.id))
		})
	}
	for _, d := range before {
		if d.taken != 0 {
			n.device(d.id).taken = d.taken
		}
	}
}

func (n *node) list(d *ares.Device, link int) {
	for i := range n.devices {
		if n.devices[i].id == d.ID {
			return // listed twice: the first counts
		}
	}
	sliced := slices.ContainsFunc(n.record.Devices, func(o ares.Device) bool { return o.Parent == d.ID && d.ID != "" })
	kind := d.Type
	if kind == "" {
		kind = ares.DefaultAccelerator
	}
	n.devices = append(n.devices, device{
		id: d.ID, index: d.Index, link: link, kind: kind, model: strings.ToLower(d.Model), memory: d.MemoryMB,
		usable: d.Healthy && d.Parent == "" && !sliced,
	})
}

// device finds a device, or opens an account for one the record does not list.
func (n *node) device(id string) *device {
	for i := range n.devices {
		if n.devices[i].id == id {
			return &n.devices[i]
		}
	}
	n.devices = append(n.devices, device{id: id, link: -1})
	return &n.devices[len(n.devices)-1]
}

// charge adds a seat to the account, or takes it out with sign -1.
func (n *node) charge(seat *ares.Seat, sign int) {
	n.seats += sign
	n.cpus += sign * seat.CPUs
	n.memory += sign * seat.Memory
	for _, sh := range seat.Shares {
		n.device(sh.Device).taken += sign * sh.Milli
	}
}

// survey counts anew after a batch, and drops accounts that are closed.
func (n *node) survey() {
	n.devices = slices.DeleteFunc(n.devices, func(d device) bool { return d.link < 0 && d.taken == 0 })
	n.whole = 0
	for i := range n.devices {
		if n.devices[i].usable && n.devices[i].taken == 0 {
			n.whole++
		}
	}
}

// forgotten says whether nothing speaks of the node any more.
func (n *node) forgotten() bool {
	return n.record == nil && n.session == nil && n.cordon == nil && n.seats == 0
}

// open says whether anything may be placed here.
func (n *node) open() bool {
	return n.record != nil && n.session != nil && n.cordon == nil && n.record.Unfit == ""
}

// left is what the index knows of the node.
func (n *node) left() height {
	if !n.open() {
		return closed
	}
	h := height{
		whole:  n.whole,
		cpus:   max(n.record.CPUs-n.cpus, 0),
		memory: max(n.record.MemoryMB-n.memory, 0),
	}
	if n.whole > 0 {
		h.milli = wholeMilli
		return h
	}
	for i := range n.devices {
		if d := &n.devices[i]; d.usable {
			h.milli = max(h.milli, wholeMilli-d.taken)
		}
	}
	return h
}

// labelled says whether the node's labels are as the shape's selector asks.
func (n *node) labelled(sh *shape) bool {
	for _, want := range sh.selector {
		if v, ok := n.record.Labels[want.key]; !ok || v != want.value {
			return false
		}
	}
	return true
}

// within says whether the node is in one of the regions asked for.
func (n *node) within(sh *shape) bool {
	return len(sh.regions) == 0 || slices.Contains(sh.regions, n.record.Labels[labelRegion])
}

// fits says whether the device is of the kind asked for and can be given.
func (d *device) fits(sh *shape) bool {
	return d.usable && d.kind == sh.kind && d.memory >= sh.deviceMemory && strings.Contains(d.model, sh.model)
}

// room is how many members of the shape the node could take now.
func (n *node) room(sh *shape) int {
	free := MaxSeats - n.seats
	if sh.cpus > 0 {
		free = min(free, (n.record.CPUs-n.cpus)/sh.cpus)
	}
	if sh.memory > 0 {
		free = min(free, (n.record.MemoryMB-n.memory)/sh.memory)
	}
	if free <= 0 || sh.gpus == 0 && sh.milli == 0 {
		return max(free, 0)
	}
	devices := 0
	for i := range n.devices {
		d := &n.devices[i]
		switch {
		case sh.gpus > 0 && d.taken == 0 && d.fits(sh):
			devices++
		case sh.milli > 0 && d.taken+sh.milli <= wholeMilli && d.fits(sh):
			devices += (wholeMilli - d.taken) / sh.milli
		}
	}
	return min(free, devices/max(sh.gpus, 1))
}
