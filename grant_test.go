package ares_test

import (
	"fmt"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// This function returns a node with GPUs of one model.
func nodeWith(gpus int, model string) ares.Node {
	n := ares.Node{ID: "n", CPUs: 8, MemoryMB: 1000, Labels: map[string]string{"zone": "a"}}
	for i := range gpus {
		n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint("gpu-", i), Index: i, Type: "gpu", Model: model, MemoryMB: 80_000})
	}
	return n
}

// TestANodeCannotGrantItself checks that a node is rejected if it claims a reserved label or devices that it was not granted.
func TestANodeCannotGrantItself(t *testing.T) {
	t.Parallel()
	grant := ares.NodeGrant{Labels: map[string]string{"ares.io/pool": "dev", "rack": "7"}, MaxGPUs: 2, GPUModel: "H100", MaxCPUs: 8, MaxMemoryMB: 1000}
	for _, c := range []struct {
		name  string
		grant ares.NodeGrant
		edit  func(*ares.Node)
		want  string // "" if it is admitted
	}{
		{"what is granted", grant, func(*ares.Node) {}, ""},
		{"less than granted", grant, func(n *ares.Node) { n.Devices, n.CPUs = n.Devices[:1], 1 }, ""},
		{"the granted label", grant, func(n *ares.Node) { n.Labels["ares.io/pool"] = "dev" }, ""},
		{"another model in small letters", grant, func(n *ares.Node) { n.Devices[0].Model = "h100" }, ""},
		{"an unreserved label", grant, func(n *ares.Node) { n.Labels["pool"] = "prod" }, ""},
		{"an unreserved label without a grant", ares.NodeGrant{}, func(n *ares.Node) { n.Labels["pool"] = "prod" }, ""},
		{"many devices without a grant", ares.NodeGrant{}, func(n *ares.Node) { *n = nodeWith(64, "B200") }, ""},
		{"a reserved label without a grant", ares.NodeGrant{}, func(n *ares.Node) { n.Labels["ares.io/pool"] = "prod" }, "not granted the label ares.io/pool=prod"},
		{"another value of a reserved label", grant, func(n *ares.Node) { n.Labels["ares.io/pool"] = "prod" }, "not granted the label ares.io/pool=prod"},
		{"another reserved label", grant, func(n *ares.Node) { n.Labels["ares.io/zone"] = "dev" }, "ares node label n ares.io/zone=dev"},
		{"a label that the configuration reserves", grant, func(n *ares.Node) { n.Labels["tier"] = "gold" }, "not granted the label tier=gold"},
		{"an empty reserved label", grant, func(n *ares.Node) { n.Labels["ares.io/"] = "" }, "not granted"},
		{"a GPU more", grant, func(n *ares.Node) { *n = nodeWith(3, "H100") }, "offers 3 GPUs, but its join token grants at most 2"},
		{"slices of a GPU more", grant, func(n *ares.Node) {
			for i := range n.Devices {
				n.Devices[i].Parent = fmt.Sprint("whole-", i)
			}
			n.Devices = append(n.Devices, ares.Device{ID: "s", Model: "H100", Parent: "whole-2"})
		}, "offers 3 GPUs"},
		{"several slices of two GPUs", grant, func(n *ares.Node) {
			n.Devices = []ares.Device{{ID: "a", Model: "H100", Parent: "x"}, {ID: "b", Model: "H100", Parent: "x"}, {ID: "c", Model: "H100", Parent: "y"}}
		}, ""},
		{"another model", grant, func(n *ares.Node) { n.Devices[1].Model = "B200" }, `model "B200", but its join token grants only "H100"`},
		{"the name that the driver reports", grant, func(n *ares.Node) {
			n.Devices[0].Model, n.Devices[1].Model = "NVIDIA H100 80GB HBM3", "nvidia-h100-pcie"
		}, ""},
		{"two models in one name", grant, func(n *ares.Node) { n.Devices[1].Model = "NVIDIA H100 B200" }, "H100 B200"},
		{"two models in one name, the other first", grant, func(n *ares.Node) { n.Devices[1].Model = "B200 H100" }, "B200 H100"},
		{"two models in one name, one a number", grant, func(n *ares.Node) { n.Devices[1].Model = "H100 4090" }, "H100 4090"},
		{"only added words", grant, func(n *ares.Node) { n.Devices[1].Model = "NVIDIA 80GB" }, "NVIDIA 80GB"},
		{"no model", grant, func(n *ares.Node) { n.Devices[1].Model = "" }, `model ""`},
		{"a model whose name contains it", grant, func(n *ares.Node) { n.Devices[1].Model = "H100-fake" }, "H100-fake"},
		{"a core more", grant, func(n *ares.Node) { n.CPUs = 9 }, "offers 9 CPU cores"},
		{"more memory", grant, func(n *ares.Node) { n.MemoryMB = 1001 }, "offers 1001 MB"},
	} {
		node := nodeWith(2, "H100")
		c.edit(&node)
		got, err := c.grant.Admit(node, []string{"tier"})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || ares.CodeOf(err) != ares.Forbidden {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for k, v := range c.grant.Labels {
			if got.Labels[k] != v {
				t.Errorf("%s: label %s is %q, want %q", c.name, k, got.Labels[k], v)
			}
		}
		if got.Labels["zone"] != node.Labels["zone"] || c.grant.Labels != nil && node.Labels["rack"] != "" {
			t.Errorf("%s: the node's own labels are %v, and it has %v", c.name, node.Labels, got.Labels)
		}
	}
}

// TestGrantedLabelsWin checks that a node cannot change a label that an administrator gave it, even if its key is not reserved.
func TestGrantedLabelsWin(t *testing.T) {
	t.Parallel()
	node := nodeWith(0, "")
	node.Labels["rack"] = "8"
	got, err := ares.NodeGrant{Labels: map[string]string{"rack": "7"}}.Admit(node, nil)
	if err != nil || got.Labels["rack"] != "7" || node.Labels["rack"] != "8" {
		t.Errorf("rack is %q of a node that has %q, %v", got.Labels["rack"], node.Labels["rack"], err)
	}
	full := ares.NodeGrant{Labels: map[string]string{}}
	for i := range ares.MaxLabels {
		full.Labels[fmt.Sprint("k", i)] = "v"
	}
	if _, err = full.Admit(node, nil); ares.CodeOf(err) != ares.Invalid {
		t.Errorf("more labels than a node may have: %v", err)
	}
}

func slicesOf(parent string, n int) (out []ares.Device) {
	for i := range n {
		out = append(out, ares.Device{ID: fmt.Sprint(parent, "-", i), Parent: parent, Profile: "1g.10gb", Model: "H100"})
	}
	return out
}

// TestAbsurdNodes checks that a node that cannot exist is rejected.
func TestAbsurdNodes(t *testing.T) {
	t.Parallel()
	good := nodeWith(64, "H100")
	if err := good.Check(); err != nil {
		t.Errorf("a large node: %v", err)
	}
	good.Devices = slicesOf("whole", ares.MaxDeviceSlices)
	for _, address := range []string{"", "10.0.0.1", "gpu-1.example.com", "[fe80::1%eth0]:22", "::1"} {
		if good.Address = address; good.Check() != nil {
			t.Errorf("address %q: %v", address, good.Check())
		}
	}
	for i, c := range []struct {
		field string
		edit  func(*ares.Node)
	}{
		{"node.node_id", func(n *ares.Node) { n.ID = "../n" }},
		{"node.cpu_cores", func(n *ares.Node) { n.CPUs = -1 }},
		{"node.cpu_cores", func(n *ares.Node) { n.CPUs = ares.MaxNodeCPUs + 1 }},
		{"node.memory_mb", func(n *ares.Node) { n.MemoryMB = -1 }},
		{"node.memory_mb", func(n *ares.Node) { n.MemoryMB = ares.MaxNodeMemoryMB + 1 }},
		{"node.address", func(n *ares.Node) { n.Address = "\x1b[2J" }},
		{"node.version", func(n *ares.Node) { n.Version = strings.Repeat("v", 254) }},
		{"node.labels", func(n *ares.Node) { n.Labels[""] = "v" }},
		{"node.labels", func(n *ares.Node) { n.Labels["a=b"] = "v" }},
		{"node.labels", func(n *ares.Node) { n.Labels["a"] = "\x1b[2J" }},
		{"node.labels", func(n *ares.Node) { n.Labels["a"] = strings.Repeat("v", 254) }},
		{"node.labels", func(n *ares.Node) {
			for i := range ares.MaxLabels {
				n.Labels[fmt.Sprint("k", i)] = "v"
			}
		}},
		{"node.devices", func(n *ares.Node) { *n = nodeWith(65, "H100") }},
		{"node.devices", func(n *ares.Node) { n.Devices = make([]ares.Device, ares.MaxNodeDevices+1) }},
		{"node.devices[1].device_id", func(n *ares.Node) { n.Devices[1].ID = n.Devices[0].ID }},
		{"node.devices[1].device_id", func(n *ares.Node) { n.Devices[1].ID = "" }},
		{"node.devices[1].memory_mb", func(n *ares.Node) { n.Devices[1].MemoryMB = ares.MaxDeviceMemoryMB + 1 }},
		{"node.devices[1].memory_mb", func(n *ares.Node) { n.Devices[1].MemoryMB = -1 }},
		{"node.devices[1].index", func(n *ares.Node) { n.Devices[1].Index = -1 }},
		{"node.devices[1].model", func(n *ares.Node) { n.Devices[1].Model = "\x1b[2J" }},
		{"node.devices[1].reason", func(n *ares.Node) { n.Devices[1].Reason = strings.Repeat("r", 2000) }},
		{"node.links", func(n *ares.Node) { n.Links = make([][]string, 3) }},
		{"node.links", func(n *ares.Node) { n.Links = [][]string{make([]string, 3)} }},
		{"node.links", func(n *ares.Node) { n.Links = [][]string{{strings.Repeat("N", 33)}} }},
		{"node.numa", func(n *ares.Node) { n.NUMA = make([]ares.NUMANode, ares.MaxNUMANodes+1) }},
		{"node.numa.cpu_cores", func(n *ares.Node) { n.NUMA = []ares.NUMANode{{CPUs: -1}} }},
		{"node.taints", func(n *ares.Node) { n.Taints = make([]ares.Taint, ares.MaxTaints+1) }},
		{"node.taints", func(n *ares.Node) { n.Taints = make([]ares.Taint, 1) }},
		{"node.address", func(n *ares.Node) { n.Address = "10.0.0.1 -o ProxyCommand" }},
		{"node.address", func(n *ares.Node) { n.Address = "$(id)" }},
		{"node.address", func(n *ares.Node) { n.Address = "-oX" }},
		{"node.address", func(n *ares.Node) { n.Address = "10.0.0.1\nMASTER_PORT=1" }},
		{"node.address", func(n *ares.Node) { n.Address = strings.Repeat("a", 254) }},
		{"node.isolation", func(n *ares.Node) { n.Isolation = strings.Repeat("i", 5000) }},
		{"node.unfit", func(n *ares.Node) { n.Unfit = strings.Repeat("u", 5000) }},
		{"node.numa.id", func(n *ares.Node) { n.NUMA = []ares.NUMANode{{ID: -1}} }},
		{"node.devices[1].numa", func(n *ares.Node) { n.Devices[1].NUMA = 1 << 30 }},
		{"node.devices[1].celsius", func(n *ares.Node) { n.Devices[1].Celsius = 1 << 30 }},
		{"node.links", func(n *ares.Node) { n.Links = [][]string{{"\x1b[2J"}} }},
		{"node.devices", func(n *ares.Node) { n.Devices = slicesOf("whole", ares.MaxDeviceSlices+1) }},
		{"node.devices", func(n *ares.Node) {
			n.Devices = append(slicesOf("whole", 2), ares.Device{ID: "slice of a slice", Parent: "whole-0", Profile: "1g.10gb"})
		}},
	} {
		n := nodeWith(2, "H100")
		c.edit(&n)
		if err := n.Check(); err == nil || !strings.Contains(err.Error(), c.field+": ") {
			t.Errorf("row %d, %s: %v", i, c.field, err)
		}
	}
}

// TestAbsurdGrants checks that a grant that no node can have is rejected.
func TestAbsurdGrants(t *testing.T) {
	t.Parallel()
	for field, g := range map[string]ares.NodeGrant{
		"grant.labels":        {Labels: map[string]string{"": "v"}},
		"grant.max_gpus":      {MaxGPUs: ares.MaxNodeGPUs + 1},
		"grant.max_cpu_cores": {MaxCPUs: -1},
		"grant.max_memory_mb": {MaxMemoryMB: ares.MaxNodeMemoryMB + 1},
		"grant.gpu_model":     {GPUModel: "\x1b[2J"},
	} {
		if err := g.Check("grant"); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
