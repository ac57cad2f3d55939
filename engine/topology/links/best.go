package links

import (
	"cmp"
	"math/bits"
)

// If a machine has more than maxExact devices, Best does not compare all sets of devices.
const maxExact = 16

// maxMemo limits the cached results of a Matrix to about 1 MB. When the limit is reached, all cached results
// are dropped. Machines with 8 devices never reach the limit, because they have only 256 sets of free devices.
const maxMemo = 8192

// Choice is a set of devices with its properties. The properties are declared in the order of their importance.
type Choice struct {
	Devices        uint64 // bit mask of devices
	BottleneckMBps int    // bottleneck: MB/s of the slowest link between any two, 0 for one device
	TotalMBps      int    // MB/s of all its links
	NUMANodes      int    // number of NUMA nodes it spans
	LocalDevices   int    // number of its devices that are local to the requested CPUs and memory
	RemainingValue int    // island value of the free devices that remain
}

// A `query` is the normalized argument of Best. It is also the key of cached results.
type query struct {
	free, local uint64
	count       int
}

// Best returns the best set of free devices. The argument `count` is the size of the set. The argument
// `local` is the set of devices on the NUMA node with the requested CPUs and memory, or 0 if NUMA does not
// matter. Best returns false if fewer than `count` devices are free, or if `count` is not positive.
//
// Of two sets, the better one has, in this order:
//
//  1. a higher bandwidth of its slowest link,
//  2. a higher total bandwidth of its links,
//  3. fewer NUMA nodes, then more local devices,
//  4. a higher value of the devices that remain free (see islandValue),
//  5. the lowest indexes: if two sets differ, the better one contains the lowest device that is not in both sets.
//
// On a machine with an NVSwitch, all links are equal. There the NUMA nodes and the remaining devices decide. On
// machines with unequal links, the links decide. On machines with up to 16 devices, Best always finds the best
// set. On larger machines, Best uses the algorithm of growFrom.
//
// A repeated call of Best costs one map lookup and allocates no memory.
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

// Different arguments may lead to the same result. For such arguments, the method `normalize` returns
// the same query, so that they share a cached result.
func (m *Matrix) normalize(free, local uint64, count int) query {
	free &= m.allDevices()
	local &= free
	if local == free {
		local = 0 // all devices are equal in this respect
	}
	return query{free, local, count}
}

// The method `search` finds the best set for a query.
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

// The method `evaluate` returns the properties of a set.
func (m *Matrix) evaluate(q query, set uint64) Choice {
	c := Choice{Devices: set, NUMANodes: m.numaSpan(set), LocalDevices: bits.OnesCount64(set & q.local), RemainingValue: m.islandValue(q.free &^ set)}
	if m.count > maxExact {
		c.BottleneckMBps, c.TotalMBps = m.linkStats(set)
	} else {
		c.BottleneckMBps, c.TotalMBps = m.loadTables().slowest[set], m.loadTables().total[set]
	}
	return c
}

// compareChoices returns a negative number if choice a is better than b. compareChoices defines a total order on all
// sets that answer the same query.
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

// compareLowest returns a negative number if set a contains the lowest device that is not in both sets.
func compareLowest(a, b uint64) int {
	switch lowest := (a ^ b) & -(a ^ b); {
	case lowest == 0:
		return 0
	case a&lowest != 0:
		return -1
	}
	return 1
}
