package enginetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// doNode adds a node. With count=N, doNode adds N nodes with the names NAME00, NAME01 and so on.
func doNode(w *Cluster, in *arguments) (string, error) {
	n := ares.Node{
		ID: in.first(), CPUs: in.number("cpus", 64), CPUMilli: in.number("cpu-milli", 0), MemoryMB: in.number("memory-mb", 512_000),
		Labels: in.pairs("labels"), Unfit: in.text("unfit", ""),
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for _, place := range []string{"region", "zone", "spine", "leaf", "rack"} {
		if v := in.text(place, ""); v != "" {
			n.Labels[place] = v
		}
	}
	for _, text := range in.list("taints") {
		taint, err := ares.ParseTaint(text)
		if err != nil {
			return "", err
		}
		n.Taints = append(n.Taints, taint)
	}
	n.TrustedOnly, n.Images, n.OwnNetwork = in.hasFlag("trusted-only"), in.hasFlag("images"), in.hasFlag("own-network")
	n.ContainerRoot = in.hasFlag("runs-container-root")
	n.Attachable = in.hasFlag("attachable")
	addDevices(&n, in)
	n.Links = linkMatrix(in.list("links"), len(n.Devices))
	count := in.number("count", 0)
	if count == 0 {
		w.AddNode(n)
	}
	for i := range count { // NAME00, NAME01, …
		each := n
		each.ID, each.Devices = fmt.Sprintf("%s%02d", n.ID, i), slices.Clone(n.Devices)
		for k := range each.Devices {
			each.Devices[k].ID = fmt.Sprintf("%s-%d", each.ID, k)
		}
		w.AddNode(each)
	}
	return "", nil
}

// addDevices adds a node's devices, spread evenly over its NUMA nodes.
func addDevices(n *ares.Node, in *arguments) {
	unhealthy := in.list("unhealthy")
	kind, model, memory := in.text("type", "gpu"), in.text("model", "NVIDIA H100 80GB HBM3"), in.number("gpu-memory-mb", 81_559)
	gpus, parts, hot := in.number("gpus", 0), in.number("numa-nodes", 0), in.number("temperature", 0)
	models := in.list("models") // several models share the devices equally
	for i := range gpus {
		if len(models) > 0 {
			model = models[i*len(models)/gpus]
		}
		d := ares.Device{
			ID: fmt.Sprintf("%s-%d", n.ID, i), Index: i, Type: kind, Model: model, MemoryMB: memory,
			Healthy: !slices.Contains(unhealthy, strconv.Itoa(i)), Celsius: hot,
		}
		if parts > 0 {
			d.NUMA = i * parts / gpus
		}
		n.Devices = append(n.Devices, d)
	}
	for i := range parts {
		n.NUMA = append(n.NUMA, ares.NUMANode{ID: i, CPUs: n.CPUs / parts, MemoryMB: n.MemoryMB / parts})
	}
	for i := range in.number("mig-slices", 0) { // of the last devices
		parent := n.Devices[len(n.Devices)-1-i]
		n.Devices = append(n.Devices, ares.Device{
			ID: fmt.Sprintf("%s-mig%d", n.ID, i), Index: parent.Index, Type: kind, Model: model, MemoryMB: memory / 7,
			Parent: parent.ID, Profile: "1g.10gb", Healthy: true, NUMA: parent.NUMA,
		})
	}
}

// dgx1 is the NVLink mesh of eight V100s. Each V100 has six links, and some pairs of V100s are connected by two
// links.
const dgx1 = `
X   NV1 NV1 NV2 NV2 SYS SYS SYS
NV1 X   NV2 NV1 SYS NV2 SYS SYS
NV1 NV2 X   NV2 SYS SYS NV1 SYS
NV2 NV1 NV2 X   SYS SYS SYS NV1
NV2 SYS SYS SYS X   NV1 NV1 NV2
SYS NV2 SYS SYS NV1 X   NV2 NV1
SYS SYS NV1 SYS NV1 NV2 X   NV2
SYS SYS SYS NV1 NV2 NV1 NV2 X`

// linkMatrix returns a link matrix. In the first form of the matrix, all devices have the same kind of link. In
// the second form, devices have this kind of link within islands, and SYS links between islands. In the third
// form, the devices have the mesh of a DGX-1.
func linkMatrix(want []string, n int) [][]string {
	if len(want) == 0 {
		return nil
	}
	if want[0] == "dgx1" {
		var m [][]string
		for row := range strings.Lines(strings.TrimSpace(dgx1)) {
			m = append(m, strings.Fields(row))
		}
		return m
	}
	island := n
	if len(want) > 1 {
		island, _ = strconv.Atoi(want[1])
	}
	m := make([][]string, n)
	for i := range m {
		m[i] = make([]string, n)
		for k := range m[i] {
			switch {
			case i == k:
				m[i][k] = "X"
			case i/island == k/island:
				m[i][k] = want[0]
			default:
				m[i][k] = "SYS"
			}
		}
	}
	return m
}

// doTemperature sets the temperatures of a node's devices, as in: temperature N 0:80 1:60.
func doTemperature(w *Cluster, in *arguments) (string, error) {
	return "", w.updateNode(in.first(), func(n *ares.Node) error {
		for _, word := range in.positional[1:] {
			var i, celsius int
			if _, err := fmt.Sscanf(word, "%d:%d", &i, &celsius); err != nil || i < 0 || i >= len(n.Devices) {
				return fmt.Errorf("%q is not DEVICE:CELSIUS", word)
			}
			n.Devices[i].Celsius = celsius
		}
		return nil
	})
}

// doUnhealthy marks the given devices of a node as unhealthy, and all its other devices as healthy.
func doUnhealthy(w *Cluster, in *arguments) (string, error) {
	return "", w.updateNode(in.first(), func(n *ares.Node) error {
		for i := range n.Devices {
			n.Devices[i].Healthy = !slices.Contains(in.positional[1:], strconv.Itoa(i))
		}
		return nil
	})
}

// doNodeScore sets the history score of a node, as in: node-score N 300.
func doNodeScore(w *Cluster, in *arguments) (string, error) {
	score := &ares.NodeScore{Node: in.first(), Samples: 1000, At: w.Now, Why: "script"}
	if len(in.positional) != 2 {
		return "", fmt.Errorf("a node and its score are wanted")
	}
	n, err := strconv.Atoi(in.positional[1])
	if err != nil || n < 0 || n > ares.FullScore {
		return "", fmt.Errorf("%q is no score", in.positional[1])
	}
	score.Score = n
	w.PutEvents(ares.Event{Score: score})
	return "", nil
}

// updateNode changes the record of a node.
func (w *Cluster) updateNode(id string, change func(*ares.Node) error) error {
	for v := range w.State.Nodes() {
		if v.Node.ID != id {
			continue
		}
		n := *v.Node
		n.Devices = slices.Clone(n.Devices)
		if err := change(&n); err != nil {
			return err
		}
		w.PutEvents(ares.Event{Node: &n})
		return nil
	}
	return fmt.Errorf("there is no node %s", id)
}

// doTopology sets the limits and weights of the topology.
func doTopology(w *Cluster, in *arguments) (string, error) {
	return "", w.updateTopology(func(t *ares.Topology) {
		t.MaxNodesPerLeaf, t.MaxGPUsPerLeaf = in.number("nodes-per-leaf", t.MaxNodesPerLeaf), in.number("gpus-per-leaf", t.MaxGPUsPerLeaf)
		if v := in.list("weights"); len(v) == 4 {
			var n [4]int
			for i := range v {
				n[i], _ = strconv.Atoi(v[i]) // Check reports an invalid sum
			}
			t.Weights = ares.Weights{Availability: n[0], Alignment: n[1], Utilization: n[2], History: n[3]}
		}
	})
}

// doDomain adds a domain to the topology.
func doDomain(w *Cluster, in *arguments) (string, error) {
	d := ares.Domain{
		Name: in.first(), Level: ares.Level(in.text("level", "leaf")), Parent: in.text("parent", ""), Adjacent: in.list("adjacent"),
		Switch: in.text("switch", ""), Nodes: in.list("nodes"),
	}
	return "", w.updateTopology(func(t *ares.Topology) { t.Domains = append(t.Domains, d) })
}

// doSwitch adds a switch class to the topology.
func doSwitch(w *Cluster, in *arguments) (string, error) {
	c := ares.Switch{Name: in.first(), Gbps: in.number("gbps", 1), LatencyNanos: in.number("nanos", 1000)}
	return "", w.updateTopology(func(t *ares.Topology) { t.Switches = append(t.Switches, c) })
}

// updateTopology changes the topology.
func (w *Cluster) updateTopology(change func(*ares.Topology)) error {
	t := *w.State.Topology()
	t.Domains, t.Switches = slices.Clone(t.Domains), slices.Clone(t.Switches)
	change(&t)
	t.Revision = w.revision + 1
	w.PutEvents(ares.Event{Topology: &t})
	return t.Check()
}
