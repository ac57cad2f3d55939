package links

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// parseLinks parses a matrix of links.
func parseLinks(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}

// uniformLinks returns the links of a machine that has the same link between all devices.
func uniformLinks(n int, link string) [][]string {
	rows := make([][]string, n)
	for i := range rows {
		rows[i] = slices.Repeat([]string{link}, n)
		rows[i][i] = "X"
	}
	return rows
}

var (
	dgx1 = NewMatrix(parseLinks(`
		X   NV1 NV1 NV2 NV2 SYS SYS SYS
		NV1 X   NV2 NV1 SYS NV2 SYS SYS
		NV1 NV2 X   NV2 SYS SYS NV1 SYS
		NV2 NV1 NV2 X   SYS SYS SYS NV1
		NV2 SYS SYS SYS X   NV1 NV1 NV2
		SYS NV2 SYS SYS NV1 X   NV2 NV1
		SYS SYS NV1 SYS NV1 NV2 X   NV2
		SYS SYS SYS NV1 NV2 NV1 NV2 X`), []int{0, 0, 0, 0, 1, 1, 1, 1})
	v100 = NewMatrix(parseLinks(`
		X   NV2 SYS SYS
		NV2 X   SYS SYS
		SYS SYS X   NV2
		SYS SYS NV2 X`), []int{0, 0, 1, 1})
	h100 = NewMatrix(uniformLinks(8, "NV18"), []int{0, 0, 0, 0, 1, 1, 1, 1})
	a100 = NewMatrix(uniformLinks(8, "NV12"), []int{3, 3, 1, 1, 7, 7, 5, 5})
	pcie = NewMatrix(parseLinks(`
		X   PIX PXB PXB SYS SYS SYS SYS
		PIX X   PXB PXB SYS SYS SYS SYS
		PXB PXB X   PIX SYS SYS SYS SYS
		PXB PXB PIX X   SYS SYS SYS SYS
		SYS SYS SYS SYS X    PIX  NODE NODE
		SYS SYS SYS SYS PIX  X    NODE NODE
		SYS SYS SYS SYS NODE NODE X    PIX
		SYS SYS SYS SYS NODE NODE PIX  X`), []int{0, 0, 0, 0, 1, 1, 1, 1})
	unknown = NewMatrix(nil, []int{0, 0, 1, 1})
)

// parseSet parses a set of devices, such as "0,1,4-6", and returns its mask.
func parseSet(text string) uint64 {
	var mask uint64
	for part := range strings.SplitSeq(text, ",") {
		var from, to int
		if n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); n < 2 {
			to = from
		}
		for i := from; i <= to; i++ {
			mask |= 1 << i
		}
	}
	return mask
}

func TestBestOnMachines(t *testing.T) {
	for _, c := range []struct {
		name        string
		m           *Matrix
		free, local string
		count       int
		want        string
		bandwidth   int
	}{
		{"a pair by two links", dgx1, "0-7", "", 2, "0,3", 50_000},
		{"four in one quad", dgx1, "0-7", "", 4, "0-3", 25_000},
		{"four across quads would lack links", dgx1, "1-7", "", 4, "4-7", 25_000},
		{"two links across sockets beat one inside", dgx1, "0,1,4", "", 2, "0,4", 50_000},
		{"all", dgx1, "0-7", "", 8, "0-7", 10_000},
		{"one leaves the best islands", v100, "1-3", "", 1, "1", 0},
		{"a linked pair, not the first two", v100, "1-3", "", 2, "2,3", 50_000},
		{"both pairs are alike", v100, "0-3", "", 2, "0,1", 50_000},
		{"local where links are alike", v100, "0-3", "2,3", 2, "2,3", 50_000},
		{"links before local", v100, "0,1,2", "2", 2, "0,1", 50_000},
		{"a switch: lowest", h100, "0-7", "", 2, "0,1", 450_000},
		{"a switch: local", h100, "0-7", "4-7", 2, "4,5", 450_000},
		{"a switch: one NUMA node", h100, "3-7", "", 2, "4,5", 450_000},
		{"a switch: the broken NUMA node first", h100, "0-3,5-7", "", 1, "5", 0},
		{"a switch: pairs stay whole", a100, "0-4,6,7", "", 1, "4", 0},
		{"a switch: fewest NUMA nodes", a100, "1-7", "", 4, "2-5", 300_000},
		{"a PCIe switch", pcie, "1-7", "", 2, "2,3", 24_000},
		{"four below one host bridge", pcie, "0-7", "", 4, "0-3", 20_000},
		{"one spares the better four", pcie, "0-7", "", 1, "4", 0},
		{"one takes the odd one out", pcie, "0,1,3-7", "", 1, "3", 0},
		{"no links known: NUMA", unknown, "1-3", "", 2, "2,3", 10_000},
	} {
		local := uint64(0)
		if c.local != "" {
			local = parseSet(c.local)
		}
		got, ok := c.m.Best(parseSet(c.free), local, c.count)
		if !ok || got.Devices != parseSet(c.want) || got.BottleneckMBps != c.bandwidth || c.m.BottleneckMBps(got.Devices) != c.bandwidth {
			t.Errorf("%s: %b %d MB/s, want %s %d\n%s", c.name, got.Devices, got.BottleneckMBps, c.want, c.bandwidth,
				strings.Join(c.m.Explain(parseSet(c.free), local, c.count, nil), "\n"))
		}
	}
}

