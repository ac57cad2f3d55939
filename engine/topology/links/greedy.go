package links

import (
	"cmp"
	"math/bits"
)

// searchGreedy is used for machines of more than 16 devices: it grows a set
// from every free device and returns the best of them. If all links are equal,
// that set spans the fewest possible NUMA nodes; otherwise a better set may
// exist.
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

// candidate is a device that may be added to a growing set.
type candidate struct {
	device   int
	slowest  int  // of its links to the set
	total    int  // of its links to the set
	numaRank int  // see Matrix.numaRank
	isLocal  bool // near the requested CPUs and memory
}

// growFrom grows a set from the device seed. Each step adds the free device
// with the fastest slowest link to the set, then the highest sum of links to
// it, then the highest NUMA rank, then a local device, then the lowest index.
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

// isBetter reports whether c is preferred to o, which has the lower index.
func (c candidate) isBetter(o candidate) bool {
	order := cmp.Or(cmp.Compare(c.slowest, o.slowest), cmp.Compare(c.total, o.total), cmp.Compare(c.numaRank, o.numaRank))
	return order > 0 || order == 0 && c.isLocal && !o.isLocal
}

// numaRank ranks the NUMA node of a device for a growing set: highest is a node
// that the set uses already, then the node with the most free devices. (A good
// use of the last node needs no rule: some seed starts there.)
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
