package links

import (
	"cmp"
	"math/bits"
)

// greedy answers for machines of more than 16 devices: it grows a set from
// every free device and takes the best of them. Where all links are alike that
// spans the fewest NUMA nodes there can be; where they are not, a better set
// may exist.
func (m *Matrix) greedy(q question) Choice {
	var best Choice
	for seeds := q.free; seeds != 0; seeds &= seeds - 1 {
		c := m.weigh(q, m.grow(q, bits.TrailingZeros64(seeds)))
		if best.Set == 0 || compare(c, best) < 0 {
			best = c
		}
	}
	return best
}

// candidate is a device that a growing set may take next.
type candidate struct {
	device  int
	slowest int // of its links to the set
	total   int
	fit     int // how well its NUMA node suits
	home    bool
}

// grow adds to a device, one at a time, the free device with the fastest
// slowest link to the set, then the highest sum of links to it, then in the
// NUMA node that suits best, then in home, then of the lowest index.
func (m *Matrix) grow(q question, seed int) uint64 {
	var slowest, total [MaxDevices]int // from the set to each device
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
			c := candidate{d, slowest[d], total[d], m.fit(q.free, set, d), q.home>>d&1 == 1}
			if best.slowest == 0 || c.before(best) {
				best = c
			}
		}
		next = best.device
	}
}

// before says whether c is taken rather than o, which has the lower index.
func (c candidate) before(o candidate) bool {
	order := cmp.Or(cmp.Compare(c.slowest, o.slowest), cmp.Compare(c.total, o.total), cmp.Compare(c.fit, o.fit))
	return order > 0 || order == 0 && c.home && !o.home
}

// fit says how well the NUMA node of a device suits a growing set: best is one
// that the set is in already, then the one with the most to give. (That the
// last one is used up well is seen to by the seeds there.)
func (m *Matrix) fit(free, set uint64, device int) int {
	for _, place := range m.places {
		switch {
		case place>>device&1 == 0:
		case set&place != 0:
			return MaxDevices + 1
		default:
			return bits.OnesCount64(free & place)
		}
	}
	return 0
}