func TestBestRefuses(t *testing.T) {
	for _, c := range []struct {
		free  uint64
		count int
	}{{0b111, 4}, {0, 1}, {0b1111, 0}, {0b1111, -1}, {0b11110000, 1}} {
		if got, ok := v100.Best(c.free, 0, c.count); ok {
			t.Errorf("%d of %b: %v", c.count, c.free, got)
		}
		if c.free == 0b111 && v100.FirstFit(c.free, c.count) != 0 {
			t.Errorf("first fit finds %d in %b", c.count, c.free)
		}
	}
	if c, ok := NewMatrix(nil, nil).Best(^uint64(0), 0, 1); ok {
		t.Errorf("a machine without devices: %v", c)
	}
}

func TestCompile(t *testing.T) {
	for _, c := range []struct {
		name  string
		links [][]string
		numa  []int
		count int
		pair  int // MB/s between devices 0 and 1
	}{
		{"nothing", nil, nil, 0, 0},
		{"no links", nil, []int{0, 0}, 2, mbpsSYS},
		{"no NUMA nodes", uniformLinks(2, "NV4"), nil, 2, 100_000},
		{"one way said", [][]string{{"X", "PIX"}}, []int{0, 0}, 2, mbpsPIX},
		{"the other way said", [][]string{nil, {"PXB", "X"}}, []int{0, 0}, 2, mbpsPXB},
		{"the slower way counts", [][]string{{"X", "NV2"}, {"NV1", "X"}}, nil, 2, 25_000},
		{"not a link", [][]string{{"X", "X"}, {"X", "X"}}, nil, 2, mbpsSYS},
		{"nonsense", [][]string{{"X", "NV"}, {"NV-4", "X"}}, nil, 2, mbpsSYS},
		{"no NVLink at all", [][]string{{"X", "NV0"}, {"NV0", "X"}}, nil, 2, mbpsSYS},
		{"too many", nil, make([]int, 70), 64, mbpsSYS},
	} {
		m := NewMatrix(c.links, c.numa)
		if m.Len() != c.count || m.BottleneckMBps(0b11) != c.pair {
			t.Errorf("%s: %d devices, %d MB/s", c.name, m.Len(), m.BottleneckMBps(0b11))
		}
	}
}

func TestFirstFit(t *testing.T) {
	for _, c := range []struct {
		free  string
		count int
		want  string
	}{{"0-7", 2, "0,1"}, {"1,5,7", 2, "1,5"}, {"1,5,7", 3, "1,5,7"}} {
		if got := h100.FirstFit(parseSet(c.free), c.count); got != parseSet(c.want) {
			t.Errorf("%d of %s: %b", c.count, c.free, got)
		}
	}
}

func TestPairScore(t *testing.T) {
	for _, c := range []struct {
		link string
		a, b int
		want int
	}{{"NV2", 0, 1, 160}, {"NV2", 0, 2, 150}, {"SYS", 1, 0, 80}, {"PIX", 4, 2, 70}, {"", 0, 1, 110}, {"NV0", 0, 5, 100}} {
		if got := PairScore(c.link, c.a, c.b); got != c.want {
			t.Errorf("%q %d %d: %d, want %d", c.link, c.a, c.b, got, c.want)
		}
	}
}

// bruteForce implements the definition of Best directly. It uses lists instead of masks.
type bruteForce struct {
	mbps    func(a, b int) int
	numa    []int
	islands map[string]int // results of bestIslands
}

