package cluster

import (
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Bottleneck returns the bandwidth of the slowest link between any devices of the seats, in MB/s. Devices on the same
// node communicate over the node's links, and devices on different nodes over the network. If the seats have fewer
// than two devices, Bottleneck returns 0. In the list of seats, those on the same node must be adjacent.
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

// unknownMBps is the bandwidth (10 Gb/s) that Ares assumes for a network that the topology does not describe.
const unknownMBps = 1250

// networkBetween returns the bandwidth of the network between two nodes, in MB/s.
func (c *Cluster) networkBetween(a, b *Node) int {
	if gbps := c.Domains.Bandwidth(a.Pos, b.Pos); gbps > 0 {
		return gbps * 125
	}
	return unknownMBps
}

// firstFitNodes is the number of nodes that FirstFitBandwidth examines. The limit keeps the search short on a busy
// cluster.
const firstFitNodes = 256

// FirstFitBandwidth returns the bottleneck bandwidth of the placement that a first-fit scheduler would choose. Such
// a scheduler tries the allowed nodes in the order of their IDs. The bandwidth is 0 when the members have fewer
// than two whole devices, or when the examined nodes do not have capacity for all members. Callers compare the
// result with the bandwidth of the chosen placement.
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

// RationaleOf returns the placement rationale of seats that were chosen by an earlier decision. The rationale
// consists of the smallest domain that contains all seats, and the bandwidth between the seats.
func (c *Cluster) RationaleOf(seats []ares.Seat) ares.PlacementScore {
	m := ares.PlacementScore{Bandwidth: c.Bottleneck(seats)}
	var at []int
	for i := range seats {
		at = append(at, c.NodesByID[seats[i].Node].Pos)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	lo, hi := at[0], at[len(at)-1]
	if lo == hi {
		m.Level, m.Domain = ares.LevelNode, c.Nodes[lo].ID
		return m
	}
	m.NetworkLatencyNanos = c.Domains.Latency(lo, hi)
	m.NetworkGbps = c.Domains.Bandwidth(lo, at[1])
	for i := 1; i < len(at); i++ { // each switch between the nodes is between two neighbours
		m.NetworkGbps = min(m.NetworkGbps, c.Domains.Bandwidth(at[i-1], at[i]))
	}
	for _, level := range slices.Backward(ares.Levels()) {
		if from, to := c.Domains.EnclosingDomain(lo, level); from <= lo && hi < to && level.Rank() < ares.LevelNode.Rank() {
			m.Level, m.Domain = level, c.Domains.DomainName(lo, level)
			break
		}
	}
	return m
}
