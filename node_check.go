package ares

import "strconv"

// These constants limit what a node may claim to be. They are far above what machines have, so that they only stop nodes that lie or
// programs that go wrong: a node with a million GPUs would attract every job.
const (
	MaxNodeGPUs       = 64      // physical devices; no more can be allocated
	MaxNodeDevices    = 1024    // devices with their slices
	MaxNodeCPUs       = 16_384  // logical cores
	MaxNodeMemoryMB   = 1 << 26 // 64 TiB
	MaxDeviceMemoryMB = 1 << 20 // 1 TiB
	maxDeviceIndex    = 4095
	maxDeviceReason   = 1024
	maxLinkBytes      = 32
)

// Check reports every mistake in what a node claims to be.
func (n *Node) Check() error {
	var p Problems
	if !ValidName(n.ID) {
		p.Add("node.node_id", "%q is not a name", Clip(n.ID))
	}
	text(&p, "node.address", n.Address, MaxNameBytes)
	text(&p, "node.version", n.Version, MaxNameBytes)
	between(&p, "node.cpu_cores", n.CPUs, 0, MaxNodeCPUs)
	between(&p, "node.memory_mb", n.MemoryMB, 0, MaxNodeMemoryMB)
	checkLabels(&p, "node.labels", n.Labels)
	n.checkDevices(&p)
	if len(n.NUMA) > MaxNUMANodes {
		p.Add("node.numa", "at most %d, got %d", MaxNUMANodes, len(n.NUMA))
		return p.Err()
	}
	for _, at := range n.NUMA {
		between(&p, "node.numa.cpu_cores", at.CPUs, 0, MaxNodeCPUs)
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
		for name, value := range map[string]string{"type": d.Type, "model": d.Model, "parent": d.Parent, "mig_profile": d.Profile} {
			text(p, field+"."+name, value, MaxNameBytes)
		}
		if len(d.Reason) > maxDeviceReason {
			p.Add(field+".reason", "at most %d bytes, got %d", maxDeviceReason, len(d.Reason))
		}
	}
	if len(n.Links) > len(n.Devices) {
		p.Add("node.links", "at most a row for each of the %d devices, got %d", len(n.Devices), len(n.Links))
		return
	}
	for i, row := range n.Links {
		if len(row) > len(n.Devices) {
			p.Add("node.links", "row %d: at most a link for each of the %d devices, got %d", i, len(n.Devices), len(row))
		}
		for _, link := range row {
			if len(link) > maxLinkBytes {
				p.Add("node.links", "row %d: a link has at most %d bytes, got %d", i, maxLinkBytes, len(link))
				return
			}
		}
	}
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
