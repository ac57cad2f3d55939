// Package links chooses devices inside one machine by how they reach each
// other: NVLink, PCIe switches, host bridges, sockets.
//
// A Matrix is made once for each kind of machine and asked for every placement
// there. Devices are numbered by their row in ares.Node.Links, and a set of
// them is a bit mask: device i is bit i. See Best for the order of preference.
package links

import (
	"math/bits"
	"strings"
)

// What a link carries, in MB/s and one direction. The figures are an
// approximation that ranks links and makes sums of them sensible; no machine
// is measured. An NVLink carries 25 GB/s from the second generation to the
// fourth (V100, A100, H100); the first carried 20 and the fifth carries 50, but
// all NVLinks of one machine are of one generation, so the order stays right.
// The others are PCIe 4.0 x16 (31.5 GB/s on the wire), less what every step
// towards the other socket costs. All are multiples of 1,000: see worth.
const (
	perNVLink = 25_000
	byPIX     = 24_000 // one PCIe switch between them
	byPXB     = 20_000 // several PCIe switches, no host bridge
	byPHB     = 16_000 // the host bridge of a CPU
	byNODE    = 14_000 // between host bridges of one NUMA node
	bySYS     = 10_000 // between sockets; also every link that is not known
)

// MaxDevices is how many devices of a machine can be told apart; those beyond
// are not chosen.
const MaxDevices = 64

// Matrix is how the devices of one kind of machine reach each other. It
// remembers its answers, so it is for one goroutine at a time.
type Matrix struct {
	count  int
	mbps   [][]int  // between each two devices, both ways alike
	places []uint64 // the devices of each NUMA node; those of an unknown one are together
	tables *tables  // of machines small enough for them, once Best was asked
	memo   map[question]Choice
}

// Compile makes a Matrix of a node's links and of the NUMA node of each device,
// -1 where it is not known. Links may be nil or ragged: what is not said counts
// as the slowest link. Where the two ways of a pair differ, the slower counts.
func Compile(links [][]string, numa []int) *Matrix {
	m := &Matrix{count: min(max(len(links), len(numa)), MaxDevices), memo: map[question]Choice{}}
	m.mbps = make([][]int, m.count)
	for i := range m.mbps {
		m.mbps[i] = make([]int, m.count)
		for j := range m.mbps[i] {
			m.mbps[i][j] = between(cell(links, i, j), cell(links, j, i))
		}
	}
	var nodes []int // of places
	for i := range m.count {
		node := -1
		if i < len(numa) {
			node = max(numa[i], -1)
		}
		at := 0
		for at < len(nodes) && nodes[at] != node {
			at++
		}
		if at == len(nodes) {
			nodes, m.places = append(nodes, node), append(m.places, 0)
		}
		m.places[at] |= 1 << i
	}
	return m
}

func cell(links [][]string, i, j int) string {
	if i >= len(links) || j >= len(links[i]) {
		return ""
	}
	return links[i][j]
}

// between is what a pair's link carries, by what both ends say of it.
func between(there, back string) int {
	a, b := MBps(there), MBps(back)
	switch {
	case a == 0:
		a = b
	case b != 0:
		a = min(a, b)
	}
	if a == 0 {
		return bySYS
	}
	return a
}

// MBps is what a link carries in one direction, 0 for a word that names none.
func MBps(link string) int {
	switch link {
	case "PIX":
		return byPIX
	case "PXB":
		return byPXB
	case "PHB":
		return byPHB
	case "NODE":
		return byNODE
	case "SYS":
		return bySYS
	}
	n, ok := strings.CutPrefix(link, "NV")
	if !ok || n == "" || len(n) > 3 {
		return 0
	}
	count := 0
	for i := range len(n) {
		if n[i] < '0' || n[i] > '9' {
			return 0
		}
		count = count*10 + int(n[i]-'0')
	}
	return count * perNVLink
}

// What each pair of devices on one machine adds to the score that people see
// beside a placement. It decides nothing.
const (
	sameNode    = 100
	linked      = 50  // by NVLink
	unlinked    = -30 // by PCIe
	consecutive = 10
)

// PairScore is what two devices of one machine add to the score people see, by
// their link and their indexes. Two consecutive GPUs with an NVLink have 160.
func PairScore(link string, a, b int) int {
	score := sameNode
	if MBps(link) > 0 {
		if strings.HasPrefix(link, "NV") {
			score += linked
		} else {
			score += unlinked
		}
	}
	if a-b == 1 || b-a == 1 {
		score += consecutive
	}
	return score
}

// Len is how many devices the machine has.
func (m *Matrix) Len() int { return m.count }

// all is the set of every device.
func (m *Matrix) all() uint64 { return 1<<m.count - 1 }

// Bandwidth is the bottleneck of a set in MB/s: its slowest link between any
// two. A set of one device has none and answers 0.
func (m *Matrix) Bandwidth(set uint64) int {
	slowest, _ := m.measure(set & m.all())
	return slowest
}

// measure finds the slowest link of a set and the sum of all.
func (m *Matrix) measure(set uint64) (slowest, total int) {
	for rest := set; rest != 0; {
		row := m.mbps[bits.TrailingZeros64(rest)]
		rest &= rest - 1
		for others := rest; others != 0; others &= others - 1 {
			v := row[bits.TrailingZeros64(others)]
			total += v
			if slowest == 0 || v < slowest {
				slowest = v
			}
		}
	}
	return slowest, total
}

// FirstFit is the choice that looks at no link: the lowest count devices of
// free, 0 when there are not so many.
func (m *Matrix) FirstFit(free uint64, count int) uint64 {
	free &= m.all()
	if count < 1 || count > bits.OnesCount64(free) {
		return 0
	}
	rest := free
	for range count {
		rest &= rest - 1
	}
	return free &^ rest
}

// spans counts the NUMA nodes of a set.
func (m *Matrix) spans(set uint64) int {
	n := 0
	for _, place := range m.places {
		if set&place != 0 {
			n++
		}
	}
	return n
}
