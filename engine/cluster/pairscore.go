package cluster

import (
	"cmp"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// These are the points that each pair of a job's devices adds to the pair score. Users see the pair score of a
// placement, but no decision depends on it.
const (
	sameNode    = 100
	sameRack    = 50
	sameZone    = 20
	sameRegion  = 5
	otherRegion = -50
	byNVLink    = 50
	byPCIe      = -30
	consecutive = 10
)

// rackGroup describes the devices of one job that are in the same rack.
type rackGroup struct {
	region, zone, rack string
	devices            int
	pairs              int // pairs of devices on the same node
}

// PairScore returns the sum of the points of all pairs of devices in the seats. In the list of seats, those on
// the same node must be adjacent.
func (c *Cluster) PairScore(seats []ares.Seat) int {
	total := 0
	var few [8]rackGroup // stays on the stack
	sites := few[:0]
	for i := 0; i < len(seats); {
		n, from := c.NodesByID[seats[i].Node], i
		for i < len(seats) && seats[i].Node == n.ID {
			i++
		}
		inside, devices := n.pairScoreOn(seats[from:i])
		total += inside
		at := n.Place
		sites = append(sites, rackGroup{at.Region, at.Zone, at.Leaf, devices, devices * (devices - 1) / 2})
	}
	if len(sites) < 2 {
		return total
	}
	return total + crossNodeScore(mergeRacks(sites))
}

// pairScoreOn returns the pair score of the devices that the seats have on this node, and the number of these
// devices.
func (n *Node) pairScoreOn(seats []ares.Seat) (total, devices int) {
	var few [16]*Device // stays on the stack
	held := few[:0]
	for i := range seats {
		for _, sh := range seats[i].Shares {
			held = append(held, n.device(sh.Device))
		}
	}
	for i, a := range held {
		for _, b := range held[:i] {
			total += sameNode + n.linkScore(a, b)
			if a.index-b.index == 1 || b.index-a.index == 1 {
				total += consecutive
			}
		}
	}
	return total, len(held)
}

// linkScore returns the points for the link between two devices.
func (n *Node) linkScore(a, b *Device) int {
	if a.linkIndex < 0 || b.linkIndex < 0 || a.linkIndex >= len(n.Record.Links) || b.linkIndex >= len(n.Record.Links[a.linkIndex]) {
		return 0 // the record has no such link
	}
	switch l := n.Record.Links[a.linkIndex][b.linkIndex]; {
	case strings.HasPrefix(l, "NV"):
		return byNVLink
	case l == "PIX" || l == "PXB" || l == "PHB" || l == "NODE" || l == "SYS":
		return byPCIe
	}
	return 0
}

// mergeRacks merges the device groups that are in the same rack. Groups without a rack are merged if
// their region and zone are equal.
func mergeRacks(sites []rackGroup) []rackGroup {
	order := func(a, b rackGroup) int {
		return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.zone, b.zone), cmp.Compare(a.rack, b.rack))
	}
	slices.SortStableFunc(sites, order)
	out := sites[:1]
	for _, st := range sites[1:] {
		if last := &out[len(out)-1]; order(*last, st) == 0 {
			last.devices += st.devices
			last.pairs += st.pairs
			continue
		}
		out = append(out, st)
	}
	return out
}

// crossNodeScore returns the sum of the points of all pairs of devices that are on different nodes.
func crossNodeScore(sites []rackGroup) int {
	total := 0
	for i := range sites {
		a := &sites[i]
		total += (a.devices*(a.devices-1)/2 - a.pairs) * nearness(a, a)
		for k := range i {
			total += a.devices * sites[k].devices * nearness(a, &sites[k])
		}
	}
	return total
}

// The function `nearness` returns the points for a pair of devices on different nodes, one in rack a and one
// in rack b. The result is 0 if the location of either device is unknown.
func nearness(a, b *rackGroup) int {
	switch {
	case a.region != b.region:
		if a.region == "" || b.region == "" {
			return 0
		}
		return otherRegion
	case a.zone == b.zone && a.rack == b.rack && a.rack != "":
		return sameRack
	case a.zone == b.zone && a.zone != "":
		return sameZone
	case a.region != "":
		return sameRegion
	}
	return 0
}
