package gpu

import (
	"bufio"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// host fills in what the machine offers beside its devices.
func (m *Machine) host() {
	m.CPUs = runtime.NumCPU()
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
}

func (m *Machine) warn(s string) { m.Warnings = append(m.Warnings, s) }

// parseMeminfo returns MemTotal in MiB.
func parseMeminfo(r io.Reader) (int, bool) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:")
		if !ok {
			continue
		}
		kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
		return kb / 1024, err == nil && kb > 0
	}
	return 0, false
}

// sysfsNUMA asks the kernel for the NUMA node of a PCI device, -1 where it
// does not know. nvidia-smi prints the domain with eight digits, the kernel
// with four.
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