type answer struct {
	devices                                  []int
	slowest, total, numa, local, islandValue int
}

func (b *bruteForce) value(devices []int) (slowest, total, numa int) {
	nodes := map[int]bool{}
	for i, x := range devices {
		nodes[max(b.numa[x], -1)] = true
		for _, y := range devices[:i] {
			v := b.mbps(x, y)
			total += v
			if slowest == 0 || v < slowest {
				slowest = v
			}
		}
	}
	return slowest, total, len(nodes)
}

// bestIslands returns the highest total value of disjoint islands of the given size.
func (b *bruteForce) bestIslands(devices []int, size int) int {
	if len(devices) < size {
		return 0
	}
	key := fmt.Sprint(size, devices)
	if v, ok := b.islands[key]; ok {
		return v
	}
	best := b.bestIslands(devices[1:], size)
	for _, others := range combinations(devices[1:], size-1) {
		island := append([]int{devices[0]}, others...)
		slowest, _, numa := b.value(island)
		if numa == 1 {
			slowest++
		}
		rest := slices.DeleteFunc(slices.Clone(devices), func(d int) bool { return slices.Contains(island, d) })
		best = max(best, slowest*size+b.bestIslands(rest, size))
	}
	b.islands[key] = best
	return best
}

func combinations(of []int, count int) [][]int {
	if count == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for i := range of {
		for _, more := range combinations(of[i+1:], count-1) {
			all = append(all, append([]int{of[i]}, more...))
		}
	}
	return all
}

func (b *bruteForce) best(free, local []int, count int) answer {
	var best answer
	for _, devices := range combinations(free, count) {
		a := answer{devices: devices}
		a.slowest, a.total, a.numa = b.value(devices)
		for _, d := range devices {
			if slices.Contains(local, d) {
				a.local++
			}
		}
		rest := slices.DeleteFunc(slices.Clone(free), func(d int) bool { return slices.Contains(devices, d) })
		a.islandValue = b.bestIslands(rest, 2) + b.bestIslands(rest, 4) + b.bestIslands(rest, 8)
		if best.devices == nil || cmp.Or(
			cmp.Compare(a.slowest, best.slowest), cmp.Compare(a.total, best.total), cmp.Compare(best.numa, a.numa),
			cmp.Compare(a.local, best.local), cmp.Compare(a.islandValue, best.islandValue), slices.Compare(best.devices, a.devices),
		) > 0 {
			best = a
		}
	}
	return best
}

// randomMachine returns a machine with n devices whose links follow one of several random patterns.
func randomMachine(r *rand.Rand, n int) (links [][]string, numa []int) {
	words := [][]string{
		{"NV1", "NV2", "SYS"},
		{"NV18"},
		{"PIX", "PXB", "PHB", "NODE", "SYS"},
		{"NV4", "SYS"},
		{"NV1", "NV2", "NV3", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS", "", "X", "odd"},
	}[r.IntN(5)]
	nodes := 1 + r.IntN(4)
	for i := range n {
		links = append(links, make([]string, n))
		numa = append(numa, r.IntN(nodes+1)-1)
		for j := range i {
			links[i][j] = words[r.IntN(len(words))]
			links[j][i] = links[i][j]
		}
		links[i][i] = "X"
	}
	return links, numa
}

func devicesOf(mask uint64) []int {
	var all []int
	for ; mask != 0; mask &= mask - 1 {
		all = append(all, bits.TrailingZeros64(mask))
	}
	return all
}

func compareWithBruteForce(t *testing.T, r *rand.Rand, n, questions int) {
	t.Helper()
	links, numa := randomMachine(r, n)
	m := NewMatrix(links, numa)
	b := bruteForce{numa: numa, islands: map[string]int{}, mbps: func(x, y int) int {
		if v := LinkMBps(links[x][y]); v > 0 {
			return v
		}
		return LinkMBps("SYS")
	}}
	for range questions {
		free, local := r.Uint64()&(1<<n-1), r.Uint64()&r.Uint64()
		if free == 0 || r.IntN(4) == 0 {
			free = 1<<n - 1
		}
		if r.IntN(2) == 0 {
			local = 0
		}
		count := 1 + r.IntN(bits.OnesCount64(free))
		want := b.best(devicesOf(free), devicesOf(local&free), count)
		for range 2 { // the first call computes the result, the second uses the cache
			got, ok := m.Best(free, local, count)
			if (answer{devicesOf(got.Devices), got.BottleneckMBps, got.TotalMBps, got.NUMANodes, got.LocalDevices, got.RemainingValue}).differs(want) || !ok {
				t.Fatalf("%d of %b, local %b: %+v, want %+v\n%v\n%v", count, free, local, got, want, links, numa)
			}
		}
	}
}

func (a answer) differs(o answer) bool {
	return !slices.Equal(a.devices, o.devices) || a.slowest != o.slowest || a.total != o.total || a.numa != o.numa ||
		a.local != o.local || a.islandValue != o.islandValue
}

func TestBestAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 10; n++ {
		for range 100 {
			compareWithBruteForce(t, r, n, 10)
		}
	}
	if testing.Short() {
		return
	}
	for n := 11; n <= 16; n++ {
		compareWithBruteForce(t, r, n, 3)
	}
}

