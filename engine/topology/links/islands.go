package links

import "math/bits"

// islandSizes are the sizes of sets that later jobs will request.
var islandSizes = [...]int{2, 4, 8}

// setTables has the properties of every set of a small machine, indexed by its
// mask. A machine of 16 devices has 65,536 sets, 1.5 MB; one of 8 has 256.
type setTables struct {
	slowest     []int // slowest link, 0 for fewer than two devices
	total       []int // sum of the links
	islandValue []int
}

// islandValue returns how useful a set of free devices is for later jobs. For
// each of the sizes 2, 4 and 8, the set is split into disjoint islands of that
// size. Every device of an island counts with the island's slowest link in
// MB/s, plus one if the island is within one NUMA node. The best split counts,
// and the three sizes are added up. Links decide, because they are multiples of
// 1,000; NUMA nodes decide between equal links.
//
// On machines of more than 16 devices, where this would take too long, only
// NUMA nodes count: every device of an island within one node counts once.
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

// loadTables returns the tables and computes them at the first call.
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

// packIslands sets out[set] to the highest value of disjoint islands of a size
// inside each set. The lowest device of a set is in no island, or in one with
// devices above it. Sets are therefore computed by their lowest device, highest
// first, so that the value of the devices above an island is known.
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
