package watch

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"

	ares "github.com/ares-scheduler/ares"
)

// GPUResource is the extended resource that counts the GPUs of a node.
const GPUResource v1.ResourceName = "nvidia.com/gpu"

// These labels of a node describe its GPUs. NVIDIA's GPU feature discovery writes them.
const (
	labelProduct = "nvidia.com/gpu.product"
	labelMemory  = "nvidia.com/gpu.memory"
)

// LabelBandwidth is the label of a node that says how much network bandwidth it has to the other nodes of its leaf,
// spine, zone and region, such as 200Gb.
const LabelBandwidth = "topology.scheduler/network-bandwidth"

// places lists, for each level of the topology, the labels that may name a node's domain. The first label that a node
// has wins.
var places = []struct {
	level  ares.Level
	labels []string
}{
	{ares.LevelRegion, []string{"topology.kubernetes.io/region"}},
	{ares.LevelZone, []string{"topology.kubernetes.io/zone"}},
	{ares.LevelSpine, []string{"topology.scheduler/spine", "network.topology.nvidia.com/spine"}},
	{ares.LevelLeaf, []string{"topology.scheduler/leaf", "network.topology.nvidia.com/leaf"}},
}

// Resources are amounts of CPU, in thousandths of a core, and memory, in bytes.
type Resources struct {
	CPUMilli int64
	Memory   int64
}

// Add returns the sum of two amounts.
func (r Resources) Add(o Resources) Resources {
	return Resources{r.CPUMilli + o.CPUMilli, r.Memory + o.Memory}
}

// Sub returns the difference of two amounts.
func (r Resources) Sub(o Resources) Resources {
	return Resources{r.CPUMilli - o.CPUMilli, r.Memory - o.Memory}
}

// Node returns the engine's record of a node. The engine does not place the pods that use no GPU. What they use is
// subtracted from the node. Nothing ends the pods of a node that is silent, so they keep their devices until Kubernetes
// deletes them.
func Node(n *v1.Node, used Resources) *ares.Node {
	free := allocatable(n).Sub(used)
	record := &ares.Node{
		ID:                 n.Name,
		Address:            address(n),
		Devices:            devices(n),
		CPUs:               int(max(free.CPUMilli, 0) / 1000),
		CPUMilli:           int(max(free.CPUMilli, 0) % 1000),
		MemoryMB:           int(max(free.Memory, 0) >> 20),
		Labels:             nodeLabels(n),
		Images:             true,
		Version:            n.Status.NodeInfo.KubeletVersion,
		JobsOutliveSession: true,
	}
	// Kubernetes does not say which NUMA node a GPU belongs to, and the kubelet chooses the GPUs. So the whole node counts
	// as one NUMA node, and a latency-sensitive pod may go to every node with enough GPUs.
	record.NUMA = []ares.NUMANode{{CPUs: record.CPUs, CPUMilli: record.CPUMilli, MemoryMB: record.MemoryMB}}
	for _, t := range n.Spec.Taints {
		effect := ares.NoSchedule // also for NoExecute: no new pod may go there either
		if t.Effect == v1.TaintEffectPreferNoSchedule {
			effect = ares.PreferNoSchedule
		}
		record.Taints = append(record.Taints, ares.Taint{Key: t.Key, Value: t.Value, Effect: effect})
	}
	return record
}

// HasGPUs reports whether the node has GPUs for which pods can ask.
func HasGPUs(n *v1.Node) bool { return gpuCount(n) > 0 }

// IsReady reports whether the node's kubelet says that the node is ready.
func IsReady(n *v1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func gpuCount(n *v1.Node) int {
	q := n.Status.Allocatable[GPUResource]
	return int(q.Value())
}

func allocatable(n *v1.Node) Resources {
	return Resources{n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Memory().Value()}
}

// devices returns one device for each GPU of the node. A device plugin does not say which devices it has, so the
// devices get the names that DeviceName returns.
func devices(n *v1.Node) []ares.Device {
	model := n.Labels[labelProduct]
	memory, err := strconv.Atoi(n.Labels[labelMemory])
	if err != nil {
		memory = 0 // unknown
	}
	list := make([]ares.Device, gpuCount(n))
	for i := range list {
		list[i] = ares.Device{ID: DeviceName(n.Name, i), Index: i, Type: ares.DefaultAccelerator, Model: model, MemoryMB: memory, Healthy: true}
	}
	return list
}

// DeviceName is the ID of a node's GPU with the given index.
func DeviceName(node string, index int) string { return fmt.Sprintf("%s/gpu%d", node, index) }

// nodeLabels returns the node's labels, and the domains of the topology under the engine's own names.
func nodeLabels(n *v1.Node) map[string]string {
	out := make(map[string]string, len(n.Labels)+len(places))
	for k, v := range n.Labels {
		out[k] = v
	}
	for _, p := range places {
		delete(out, string(p.level)) // only the labels below name a domain
		for _, key := range p.labels {
			if v := n.Labels[key]; v != "" {
				out[string(p.level)] = v
				break
			}
		}
	}
	return out
}

func address(n *v1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == v1.NodeInternalIP {
			return a.Address
		}
	}
	return n.Name
}
