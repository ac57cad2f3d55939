package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The method `rows` prints a topology in the format of the profiles, with -1 for an unknown NUMA node.
func (t topology) rows() (links [][]string, numa []int) {
	for i := range t.count {
		var row []string
		for j := range t.count {
			row = append(row, t.links[[2]int{i, j}])
		}
		links = append(links, row)
		n, ok := t.numa[i]
		if !ok {
			n = -1
		}
		numa = append(numa, n)
	}
	return links, numa
}

// TestParseTopologyOfMachines checks that the profiles agree with the output of the machines that they simulate.
func TestParseTopologyOfMachines(t *testing.T) {
	for _, c := range []struct {
		file, profile string
		numa          []int
	}{
		{"dgx1-v100.topo-m.txt", "dgx1-v100", []int{-1, -1, -1, -1, -1, -1, -1, -1}},
		{"dgx-a100.topo-m.txt", "dgx-a100", []int{3, 3, 1, 1, 7, 7, 5, 5}},
		{"dgx-h100.topo-m.txt", "dgx-h100", []int{0, 0, 0, 0, 1, 1, 1, 1}},
		{"pcie-8.topo-m.txt", "pcie-8", []int{0, 0, 0, 0, 1, 1, 1, 1}},
		{"t4-4.topo-m.txt", "t4-4", []int{0, 0, 0, 0}},
	} {
		for _, tabs := range []string{"\t", "    "} { // as printed, and as pasted
			topo, err := parseTopology([]byte(strings.ReplaceAll(string(sample(t, c.file)), "\t", tabs)))
			if err != nil {
				t.Errorf("%s: %v", c.file, err)
				continue
			}
			p, err := profileNamed(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			links, numa := topo.rows()
			if !reflect.DeepEqual(links, p.matrix()) {
				t.Errorf("%s: links %v", c.file, links)
			}
			if !reflect.DeepEqual(numa, c.numa) {
				t.Errorf("%s: NUMA %v", c.file, numa)
			}
		}
	}
}

// TestParseTopologyOfOtherMachines checks the output of machines without a profile, in the formats of older and newer
// drivers.
func TestParseTopologyOfOtherMachines(t *testing.T) {
	for _, c := range []struct {
		file, links string
		numa        []int
	}{
		{"bridged-a100.topo-m.txt", `
			X    NV12 SYS  SYS
			NV12 X    SYS  SYS
			SYS  SYS  X    NV12
			SYS  SYS  NV12 X`, []int{0, 0, 1, 1}},
		{"dgx1-p100.topo-m.txt", `
			X   NV1 NV1 NV1 NV1 SYS SYS SYS
			NV1 X   NV1 NV1 SYS NV1 SYS SYS
			NV1 NV1 X   NV1 SYS SYS NV1 SYS
			NV1 NV1 NV1 X   SYS SYS SYS NV1
			NV1 SYS SYS SYS X   NV1 NV1 NV1
			SYS NV1 SYS SYS NV1 X   NV1 NV1
			SYS SYS NV1 SYS NV1 NV1 X   NV1
			SYS SYS SYS NV1 NV1 NV1 NV1 X`, slices.Repeat([]int{-1}, 8)},
		{"dgx2-v100.topo-m.txt", switched(16, "NV6"), slices.Repeat([]int{-1}, 16)},
		{"gh200-4.topo-m.txt", switched(4, "NV6"), []int{0, 1, 2, 3}}, // the printed node is not the NUMA node of the GPU's own memory
		{"h200x1.topo-m.txt", "X", []int{0}},
		{"vm-v100.topo-m.txt", `
			X   NV1 NV1 NV2
			NV1 X   NV2 NV1
			NV1 NV2 X   NV2
			NV2 NV1 NV2 X`, slices.Repeat([]int{-1}, 4)},
	} {
		for how, change := range map[string]func(string) string{
			"as printed": func(s string) string { return s },
			"as pasted":  func(s string) string { return strings.ReplaceAll(s, "\t", "    ") },
			"by Windows": func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
			"with words before it": func(s string) string {
				return "Failed to initialize NVML: a GPU0 that does not answer\n" + s
			},
		} {
			topo, err := parseTopology([]byte(change(string(sample(t, c.file)))))
			if err != nil {
				t.Errorf("%s %s: %v", c.file, how, err)
				continue
			}
			links, numa := topo.rows()
			if want := (profile{links: c.links}).matrix(); !reflect.DeepEqual(links, want) {
				t.Errorf("%s %s: links %v", c.file, how, links)
			}
			if !reflect.DeepEqual(numa, c.numa) {
				t.Errorf("%s %s: NUMA %v", c.file, how, numa)
			}
		}
	}
}

func TestParseTopology(t *testing.T) {
	for _, c := range []struct {
		name, in string
		links    [][]string
		numa     []int
	}{
		{
			"affinity not known", "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\t\tN/A\t\tN/A\n",
			[][]string{{"X"}},
			[]int{-1},
		},
		{
			"affinity left empty", "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t\t\tN/A\n",
			[][]string{{"X"}},
			[]int{-1},
		},
		{
			"several NUMA nodes", "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\r\n" +
				"GPU0\t X \tNODE\t0-71\t2-3\t\t4\r\nGPU1\tNODE\t X \t0-71\t1,3\t\t12\r\n",
			[][]string{{"X", "NODE"}, {"NODE", "X"}},
			[]int{2, 1},
		},
		{
			"old and unknown words", "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tSOC\tPSB\t0-7\n" +
				"GPU1\tSOC\t X \tNEW\t0-7\nGPU2\tPSB\tNV0\t X \t0-7\n",
			[][]string{{"X", "SYS", "PIX"}, {"SYS", "X", "SYS"}, {"PIX", "SYS", "X"}},
			[]int{-1, -1, -1},
		},
		{
			"a column to come", "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\tMoon Affinity\nGPU0\t X \t0-7\t1\tN/A\t9\n",
			[][]string{{"X"}},
			[]int{1},
		},
	} {
		topo, err := parseTopology([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		links, numa := topo.rows()
		if !reflect.DeepEqual(links, c.links) || !reflect.DeepEqual(numa, c.numa) {
			t.Errorf("%s: %v %v, want %v %v", c.name, links, numa, c.links, c.numa)
		}
	}
}

func TestParseTopologyRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":        "",
		"an error":       "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
		"a header alone": "\tGPU0\tGPU1\tCPU Affinity\n",
		"a missing row":  "\tGPU0\tGPU1\nGPU0\t X \tPIX\n",
		"a short row":    "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\n",
		"a strange row":  "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU7\tPIX\t X \n",
		"a row twice":    "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU0\t X \tPIX\n",
		"a column twice": "\tGPU0\tGPU0\nGPU0\t X \tPIX\n",
		"too many":       "\t" + strings.Join(manyTitles(maxGPUs+1), "\t") + "\n",
	} {
		if _, err := parseTopology([]byte(in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func manyTitles(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("GPU%d", i))
	}
	return all
}

func FuzzParseTopology(f *testing.F) {
	files, err := filepath.Glob("testdata/*.topo-m.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		f.Add(sample(f, filepath.Base(name)))
	}
	f.Add([]byte("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		topo, err := parseTopology(in)
		if err != nil {
			return
		}
		if topo.count < 1 || topo.count > maxGPUs || len(topo.links) != topo.count*topo.count {
			t.Fatalf("%d GPUs, %d links", topo.count, len(topo.links))
		}
		for pair, link := range topo.links {
			if self := pair[0] == pair[1]; self != (link == "X") || !self && linkNamed(link) != link {
				t.Fatalf("%v: %q", pair, link)
			}
		}
		for gpu, numa := range topo.numa {
			if topo.links[[2]int{gpu, gpu}] != "X" || numa < 0 {
				t.Fatalf("GPU%d on NUMA node %d", gpu, numa)
			}
		}
	})
}
