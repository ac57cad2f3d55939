package links

import (
	"math/bits"
	"strings"
)

// These constants are the bandwidth of each link type in one direction, in MB/s. The numbers are approximations, not
// measurements. The numbers are good enough to rank links and to compare sums of bandwidths. The bandwidth of one
// NVLink depends on its generation: 20 GB/s in the first, 25 GB/s in the second to fourth (V100, A100, H100), and 50
// GB/s in the fifth. All NVLinks of one machine are of the same generation, so the ranking of links is still
// correct. The bandwidths of the other link types are derived from PCIe 4.0 x16 (31.5 GB/s). They are lower for
// every hop towards the other socket. Invariant: all bandwidths are multiples of 1,000 (see islandValue).
const (
	mbpsPerNVLink = 25_000
	mbpsPIX       = 24_000 // one PCIe switch
	mbpsPXB       = 20_000 // several PCIe switches, no host bridge
	mbpsPHB       = 16_000 // through the host bridge of a CPU
	mbpsNODE      = 14_000 // between host bridges of one NUMA node
	mbpsSYS       = 10_000 // between sockets; also every unknown link
)

// MaxDevices is the maximum number of devices per machine. Devices beyond this number are not chosen.
const MaxDevices = 64

// Matrix holds the links between the devices of one kind of machine. A Matrix caches results, so only one goroutine
// at a time may use it.
type Matrix struct {
	count     int              // number of devices
	mbps      [][]int          // between each two devices; symmetric
	numaNodes []uint64         // the devices of each NUMA node; devices with an unknown node share one
	tables    *setTables       // nil until the first search, and on machines above maxExact
	memo      map[query]Choice // results of Best
}

// NewMatrix makes a Matrix from a node's links and from the NUMA node of each device. A NUMA node of -1 means that
// it is unknown. The argument `links` may be nil or incomplete. A missing entry counts as the slowest link. If the
// two directions of a link have different bandwidths, the lower one counts.
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

// The function `cell` returns the entry of the link matrix for devices i and j, or "" if it is missing.
func cell(links [][]string, i, j int) string {
	if i >= len(links) || j >= len(links[i]) {
		return ""
	}
	return links[i][j]
}

// pairMBps returns the bandwidth between two devices, from the link types that both devices report.
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

// LinkMBps returns the bandwidth of a link type in one direction, or 0 if the type is unknown.
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

// Users see a pair score for two devices on the same machine. These constants are the parts of this score. The
// pair score is only displayed with a placement, and no decision depends on it.
const (
	scoreSameNode    = 100
	scoreNVLink      = 50
	scorePCIe        = -30
	scoreConsecutive = 10
)

// PairScore returns the points that two devices of the same machine add to the displayed score. The points depend on
// the link between the devices and on their indexes. Two GPUs with consecutive indexes that are connected by NVLink
// add 160 points.
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

// Len returns the number of devices of the machine.
func (m *Matrix) Len() int { return m.count }

// allDevices returns the set of all devices of the machine.
func (m *Matrix) allDevices() uint64 { return 1<<m.count - 1 }

// BottleneckMBps returns the bandwidth of the slowest link between any two devices of a set, in MB/s. It
// returns 0 for a single device.
func (m *Matrix) BottleneckMBps(set uint64) int {
	slowest, _ := m.linkStats(set & m.allDevices())
	return slowest
}

// linkStats returns the bandwidth of the slowest link in a set, and the sum of the bandwidths of all its links.
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

// FirstFit returns the free devices with the lowest indexes. It ignores links. The parameter `count` is
// the number of devices. If fewer devices are free, FirstFit returns 0.
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

// numaSpan returns the number of NUMA nodes that a set of devices spans.
func (m *Matrix) numaSpan(set uint64) int {
	n := 0
	for _, node := range m.numaNodes {
		if set&node != 0 {
			n++
		}
	}
	return n
}