// TestBestOnLargeSwitches checks machines with more than 16 devices and equal links. The result must use the fewest
// NUMA nodes. It must be local if one local NUMA node is enough.
func TestBestOnLargeSwitches(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		n := 17 + r.IntN(MaxDevices-16)
		numa := make([]int, n)
		nodes := 1 + r.IntN(8)
		for i := range numa {
			numa[i] = r.IntN(nodes)
		}
		m := NewMatrix(uniformLinks(n, "NV18"), numa)
		free := r.Uint64() & m.allDevices()
		if free == 0 {
			continue
		}
		count := 1 + r.IntN(bits.OnesCount64(free))
		at := r.IntN(nodes)
		var local uint64
		held := make([]int, nodes)
		for _, d := range devicesOf(free) {
			held[numa[d]]++
			if numa[d] == at {
				local |= 1 << d
			}
		}
		room := held[at] >= count
		slices.Sort(held)
		fewest := 0
		for left := count; left > 0; fewest++ {
			left -= held[len(held)-1-fewest]
		}
		got, ok := m.Best(free, local, count)
		if !ok || got.Devices&^free != 0 || bits.OnesCount64(got.Devices) != count || got.NUMANodes != fewest || room && got.Devices&^local != 0 {
			t.Fatalf("%d of %b, local %b: %+v, want %d NUMA nodes\n%v", count, free, local, got, fewest, numa)
		}
	}
}

// TestBestOnLargeSwitchesByNUMA checks requests that need several NUMA nodes. Local NUMA nodes must be used first.
// A partly used NUMA node must be used before a free one.
func TestBestOnLargeSwitchesByNUMA(t *testing.T) {
	numa := make([]int, 24)
	for i := range numa {
		numa[i] = i / 8
	}
	m := NewMatrix(uniformLinks(24, "NV18"), numa)
	for _, c := range []struct {
		free, local string
		count       int
		want        string
	}{
		{"0-23", "8-23", 16, "8-23"},
		{"0-23", "16-23", 16, "0-7,16-23"},
		{"0-11,16-23", "", 4, "8-11"},
		{"0-11,16-23", "", 12, "0-11"},
		{"0-11,16-23", "", 10, "0-5,8-11"},
	} {
		local := uint64(0)
		if c.local != "" {
			local = parseSet(c.local)
		}
		got, ok := m.Best(parseSet(c.free), local, c.count)
		if !ok || got.Devices != parseSet(c.want) {
			t.Errorf("%d of %s: %v, want %s", c.count, c.free, devicesOf(got.Devices), c.want)
		}
	}
}

// TestGrowingIsNearTheBest compares growFrom with the exact search, on machines that are small enough for both
// algorithms. On at least 99% of 2,000 machines, the slowest links of both results must be equally fast. On at
// least 97%, the sums of the links must be equal too.
func TestGrowingIsNearTheBest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const machines = 2000
	fast, full := 0, 0
	for range machines {
		m := NewMatrix(randomMachine(r, 8))
		q := m.normalize(m.allDevices(), 0, 2+r.IntN(4))
		got, want := m.searchGreedy(q), m.search(q)
		if got.BottleneckMBps == want.BottleneckMBps {
			fast++
			if got.TotalMBps == want.TotalMBps {
				full++
			}
		}
	}
	t.Logf("of %d machines: %d as fast, %d of them with as much in all", machines, fast, full)
	if fast < machines*99/100 || full < machines*97/100 {
		t.Errorf("of %d machines: %d as fast, %d with as much in all", machines, fast, full)
	}
}

