package links

import (
	"cmp"
	"math/bits"
)

// searchGreedy handles machines with more than 16 devices. searchGreedy grows a set from every free device and
// returns the best of these sets. If all links are equal, the returned set spans the fewest possible NUMA nodes. If
// the links differ, a better set than the returned one may exist.
func (m *Matrix) searchGreedy(q query) Choice {
	var best Choice
	for seeds := q.free; seeds != 0; seeds &= seeds - 1 {
		c := m.evaluate(q, m.growFrom(q, bits.TrailingZeros64(seeds)))
		if best.Devices == 0 || compareChoices(c, best) < 0 {
			best = c
		}
	}
	return best
}

// A `candidate` is a device that may be added to a growing set.
type candidate struct {
	device   int
	slowest  int  // of its links to the set
	total    int  // of its links to the set
	numaRank int  // see Matrix.numaRank
	isLocal  bool // near the requested CPUs and memory
}

// growFrom grows a set of devices. It starts with the device `seed`. Each step adds one free device. The step
// first compares the slowest link from each device to the set, and prefers the device where this link is
// fastest. On a tie, it prefers the highest sum of links to the set. The next criteria are the highest NUMA
// rank, a local device, and the lowest index.
func (m *Matrix) growFrom(q query, seed int) uint64 {
	var slowest, total [MaxDevices]int // of the links from the set to each device
	set := uint64(0)
	for next := seed; ; {
		set |= 1 << next
		if bits.OnesCount64(set) == q.count {
			return set
		}
		var best candidate
		for others := q.free &^ set; others != 0; others &= others - 1 {
			d := bits.TrailingZeros64(others)
			v := m.mbps[next][d]
			total[d] += v
			if slowest[d] == 0 || v < slowest[d] {
				slowest[d] = v
			}
			c := candidate{d, slowest[d], total[d], m.numaRank(q.free, set, d), q.local>>d&1 == 1}
			if best.slowest == 0 || c.isBetter(best) {
				best = c
			}
		}
		next = best.device
	}
}

// isBetter reports whether candidate c is better than candidate o, which has the lower index.
func (c candidate) isBetter(o candidate) bool {
	order := cmp.Or(cmp.Compare(c.slowest, o.slowest), cmp.Compare(c.total, o.total), cmp.Compare(c.numaRank, o.numaRank))
	return order > 0 || order == 0 && c.isLocal && !o.isLocal
}

// numaRank ranks the NUMA node of a device for a growing set. A NUMA node that the set already uses has the highest
// rank. Other NUMA nodes are ranked by their number of free devices. The last NUMA node of a set needs no special
// rank, because searchGreedy also grows a set that starts in that NUMA node.
func (m *Matrix) numaRank(free, set uint64, device int) int {
	for _, node := range m.numaNodes {
		switch {
		case node>>device&1 == 0:
		case set&node != 0:
			return MaxDevices + 1
		default:
			return bits.OnesCount64(free & node)
		}
	}
	return 0
}
