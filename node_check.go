package ares

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// These constants limit what a node may claim to be. They are far above what machines have, so that they only stop nodes that lie or
// programs that go wrong: a node with a million GPUs would attract every job.
const (
	MaxNodeGPUs       = 64      // physical devices; no more can be allocated
	MaxNodeDevices    = 1024    // devices with their slices
	MaxNodeCPUs       = 16_384  // logical cores
	MaxNodeMemoryMB   = 1 << 26 // 64 TiB
	MaxDeviceMemoryMB = 1 << 20 // 1 TiB
	MaxDeviceSlices   = 16      // slices of one device; drivers make up to 8
	maxDeviceIndex    = 4095
	maxNUMAID         = 4095
	maxCelsius        = 1000
	maxIsolation      = 4096 // bytes; a character may have four
	maxUnfit          = 2048
	maxDeviceReason   = 1024
	maxLinkBytes      = 32
)

// Check reports every mistake in what a node claims to be.
func (n *Node) Check() error {
	var p Problems
	if !ValidName(n.ID) {
		p.Add("node.node_id", "%q is not a name", Clip(n.ID))
	}
	if !isHost(n.Address) {
		p.Add("node.address", "%q is not a host name or an IP address with an optional port", Clip(n.Address))
	}
	text(&p, "node.isolation", n.Isolation, maxIsolation)
	text(&p, "node.unfit", n.Unfit, maxUnfit)
	text(&p, "node.version", n.Version, MaxNameBytes)
	between(&p, "node.cpu_cores", n.CPUs, 0, MaxNodeCPUs)
	between(&p, "node.cpu_milli", n.CPUMilli, 0, 999)
	between(&p, "node.memory_mb", n.MemoryMB, 0, MaxNodeMemoryMB)
	checkLabels(&p, "node.labels", n.Labels)
	n.checkDevices(&p)
	if len(n.NUMA) > MaxNUMANodes {
		p.Add("node.numa", "at most %d, got %d", MaxNUMANodes, len(n.NUMA))
		return p.Err()
	}
	for _, at := range n.NUMA {
		between(&p, "node.numa.id", at.ID, 0, maxNUMAID)
		between(&p, "node.numa.cpu_cores", at.CPUs, 0, MaxNodeCPUs)
		between(&p, "node.numa.cpu_milli", at.CPUMilli, 0, 999)
		between(&p, "node.numa.memory_mb", at.MemoryMB, 0, MaxNodeMemoryMB)
	}
	if len(n.Taints) > MaxTaints {
		p.Add("node.taints", "at most %d, got %d", MaxTaints, len(n.Taints))
		return p.Err()
	}
	for _, t := range n.Taints {
		if err := t.Check(); err != nil {
			p.Add("node.taints", "%s", err)
		}
	}
	return p.Err()
}

// checkDevices reports mistakes in the node's devices and in the links between them.
func (n *Node) checkDevices(p *Problems) {
	if len(n.Devices) > MaxNodeDevices {
		p.Add("node.devices", "at most %d, got %d", MaxNodeDevices, len(n.Devices))
		return
	}
	if gpus := n.countGPUs(); gpus > MaxNodeGPUs {
		p.Add("node.devices", "at most %d whole devices, got %d", MaxNodeGPUs, gpus)
		return
	}
	seen := make(map[string]bool, len(n.Devices))
	for i := range n.Devices {
		d, field := &n.Devices[i], "node.devices["+strconv.Itoa(i)+"]"
		if d.ID == "" || len(d.ID) > MaxNameBytes || seen[d.ID] {
			p.Add(field+".device_id", "must be unique and have 1 to %d bytes, got %q", MaxNameBytes, Clip(d.ID))
		}
		seen[d.ID] = true
		between(p, field+".index", d.Index, 0, maxDeviceIndex)
		between(p, field+".memory_mb", d.MemoryMB, 0, MaxDeviceMemoryMB)
		between(p, field+".numa", d.NUMA, -1, maxNUMAID)
		between(p, field+".celsius", d.Celsius, -maxCelsius, maxCelsius)
		for name, value := range map[string]string{"type": d.Type, "model": d.Model, "parent": d.Parent, "mig_profile": d.Profile} {
			text(p, field+"."+name, value, MaxNameBytes)
		}
		if len(d.Reason) > maxDeviceReason {
			p.Add(field+".reason", "at most %d bytes, got %d", maxDeviceReason, len(d.Reason))
		}
	}
	n.checkSlices(p)
	if len(n.Links) > len(n.Devices) {
		p.Add("node.links", "at most a row for each of the %d devices, got %d", len(n.Devices), len(n.Links))
		return
	}
	for i, row := range n.Links {
		if len(row) > len(n.Devices) {
			p.Add("node.links", "row %d: at most a link for each of the %d devices, got %d", i, len(n.Devices), len(row))
		}
		for _, link := range row {
			if len(link) > maxLinkBytes || Printable(link) != link {
				p.Add("node.links", "row %d: a link has at most %d bytes that can be printed, got %q", i, maxLinkBytes, Clip(link))
				return
			}
		}
	}
}

// checkSlices reports slices of a slice, and devices with more slices than any driver makes. The limit on a node's devices counts the
// devices behind the slices, so a node could otherwise offer any number of slices of one device.
func (n *Node) checkSlices(p *Problems) {
	counts, isSlice := map[string]int{}, map[string]bool{}
	for i := range n.Devices {
		if d := &n.Devices[i]; d.Parent != "" {
			counts[d.Parent]++
			isSlice[d.ID] = true
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(counts)) {
		if count := counts[parent]; count > MaxDeviceSlices {
			p.Add("node.devices", "device %q: at most %d slices, got %d", Clip(parent), MaxDeviceSlices, count)
		}
		if isSlice[parent] {
			p.Add("node.devices", "device %q is a slice, so it cannot have slices", Clip(parent))
		}
	}
}

// isHost reports whether a node's address can be a host name or an IP address, with or without a port. The address becomes an
// environment variable of the jobs on other nodes, so it must not contain spaces or characters that a shell interprets.
func isHost(address string) bool {
	return len(address) <= MaxNameBytes && !strings.HasPrefix(address, "-") && !strings.ContainsFunc(address, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:[]%", r))
	})
}

// checkLabels reports mistakes in the labels of a node.
func checkLabels(p *Problems, field string, labels map[string]string) {
	if len(labels) > MaxLabels {
		p.Add(field, "at most %d, got %d", MaxLabels, len(labels))
		return
	}
	for k, v := range labels {
		if !usableKey(k) {
			p.Add(field, "%q is not a usable key: use 1 to %d bytes without '='", Clip(k), MaxNameBytes)
		}
		text(p, field, k, MaxNameBytes)
		text(p, field, v, MaxNameBytes)
	}
}
