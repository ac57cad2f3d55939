package links

import "math/bits"

// islandSizes lists the numbers of devices that later jobs are expected to request.
var islandSizes = [...]int{2, 4, 8}

// setTables holds the properties of every set of devices on a small machine, indexed by the set's mask. A machine
// with 16 devices has 65,536 sets, which need 1.5 MB. A machine with 8 devices has 256 sets.
type setTables struct {
	slowest     []int // slowest link, 0 for fewer than two devices
	total       []int // sum of the links
	islandValue []int
}

// islandValue returns how useful a set of free devices is for later jobs. An island is a group of devices that one
// later job could use. For each of the sizes 2, 4 and 8, the set is split into disjoint islands of that size. The
// value of an island is the product of two numbers: its number of devices, and the bandwidth of its slowest link in
// MB/s. If the island is within one NUMA node, its number of devices is added to the value. For each size, only the
// split with the highest value counts. The values for the three sizes are added. Bandwidths are multiples of 1,000.
// Therefore NUMA nodes decide only between islands with equal links.
//
// On machines with more than 16 devices, comparing links would take too long, so only NUMA nodes count. On such large
// machines, the value of an island within one NUMA node is its number of devices.
func (m *Matrix) islandValue(set uint64) int {
	if m.count <= maxExact {
		return m.loadTables().islandValue[set]
	}
	sum := 0
	for _, node := range m.numaNodes {
		n := bits.OnesCount64(set & node)
		for _, size := range islandSizes {
			sum += n - n%size
		}
	}
	return sum
}

// loadTables returns the tables, and computes them at the first call.
func (m *Matrix) loadTables() *setTables {
	if m.tables != nil {
		return m.tables
	}
	sets := 1 << m.count
	t := &setTables{make([]int, sets), make([]int, sets), make([]int, sets)}
	for set := uint64(3); set < uint64(sets); set++ {
		rest := set & (set - 1)
		if rest == 0 {
			continue
		}
		row := m.mbps[bits.TrailingZeros64(set)]
		slowest, total := t.slowest[rest], t.total[rest]
		for others := rest; others != 0; others &= others - 1 {
			v := row[bits.TrailingZeros64(others)]
			total += v
			if slowest == 0 || v < slowest {
				slowest = v
			}
		}
		t.slowest[set], t.total[set] = slowest, total
	}
	m.tables = t
	islands := make([]int, sets)
	for _, size := range islandSizes {
		m.packIslands(size, islands)
		for set, v := range islands {
			t.islandValue[set] += v
		}
	}
	return t
}

// packIslands considers disjoint islands of the given size inside each set. It computes their highest total value
// and stores it in out[set]. The device with the lowest index in a set is either in no island, or in an island with
// devices of higher indexes. Sets whose lowest index is high are computed first, because the values of other sets
// depend on them.
func (m *Matrix) packIslands(size int, out []int) {
	for low := m.count - 1; low >= 0; low-- {
		above := m.allDevices() &^ (1<<(low+1) - 1)
		first := uint64(1) << low
		for rest := above; ; rest = (rest - 1) & above {
			out[first|rest] = out[rest] // the device is in no island
			if rest == 0 {
				break
			}
		}
		for others := above; others != 0; others = (others - 1) & above {
			if bits.OnesCount64(others) != size-1 {
				continue
			}
			island := first | others
			value := size * m.tables.slowest[island]
			if m.numaSpan(island) == 1 {
				value += size
			}
			outside := above &^ others
			for rest := outside; ; rest = (rest - 1) & outside {
				out[island|rest] = max(out[island|rest], value+out[rest])
				if rest == 0 {
					break
				}
			}
		}
	}
}
