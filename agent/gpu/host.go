package gpu

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares"
)

// The method `host` fills in the machine's CPUs, memory and NUMA nodes.
func (m *Machine) host() {
	m.CPUs = runtime.NumCPU()
	m.NUMA = numaNodes(os.DirFS("/sys/devices/system/node"))
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		m.warn("memory: " + err.Error())
		return
	}
	defer f.Close()
	mb, ok := parseMeminfo(io.LimitReader(f, 64<<10))
	if !ok {
		m.warn("memory: /proc/meminfo has no MemTotal")
	}
	m.MemoryMB = mb
	m.NUMA = spread(m.NUMA, mb)
}

// The function `spread` divides the machine's memory among its NUMA nodes in proportion to their CPUs. If the NUMA nodes
// together report at least half of the machine's memory, the function changes nothing. In some virtual machines, the
// NUMA nodes together report less than half of the machine's memory.
func spread(nodes []ares.NUMANode, memoryMB int) []ares.NUMANode {
	cpus, said := 0, 0
	for _, n := range nodes {
		cpus, said = cpus+n.CPUs, said+n.MemoryMB
	}
	if said >= memoryMB/2 || cpus == 0 {
		return nodes
	}
	for i := range nodes {
		nodes[i].MemoryMB = memoryMB * nodes[i].CPUs / cpus
	}
	return nodes
}

func (m *Machine) warn(s string) { m.Warnings = append(m.Warnings, s) }

// parseMeminfo returns MemTotal in MiB.
func parseMeminfo(r io.Reader) (int, bool) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		_, rest, ok := strings.Cut(lines.Text(), "MemTotal:") // the file of a NUMA node has "Node 0" before it
		if !ok {
			continue
		}
		kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
		return kb / 1024, err == nil && kb > 0
	}
	return 0, false
}

// numaNodes reads the NUMA nodes from the kernel's directory and sorts them by ID. A NUMA node without CPUs, such as the memory
// of a card, is left out, because it cannot be allocated to a job.
func numaNodes(sys fs.FS) []ares.NUMANode {
	var nodes []ares.NUMANode
	dirs, _ := fs.Glob(sys, "node[0-9]*") // the pattern is valid
	for _, dir := range dirs {
		id, err := strconv.Atoi(strings.TrimPrefix(dir, "node"))
		if err != nil {
			continue
		}
		cpus, errCPUs := fs.ReadFile(sys, dir+"/cpulist")
		memory, errMemory := fs.ReadFile(sys, dir+"/meminfo")
		n, ok := parseCPUList(string(cpus))
		mb, known := parseMeminfo(bytes.NewReader(memory))
		if errCPUs != nil || errMemory != nil || !ok || !known {
			return nil // an incomplete list would keep jobs off existing nodes
		}
		if n > 0 {
			nodes = append(nodes, ares.NUMANode{ID: id, CPUs: n, MemoryMB: mb})
		}
	}
	slices.SortFunc(nodes, func(a, b ares.NUMANode) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

// parseCPUList counts the CPUs of a list such as 0-15,64-79.
func parseCPUList(s string) (int, bool) {
	n := 0
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, true
	}
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, errLo := strconv.ParseUint(first, 10, 16)
		hi, errHi := strconv.ParseUint(last, 10, 16)
		if errLo != nil || errHi != nil || hi < lo {
			return 0, false
		}
		n += int(hi-lo) + 1
	}
	return n, true
}

// sysfsNUMA asks the kernel for the NUMA node of a PCI device and returns -1 if it is unknown. The program nvidia-smi prints the
// PCI domain with eight digits, but the kernel uses four.
func sysfsNUMA(bus string) int {
	domain, rest, ok := strings.Cut(strings.ToLower(bus), ":")
	if !ok || strings.ContainsAny(bus, "/\\") {
		return -1
	}
	if len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		domain = domain[4:]
	}
	b, err := os.ReadFile("/sys/bus/pci/devices/" + domain + ":" + rest + "/numa_node")
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}
