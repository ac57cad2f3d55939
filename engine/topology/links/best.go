package links

import (
	"cmp"
	"math/bits"
)

// maxExact is the largest number of devices for which every set is compared.
const maxExact = 16

// maxMemo limits the results that a Matrix remembers to about 1 MB. When it is
// reached, all of them are dropped. Machines of 8 devices never reach it,
// because they have 256 sets of free devices.
const maxMemo = 8192

// Choice is a set of devices with its properties, the most important first.
type Choice struct {
	Devices        uint64 // bit mask of devices
	BottleneckMBps int    // bottleneck: MB/s of the slowest link between any two, 0 for one device
	TotalMBps      int    // MB/s of all its links
	NUMANodes      int    // number of NUMA nodes it spans
	LocalDevices   int    // number of its devices that are local to the requested CPUs and memory
	RemainingValue int    // island value of the free devices that remain
}

// query is the normalized argument of Best, and the key of remembered results.
type query struct {
	free, local uint64
	count       int
}

// Best returns the best set of count free devices. local is the set of devices
// on the NUMA node with the requested CPUs and memory, or 0 if that does not
// matter. Best returns false if fewer than count devices are free or count is
// not positive.
//
// The better set is the one with, in this order:
//
//  1. the faster slowest link,
//  2. the higher sum of its links,
//  3. fewer NUMA nodes, then more local devices,
//  4. the higher value of the devices that remain (see islandValue),
//  5. the lowest indexes: of two sets, the one with the lowest device that is not
//     in both.
//
// On a machine with an NVSwitch, where all links are equal, NUMA nodes and the
// remaining devices decide; elsewhere the links do. On machines of up to 16
// devices no set is better than the result; for larger ones see growFrom.
//
// A repeated call costs one map lookup and allocates nothing.
func (m *Matrix) Best(free, local uint64, count int) (Choice, bool) {
	q := m.normalize(free, local, count)
	if count < 1 || count > bits.OnesCount64(q.free) {
		return Choice{}, false
	}
	c, ok := m.memo[q]
	if !ok {
		c = m.search(q)
		if len(m.memo) >= maxMemo {
			clear(m.memo)
		}
		m.memo[q] = c
	}
	c.LocalDevices = bits.OnesCount64(c.Devices & local)
	return c, true
}

// normalize drops what does not change the result.
func (m *Matrix) normalize(free, local uint64, count int) query {
	free &= m.allDevices()
	local &= free
	if local == free {
		local = 0 // all devices are equal in this respect
	}
	return query{free, local, count}
}

// search finds the best set for a query.
func (m *Matrix) search(q query) Choice {
	if m.count > maxExact {
		return m.searchGreedy(q)
	}
	t := m.loadTables()
	var best Choice
	for set := q.free; set != 0; set = (set - 1) & q.free {
		if bits.OnesCount64(set) != q.count || t.slowest[set] < best.BottleneckMBps {
			continue
		}
		if c := m.evaluate(q, set); best.Devices == 0 || compareChoices(c, best) < 0 {
			best = c
		}
	}
	return best
}

// evaluate returns the properties of a set.
func (m *Matrix) evaluate(q query, set uint64) Choice {
	c := Choice{Devices: set, NUMANodes: m.numaSpan(set), LocalDevices: bits.OnesCount64(set & q.local), RemainingValue: m.islandValue(q.free &^ set)}
	if m.count > maxExact {
		c.BottleneckMBps, c.TotalMBps = m.linkStats(set)
	} else {
		c.BottleneckMBps, c.TotalMBps = m.loadTables().slowest[set], m.loadTables().total[set]
	}
	return c
}

// compareChoices is negative if a is the better choice. It is a total order on
// the sets that answer one query.
func compareChoices(a, b Choice) int {
	return cmp.Or(
		cmp.Compare(b.BottleneckMBps, a.BottleneckMBps),
		cmp.Compare(b.TotalMBps, a.TotalMBps),
		cmp.Compare(a.NUMANodes, b.NUMANodes),
		cmp.Compare(b.LocalDevices, a.LocalDevices),
		cmp.Compare(b.RemainingValue, a.RemainingValue),
		compareLowest(a.Devices, b.Devices),
	)
}

// compareLowest is negative if a has the lowest device that is not in both
// sets.
func compareLowest(a, b uint64) int {
	switch lowest := (a ^ b) & -(a ^ b); {
	case lowest == 0:
		return 0
	case a&lowest != 0:
		return -1
	}
	return 1
}
