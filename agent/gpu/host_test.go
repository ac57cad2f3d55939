package gpu

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/ares-scheduler/ares"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestNUMANodes(t *testing.T) {
	sys := fstest.MapFS{
		"node0/cpulist":  file("0-15,64-79\n"),
		"node0/meminfo":  file("\nNode 0 MemTotal:       65817592 kB\nNode 0 MemFree:        1 kB\n"),
		"node10/cpulist": file("5\n"),
		"node10/meminfo": file("Node 10 MemTotal:       1024 kB\n"),
		"node2/cpulist":  file("\n"), // the memory of a card
		"node2/meminfo":  file("Node 2 MemTotal:       99 kB\n"),
		"online":         file("0,2,10\n"),
		"nodes/cpulist":  file("what\n"),
	}
	want := []ares.NUMANode{{ID: 0, CPUs: 32, MemoryMB: 64274}, {ID: 10, CPUs: 1, MemoryMB: 1}}
	if got := numaNodes(sys); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	sys["node10/cpulist"] = file("5-3\n")
	if got := numaNodes(sys); got != nil {
		t.Errorf("half a picture: %+v", got)
	}
	if got := numaNodes(fstest.MapFS{}); got != nil {
		t.Errorf("nothing is there: %+v", got)
	}
}

func TestCPUList(t *testing.T) {
	for in, want := range map[string]int{"": 0, "0": 1, "0-3": 4, "0-1,8,10-11\n": 5, "a": -1, "1-": -1, "1,,2": -1, "3-1": -1, "0-99999999": -1} {
		got, ok := parseCPUList(in)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

// TestMockNUMANodes checks the NUMA nodes of every mock machine. Together they must have all CPUs and all memory of
// the machine, and each device must belong to one of them.
func TestMockNUMANodes(t *testing.T) {
	for _, p := range profiles {
		cpus, memory := 0, 0
		for i, n := range p.parts() {
			if n.ID != i || n.CPUs < 1 || n.MemoryMB < 1 {
				t.Errorf("%s: %+v", p.name, n)
			}
			cpus, memory = cpus+n.CPUs, memory+n.MemoryMB
		}
		if cpus != p.cpus || memory != p.memoryMB || slices.Max(p.numa) >= len(p.parts()) {
			t.Errorf("%s: %d CPUs and %d MB in %d parts", p.name, cpus, memory, len(p.parts()))
		}
	}
	a100, _ := profileNamed("dgx-a100")
	if got := a100.parts(); len(got) != 8 || got[7] != (ares.NUMANode{ID: 7, CPUs: 32, MemoryMB: 256 << 10}) {
		t.Errorf("%+v", got)
	}
}

func TestPartsThatHideMemoryShareIt(t *testing.T) {
	t.Parallel()
	hidden := spread([]ares.NUMANode{{ID: 0, CPUs: 12, MemoryMB: 10}, {ID: 1, CPUs: 4, MemoryMB: 10}}, 1600)
	if hidden[0].MemoryMB != 1200 || hidden[1].MemoryMB != 400 {
		t.Errorf("got %+v", hidden)
	}
	told := spread([]ares.NUMANode{{ID: 0, CPUs: 12, MemoryMB: 900}, {ID: 1, CPUs: 4, MemoryMB: 600}}, 1600)
	if told[0].MemoryMB != 900 || told[1].MemoryMB != 600 {
		t.Errorf("got %+v", told)
	}
}