// TestBestOnLargeIslands uses a large machine with islands. It checks that one island is filled after the other.
func TestBestOnLargeIslands(t *testing.T) {
	links := uniformLinks(32, "SYS")
	for i := range 32 {
		for j := range 32 {
			if i/4 == j/4 && i != j {
				links[i][j] = "NV4"
			}
		}
	}
	m := NewMatrix(links, make([]int, 32))
	for _, c := range []struct {
		free  string
		count int
		want  string
	}{{"0-31", 4, "0-3"}, {"1-31", 4, "4-7"}, {"0,1,6-31", 4, "8-11"}, {"0-31", 8, "0-7"}, {"2,5,7,9-11", 2, "5,7"}} {
		if got, ok := m.Best(parseSet(c.free), 0, c.count); !ok || got.Devices != parseSet(c.want) {
			t.Errorf("%d of %s: %b", c.count, c.free, got.Devices)
		}
	}
}

func TestMemoIsBoundedAndFree(t *testing.T) {
	m := NewMatrix(uniformLinks(16, "NV6"), nil)
	for free := uint64(1); free <= maxMemo+10; free++ {
		m.Best(free, 0, 1)
		if len(m.memo) > maxMemo {
			t.Fatalf("%d answers are islands", len(m.memo))
		}
	}
	if n := testing.AllocsPerRun(100, func() { m.Best(maxMemo, 0, 1) }); n != 0 {
		t.Errorf("%v allocations for a remembered answer", n)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name  string
		m     *Matrix
		free  string
		count int
		want  string
	}{
		{"links decide", v100, "1-3", 2, `
2,3: the best of 3 sets of 2 among the 3 free devices
slowest link 50000 MB/s (NV2): no other set has it
first fit would take 1,2, slowest link 10000 MB/s (SYS or not known): 5.0 times slower`},
		{"nothing decides", h100, "0-3", 2, `
0,1: the best of 6 sets of 2 among the 4 free devices
slowest link 450000 MB/s (NV18): all of them alike
1 NUMA node: all of them alike
leaves 2,3 (2 at 450000 MB/s): all of them alike
of those alike, the one with the lowest indexes
first fit would take the same`},
		{"the rest decides", pcie, "0-7", 1, `
4: the best of 8 sets of 1 among the 8 free devices
leaves 0,1,2,3,5,6,7 (2 at 24000, 4 at 20000 MB/s): 4 of 8 sets have it
of those alike, the one with the lowest indexes`},
		{"one set", h100, "1,2", 2, `
1,2: the only set of 2 among the 2 free devices
first fit would take the same`},
		{"none", h100, "1", 2, `
2 wanted, 1 free device`},
		{"a large one", NewMatrix(uniformLinks(20, "NV18"), nil), "0-19", 2, `
0,1: sets were grown from each of the 20 free devices, for there are too many to compare
slowest link 450000 MB/s (NV18)
1 NUMA node
leaves 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19 (2 at 450000, 4 at 450000, 8 at 450000 MB/s)
first fit would take the same`},
	} {
		if got := "\n" + strings.Join(c.m.Explain(parseSet(c.free), 0, c.count, nil), "\n"); got != c.want {
			t.Errorf("%s:%s\nwant:%s", c.name, got, c.want)
		}
	}
}

func BenchmarkBest(b *testing.B) {
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			dgx1.Best(uint64(i)&255|15, 0, 2)
		}
	})
	large := NewMatrix(uniformLinks(64, "NV18"), make([]int, 64))
	sixteen := NewMatrix(uniformLinks(16, "NV6"), []int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1})
	for _, c := range []struct {
		name  string
		m     *Matrix
		count int
	}{{"8x1", dgx1, 1}, {"8x2", dgx1, 2}, {"8x4", dgx1, 4}, {"16x2", sixteen, 2}, {"16x8", sixteen, 8}, {"64x1", large, 1}, {"64x8", large, 8}} {
		b.Run("miss/"+c.name, func(b *testing.B) {
			q := c.m.normalize(c.m.allDevices(), 1, c.count)
			for b.Loop() {
				c.m.search(q)
			}
		})
	}
	for _, n := range []int{8, 16} {
		b.Run(fmt.Sprintf("first/%d", n), func(b *testing.B) {
			for b.Loop() {
				NewMatrix(uniformLinks(n, "NV6"), nil).loadTables()
			}
		})
	}
}
