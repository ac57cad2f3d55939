package links

import (
	"math/bits"
	"strings"
)

// Bandwidth of each link type in MB/s, in one direction. The numbers are
// approximations that rank links and make their sums meaningful; they are not
// measured. An NVLink carries 25 GB/s from the second generation to the fourth
// (V100, A100, H100); the first carried 20 and the fifth carries 50, but all
// NVLinks of one machine are of one generation, so the ranking is right. The
// others are PCIe 4.0 x16 (31.5 GB/s on the wire), reduced for every hop towards
// the other socket. Invariant: all are multiples of 1,000 (see islandValue).
const (
	mbpsPerNVLink = 25_000
	mbpsPIX       = 24_000 // one PCIe switch
	mbpsPXB       = 20_000 // several PCIe switches, no host bridge
	mbpsPHB       = 16_000 // through the host bridge of a CPU
	mbpsNODE      = 14_000 // between host bridges of one NUMA node
	mbpsSYS       = 10_000 // between sockets; also every unknown link
)

// MaxDevices is the largest number of devices per machine. Devices beyond it
// are not chosen.
const MaxDevices = 64

// Matrix has the links between the devices of one kind of machine. It remembers
// results, so it must be used by one goroutine at a time.
type Matrix struct {
	count     int              // number of devices
	mbps      [][]int          // between each two devices; symmetric
	numaNodes []uint64         // the devices of each NUMA node; devices with an unknown node share one
	tables    *setTables       // nil until the first search, and on machines above maxExact
	memo      map[query]Choice // results of Best
}

// NewMatrix makes a Matrix from a node's links and the NUMA node of each device,
// -1 if unknown. Links may be nil or ragged: a missing entry counts as the
// slowest link. If the two directions of a pair differ, the slower one counts.
func NewMatrix(links [][]string, numa []int) *Matrix {
	m := &Matrix{count: min(max(len(links), len(numa)), MaxDevices), memo: map[query]Choice{}}
	m.mbps = make([][]int, m.count)
	for i := range m.mbps {
		m.mbps[i] = make([]int, m.count)
		for j := range m.mbps[i] {
			m.mbps[i][j] = pairMBps(cell(links, i, j), cell(links, j, i))
		}
	}
	var nodes []int // the numbers of m.numaNodes
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
			nodes, m.numaNodes = append(nodes, node), append(m.numaNodes, 0)
		}
		m.numaNodes[at] |= 1 << i
	}
	return m
}

// cell returns an entry of the links, "" if it is missing.
func cell(links [][]string, i, j int) string {
	if i >= len(links) || j >= len(links[i]) {
		return ""
	}
	return links[i][j]
}

// pairMBps returns the bandwidth of a pair from what both ends report.
func pairMBps(there, back string) int {
	a, b := LinkMBps(there), LinkMBps(back)
	switch {
	case a == 0:
		a = b
	case b != 0:
		a = min(a, b)
	}
	if a == 0 {
		return mbpsSYS
	}
	return a
}

// LinkMBps returns the bandwidth of a link type in one direction, 0 for an unknown
// type.
func LinkMBps(link string) int {
	switch link {
	case "PIX":
		return mbpsPIX
	case "PXB":
		return mbpsPXB
	case "PHB":
		return mbpsPHB
	case "NODE":
		return mbpsNODE
	case "SYS":
		return mbpsSYS
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
	return count * mbpsPerNVLink
}

// Parts of the displayed score of each pair of devices on one machine. The score
// is shown with a placement and decides nothing.
const (
	scoreSameNode    = 100
	scoreNVLink      = 50
	scorePCIe        = -30
	scoreConsecutive = 10
)

// PairScore returns what two devices of one machine add to the displayed score,
// by their link and their indexes. Two consecutive GPUs with an NVLink have
// 160.
func PairScore(link string, a, b int) int {
	score := scoreSameNode
	if LinkMBps(link) > 0 {
		if strings.HasPrefix(link, "NV") {
			score += scoreNVLink
		} else {
			score += scorePCIe
		}
	}
	if a-b == 1 || b-a == 1 {
		score += scoreConsecutive
	}
	return score
}

// Len returns the number of devices.
func (m *Matrix) Len() int { return m.count }

// allDevices returns the set of all devices.
func (m *Matrix) allDevices() uint64 { return 1<<m.count - 1 }

// BottleneckMBps returns the bottleneck of a set in MB/s: its slowest link between
// any two devices, 0 for a single device.
func (m *Matrix) BottleneckMBps(set uint64) int {
	slowest, _ := m.linkStats(set & m.allDevices())
	return slowest
}

// linkStats returns the slowest link of a set and the sum of its links.
func (m *Matrix) linkStats(set uint64) (slowest, total int) {
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

// FirstFit returns the set that ignores links: the count lowest free devices,
// or 0 if there are fewer.
func (m *Matrix) FirstFit(free uint64, count int) uint64 {
	free &= m.allDevices()
	if count < 1 || count > bits.OnesCount64(free) {
		return 0
	}
	rest := free
	for range count {
		rest &= rest - 1
	}
	return free &^ rest
}

// numaSpan returns the number of NUMA nodes of a set.
func (m *Matrix) numaSpan(set uint64) int {
	n := 0
	for _, node := range m.numaNodes {
		if set&node != 0 {
			n++
		}
	}
	return n
}
