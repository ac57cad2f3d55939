package links

import (
	"cmp"
	"math/bits"
)

// maxExact is the largest machine on which every set is compared.
const maxExact = 16

// maxMemo bounds the answers a Matrix remembers, about 1 MB. When there are as
// many it forgets them all: machines of 8 devices do not get there, because
// they have 256 sets of free devices.
const maxMemo = 8192

// Choice is a set of devices with what speaks for it, in the order of weight.
type Choice struct {
	Set       uint64
	Bandwidth int // bottleneck: MB/s of the slowest link between any two, 0 for one device
	Total     int // MB/s of all its links
	NUMA      int // NUMA nodes it spans
	Home      int // of its devices, those in home
	Left      int // worth of the free devices it leaves
}

// question is what Best was asked.
type question struct {
	free, home uint64
	count      int
}

// Best picks count of the free devices. home is the set of devices whose NUMA
// node has the CPUs and the memory that are asked for too, 0 when it does not
// matter. It answers false when there are not so many, or count is not positive.
//
// The better set is the one with, in this order:
//
//  1. the faster slowest link,
//  2. the higher sum of its links,
//  3. fewer NUMA nodes, then more devices in home,
//  4. the more valuable rest (see worth),
//  5. the lowest indexes: of two sets, the one that has the lowest device that
//     is not in both.
//
// So on a machine with an NVSwitch, where all links are alike, NUMA nodes and
// the rest decide, and elsewhere the links do. On machines of up to 16 devices
// no set is better than the answer; on larger ones see grow.
//
// A question asked before costs a look-up and allocates nothing.
func (m *Matrix) Best(free, home uint64, count int) (Choice, bool) {
	q := m.question(free, home, count)
	if count < 1 || count > bits.OnesCount64(q.free) {
		return Choice{}, false
	}
	c, ok := m.memo[q]
	if !ok {
		c = m.choose(q)
		if len(m.memo) >= maxMemo {
			clear(m.memo)
		}
		m.memo[q] = c
	}
	c.Home = bits.OnesCount64(c.Set & home)
	return c, true
}

// question leaves out what makes no difference.
func (m *Matrix) question(free, home uint64, count int) question {
	free &= m.all()
	home &= free
	if home == free {
		home = 0 // all alike
	}
	return question{free, home, count}
}

func (m *Matrix) choose(q question) Choice {
	if m.count > maxExact {
		return m.greedy(q)
	}
	t := m.table()
	var best Choice
	for set := q.free; set != 0; set = (set - 1) & q.free {
		if bits.OnesCount64(set) != q.count || t.slowest[set] < best.Bandwidth {
			continue
		}
		if c := m.weigh(q, set); best.Set == 0 || compare(c, best) < 0 {
			best = c
		}
	}
	return best
}

// weigh says what speaks for a set.
func (m *Matrix) weigh(q question, set uint64) Choice {
	c := Choice{Set: set, NUMA: m.spans(set), Home: bits.OnesCount64(set & q.home), Left: m.worth(q.free &^ set)}
	if m.count > maxExact {
		c.Bandwidth, c.Total = m.measure(set)
	} else {
		c.Bandwidth, c.Total = m.table().slowest[set], m.table().total[set]
	}
	return c
}

// compare is negative when a is the better choice. It is a total order of the
// sets that answer one question.
func compare(a, b Choice) int {
	return cmp.Or(
		cmp.Compare(b.Bandwidth, a.Bandwidth),
		cmp.Compare(b.Total, a.Total),
		cmp.Compare(a.NUMA, b.NUMA),
		cmp.Compare(b.Home, a.Home),
		cmp.Compare(b.Left, a.Left),
		lower(a.Set, b.Set),
	)
}

// lower is negative when a has the lowest device that is not in both sets.
func lower(a, b uint64) int {
	switch lowest := (a ^ b) & -(a ^ b); {
	case lowest == 0:
		return 0
	case a&lowest != 0:
		return -1
	}
	return 1
}
