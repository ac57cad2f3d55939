package links

import "math/bits"

// islandSizes are the sizes of sets that later jobs will want.
var islandSizes = [...]int{2, 4, 8}

// tables hold what is asked of every set of a small machine, by its mask. A
// machine of 16 devices has 65,536 sets, 1.5 MB; one of 8 has 256.
type tables struct {
	slowest []int // link; 0 for fewer than two devices
	total   []int // of its links
	worth   []int
}

// worth is what a set of free devices is still good for. For each of the sizes
// 2, 4 and 8 it is cut into disjoint islands of that size; every device in one
// counts with the slowest link of its island in MB/s, and one more when the
// island is within one NUMA node; of all ways to cut, the best counts, and the
// three sizes are added up. So links decide, being multiples of 1,000, and NUMA
// nodes where links are alike.
//
// On machines of more than 16 devices, where the cutting would take too long,
// only NUMA nodes count: every device in an island within one.
func (m *Matrix) worth(set uint64) int {
	if m.count <= maxExact {
		return m.table().worth[set]
	}
	sum := 0
	for _, place := range m.places {
		n := bits.OnesCount64(set & place)
		for _, size := range islandSizes {
			sum += n - n%size
		}
	}
	return sum
}

// table returns the tables, made when they are first asked for.
func (m *Matrix) table() *tables {
	if m.tables != nil {
		return m.tables
	}
	sets := 1 << m.count
	t := &tables{make([]int, sets), make([]int, sets), make([]int, sets)}
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
		m.cut(size, islands)
		for set, v := range islands {
			t.worth[set] += v
		}
	}
	return t
}

// cut fills out with the most that disjoint islands of a size inside each set
// are worth together. A set's lowest device is in no island, or in one with
// devices above it; so sets are done by their lowest device, highest first, and
// what an island leaves above it is known by then.
func (m *Matrix) cut(size int, out []int) {
	for low := m.count - 1; low >= 0; low-- {
		above := m.all() &^ (1<<(low+1) - 1)
		first := uint64(1) << low
		for rest := above; ; rest = (rest - 1) & above {
			out[first|rest] = out[rest] // the device left out
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
			if m.spans(island) == 1 {
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
