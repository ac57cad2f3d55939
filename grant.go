package ares

import (
	"maps"
	"slices"
	"strings"
)

// ReservedLabelPrefix begins the keys of the labels that only an administrator gives to nodes. A job that selects nodes by such a label
// cannot be attracted by a node that merely claims to have it.
const ReservedLabelPrefix = "ares.io/"

// NodeGrant is what an administrator says about a node: with the join token, or later with `ares node label`. A node cannot change its own
// grant. The zero value grants no reserved label and limits nothing.
type NodeGrant struct {
	// Labels are labels of the node, whether or not the node claims to have them. They win over what the node claims.
	Labels map[string]string `json:"labels,omitzero"`
	// The node may offer at most so many GPUs, CPU cores and MB of memory; 0 is no limit.
	MaxGPUs     int `json:"max_gpus,omitzero"`
	MaxCPUs     int `json:"max_cpu_cores,omitzero"`
	MaxMemoryMB int `json:"max_memory_mb,omitzero"`
	// GPUModel is the only model that the node may offer; "" is any. Drivers add a vendor, a memory size and a form factor to the name of
	// a model. H100 therefore also allows "NVIDIA H100 80GB HBM3".
	GPUModel string `json:"gpu_model,omitzero"`
}

// IsZero reports whether the grant says nothing.
func (g NodeGrant) IsZero() bool {
	return len(g.Labels) == 0 && g.MaxGPUs == 0 && g.MaxCPUs == 0 && g.MaxMemoryMB == 0 && g.GPUModel == ""
}

// Check reports every mistake in a grant. The argument `field` is the name of the field that holds the grant.
func (g NodeGrant) Check(field string) error {
	var p Problems
	checkLabels(&p, field+".labels", g.Labels)
	between(&p, field+".max_gpus", g.MaxGPUs, 0, MaxNodeGPUs)
	between(&p, field+".max_cpu_cores", g.MaxCPUs, 0, MaxNodeCPUs)
	between(&p, field+".max_memory_mb", g.MaxMemoryMB, 0, MaxNodeMemoryMB)
	text(&p, field+".gpu_model", g.GPUModel, MaxNameBytes)
	return p.Err()
}

// Admit returns the node with the granted labels. It returns an error if the node claims what it was not granted: a label with a reserved
// key, or larger or other devices. The error names the command with which an administrator can grant it. The argument `reserved` lists
// reserved keys without the prefix.
func (g NodeGrant) Admit(n Node, reserved []string) (Node, error) {
	for k, v := range n.Labels {
		if granted, ok := g.Labels[k]; isReserved(k, reserved) && (!ok || granted != v) {
			return n, Errorf(Forbidden, "node %s is not granted the label %s=%s: an administrator can grant it with `ares node label %s %s=%s`, or start the agent without the label",
				n.ID, Clip(k), Clip(v), n.ID, Clip(k), Clip(v)).At("node.labels")
		}
	}
	if gpus := n.countGPUs(); g.MaxGPUs > 0 && gpus > g.MaxGPUs {
		return n, g.exceeded(n.ID, "node.devices", "GPUs", gpus, g.MaxGPUs)
	}
	if cpus := RoundUpCPUs(n.MilliCPUs()); g.MaxCPUs > 0 && cpus > g.MaxCPUs {
		return n, g.exceeded(n.ID, "node.cpu_cores", "CPU cores", cpus, g.MaxCPUs)
	}
	if g.MaxMemoryMB > 0 && n.MemoryMB > g.MaxMemoryMB {
		return n, g.exceeded(n.ID, "node.memory_mb", "MB of memory", n.MemoryMB, g.MaxMemoryMB)
	}
	for i := range n.Devices {
		if model := n.Devices[i].Model; g.GPUModel != "" && !isModel(model, g.GPUModel) {
			return n, Errorf(Forbidden, "node %s offers a device of model %q, but its join token grants only %q: join it again with another token (`ares node token create --node %s`)",
				n.ID, Clip(model), g.GPUModel, n.ID).At("node.devices")
		}
	}
	if len(g.Labels) == 0 {
		return n, nil
	}
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, g.Labels)
	if len(labels) > MaxLabels {
		return n, Errorf(Invalid, "node.labels: at most %d with the granted ones, got %d", MaxLabels, len(labels)).At("node.labels")
	}
	n.Labels = labels
	return n, nil
}

func isReserved(key string, reserved []string) bool {
	return strings.HasPrefix(key, ReservedLabelPrefix) || slices.Contains(reserved, key)
}

func (NodeGrant) exceeded(node, field, what string, has, limit int) error {
	return Errorf(Forbidden, "node %s offers %d %s, but its join token grants at most %d: join it again with another token (`ares node token create --node %s`)",
		node, has, what, limit, node).At(field)
}

// countGPUs counts the node's physical devices. The slices of one device count once.
func (n *Node) countGPUs() int {
	physical := map[string]bool{}
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Parent != "" {
			physical[d.Parent] = true
		} else {
			physical[d.ID] = true
		}
	}
	return len(physical)
}

// Relabelled returns the grant with other labels.
func (g NodeGrant) Relabelled(set map[string]string, remove []string) NodeGrant {
	labels := maps.Clone(g.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, k := range remove {
		delete(labels, k)
	}
	maps.Copy(labels, set)
	g.Labels = labels
	return g
}

// isModel reports whether the name that a driver reports is that of the granted model. It is not enough that it contains the granted name,
// because a job finds a model by a part of its name: a device called "T4 H100" would be found by jobs that want either of them. So all
// other words must be ones that drivers add to names.
func isModel(model, granted string) bool {
	if strings.EqualFold(model, granted) {
		return true
	}
	words, want := modelWords(model), modelWords(granted)
	for len(words) > 0 && !hasWords(words, want) {
		if !isAddedWord(words[0]) {
			return false
		}
		words = words[1:]
	}
	if len(want) == 0 || len(words) == 0 {
		return false
	}
	for _, w := range words[len(want):] {
		if !isAddedWord(w) {
			return false
		}
	}
	return true
}

func modelWords(model string) []string {
	return strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return strings.ContainsRune(" -_/", r) })
}

func hasWords(words, first []string) bool {
	return len(words) >= len(first) && slices.Equal(words[:len(first)], first)
}

// isAddedWord reports whether drivers add the word to the name of a model: a vendor or product line, a form factor, a memory size.
func isAddedWord(w string) bool {
	switch w {
	case "nvidia", "tesla", "quadro", "geforce", "rtx", "amd", "instinct", "radeon", "pro", "intel", "gpu", "tpu",
		"pcie", "oam", "nvl", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "hbm2", "hbm2e", "hbm3", "hbm3e", "hbm4":
		return true
	}
	size, isSize := strings.CutSuffix(w, "gb")
	return isSize && strings.Trim(size, "0123456789") == ""
}
