package cluster

import (
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Bottleneck returns the bandwidth of the slowest link between the devices of the
// seats, in MB/s: inside a node by its links, between nodes by the network. It is 0
// for fewer than two devices. The seats of one node must be next to each other.
func (c *Cluster) Bottleneck(seats []ares.Seat) int {
	least, devices := 0, 0
	note := func(v int) {
		if least == 0 || v < least {
			least = v
		}
	}
	var last *Node
	for i := 0; i < len(seats); {
		n := c.NodesByID[seats[i].Node]
		var set uint64
		for ; i < len(seats) && seats[i].Node == n.ID; i++ {
			for _, sh := range seats[i].Shares {
				set |= n.deviceBit(sh.Device)
			}
		}
		if count := bits.OnesCount64(set); count > 1 {
			note(n.Type.Links.BottleneckMBps(set))
		}
		devices += bits.OnesCount64(set)
		if last != nil {
			note(c.networkBetween(last, n))
		}
		last = n
	}
	if devices < 2 {
		return 0
	}
	return least
}

// unknownMBps is the assumed bandwidth of a network that the topology does not
// describe: 10 Gb/s.
const unknownMBps = 1250

// networkBetween returns the bandwidth of the network between two nodes, in MB/s.
func (c *Cluster) networkBetween(a, b *Node) int {
	if gbps := c.Domains.Bandwidth(a.Pos, b.Pos); gbps > 0 {
		return gbps * 125
	}
	return unknownMBps
}

// firstFitNodes is the number of nodes that FirstFitBandwidth examines. It bounds the
// cost on a busy cluster.
const firstFitNodes = 256

// FirstFitBandwidth returns the bottleneck of the placement that first fit would choose
// on the allowed nodes, in the order of their IDs. It is 0 when the members
// have fewer than two whole devices, or when the first nodes have no capacity for all of
// them. It shows what a placement gains over first fit.
func (c *Cluster) FirstFitBandwidth(w *Request, allowed *Set, members int) int {
	if w.GPUs == 0 || w.GPUs*members < 2 {
		return 0
	}
	least := 0
	var last *Node
	for i, n := range c.firstByName {
		if i == firstFitNodes || members == 0 {
			break
		}
		if !n.Schedulable() || !allowed.Has(n.Pos) {
			continue
		}
		take := min(n.RoomFor(w), members)
		if take == 0 {
			continue
		}
		members -= take
		m := n.Type.Links
		inside := m.BottleneckMBps(m.FirstFit(w.DeviceMask(n.Type)&n.Free, take*w.GPUs))
		if take*w.GPUs > 1 && (least == 0 || inside < least) {
			least = inside
		}
		if last != nil {
			if v := c.networkBetween(last, n); least == 0 || v < least {
				least = v
			}
		}
		last = n
	}
	if members > 0 {
		return 0
	}
	return least
}

// RationaleOf returns the rationale of seats that an earlier decision chose: their
// bandwidth, and the smallest domain that holds all of them.
func (c *Cluster) RationaleOf(seats []ares.Seat) ares.PlacementScore {
	m := ares.PlacementScore{Bandwidth: c.Bottleneck(seats)}
	lo, hi := len(c.Nodes), 0
	for i := range seats {
		at := c.NodesByID[seats[i].Node].Pos
		lo, hi = min(lo, at), max(hi, at)
	}
	if lo == hi {
		m.Level, m.Domain = ares.LevelNode, c.Nodes[lo].ID
		return m
	}
	for _, level := range slices.Backward(ares.Levels()) {
		if from, to := c.Domains.EnclosingDomain(lo, level); from <= lo && hi < to && level.Rank() < ares.LevelNode.Rank() {
			m.Level, m.Domain = level, c.Domains.DomainName(lo, level)
			break
		}
	}
	return m
}
