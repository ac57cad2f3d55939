package metrics

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Snapshot holds the numbers of an engine.State that are exported as metrics. A Snapshot shares no memory with the state,
// so it can be read after the state has changed.
type Snapshot struct {
	// Waiting is the number of jobs that wait for an allocation, now or after a delay.
	Waiting int
	// Domains, Models and Nodes leave out nodes without a session. Nobody knows what the devices of such a node do, and
	// nothing can be placed there.
	Domains map[Domain]Capacity
	Models  map[string]Capacity // by the model of the devices
	Nodes   map[string]Capacity // by the node's ID; a node without devices is left out
}

// Domain is a part of the cluster. The level "fleet" has one domain, which contains every node.
type Domain struct {
	Level ares.Level
	Name  string
}

// fleet is the domain that contains every node.
var fleet = Domain{Level: "fleet", Name: "fleet"}

// Capacity is the capacity of a set of devices, in thousandths of a device.
type Capacity struct {
	All, Taken int // Invariant: 0 <= Taken <= All.
	// Free is the free capacity of healthy devices on schedulable nodes. Whole is the part of it on nodes without any
	// allocation. Invariant: 0 <= Whole <= Free <= All - Taken.
	Free, Whole int
}

// wholeDevice is the capacity of one device.
const wholeDevice = 1000

// Allocated returns the part of the capacity that is allocated, from 0 to 1.
func (c Capacity) Allocated() float64 { return ratio(c.Taken, c.All) }

// Fragmented returns the part of the free capacity that is on partly used nodes, from 0 to 1.
func (c Capacity) Fragmented() float64 { return ratio(c.Free-c.Whole, c.Free) }

func (c Capacity) plus(o Capacity) Capacity {
	return Capacity{c.All + o.All, c.Taken + o.Taken, c.Free + o.Free, c.Whole + o.Whole}
}

// The function `ratio` returns a/b, or 0 if `b` is 0.
func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Measure reads a Snapshot from a state. The caller must have exclusive access to the state, as for every method of
// engine.State.
func Measure(s *engine.State) Snapshot {
	out := Snapshot{Waiting: s.WaitingJobs(), Domains: map[Domain]Capacity{}, Models: map[string]Capacity{}, Nodes: map[string]Capacity{}}
	for n := range s.Allocations() {
		if n.Session == nil {
			continue
		}
		sum := out.addDevices(n)
		if len(n.Node.Devices) > 0 {
			out.Nodes[n.Node.ID] = sum
		}
		at := &n.Location
		for _, d := range [...]Domain{fleet, {ares.LevelRegion, at.Region}, {ares.LevelZone, at.Zone}, {ares.LevelSpine, at.Spine}, {ares.LevelLeaf, at.Leaf}} {
			if d.Name != "" {
				out.Domains[d] = out.Domains[d].plus(sum)
			}
		}
	}
	return out
}

// addDevices returns the capacity of a node's devices, and adds the capacity to the models of the devices. If a card has
// MIG slices, its slices are counted instead of the card.
func (s *Snapshot) addDevices(n *engine.NodeAllocation) (sum Capacity) {
	sliced := map[string]bool{}
	for i := range n.Node.Devices {
		if parent := n.Node.Devices[i].Parent; parent != "" {
			sliced[parent] = true
		}
	}
	schedulable := n.Cordon == nil && n.Node.Unfit == ""
	for i := range n.Node.Devices {
		d := &n.Node.Devices[i]
		if sliced[d.ID] {
			continue
		}
		one := Capacity{All: wholeDevice, Taken: min(n.Taken[i], wholeDevice)}
		if schedulable && d.Healthy {
			one.Free = one.All - one.Taken
		}
		sum = sum.plus(one)
		s.Models[d.Model] = s.Models[d.Model].plus(one)
	}
	if sum.Taken == 0 {
		sum.Whole = sum.Free
	}
	return sum
}
