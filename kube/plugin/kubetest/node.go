package kubetest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// KWOK plays the kubelets of the nodes with this label. A node that loses the label is like one that lost its power.
const (
	kubeletLabel = "kubetest.ares.dev/kubelet"
	kubeletRuns  = "runs"
)

// Labels that place a node in the network.
const (
	RegionLabel = "topology.kubernetes.io/region"
	ZoneLabel   = "topology.kubernetes.io/zone"
	SpineLabel  = "topology.scheduler/spine"
	LeafLabel   = "topology.scheduler/leaf"
)

// GPUs is the resource that nodes offer and pods ask for.
const GPUs v1.ResourceName = "nvidia.com/gpu"

// NodeShape describes fake nodes. The zero value is a node with 8 H100 GPUs, 128 cores and 2 TiB, 8 nodes below each leaf
// switch and 8 leaf switches below each spine.
type NodeShape struct {
	Prefix          string // of the names, before a four-digit number; "node" if empty
	First           int    // number of the first node
	GPUs            int
	Product         string
	CPU, Memory     string
	NodesPerLeaf    int
	LeavesPerSpine  int
	SpinesPerZone   int
	ZonesPerRegion  int
	Labels          map[string]string
	WithoutTopology bool // leaves out the labels of the network
	WithoutPlugin   bool // no device plugin counts the GPUs; ResourceSlices may describe them, see GPUSlice
}

// Node returns the node of this shape with a number.
func (s NodeShape) Node(number int) *v1.Node {
	s = s.withDefaults()
	name := fmt.Sprintf("%s-%04d", s.Prefix, number)
	labels := map[string]string{
		v1.LabelHostname:         name,
		v1.LabelOSStable:         "linux",
		v1.LabelArchStable:       "amd64",
		"nvidia.com/gpu.product": s.Product,
		"nvidia.com/gpu.count":   strconv.Itoa(s.GPUs),
		kubeletLabel:             kubeletRuns,
	}
	if !s.WithoutTopology {
		leaf := number / s.NodesPerLeaf
		spine := leaf / s.LeavesPerSpine
		zone := spine / s.SpinesPerZone
		labels[LeafLabel] = fmt.Sprintf("leaf-%d", leaf)
		labels[SpineLabel] = fmt.Sprintf("spine-%d", spine)
		labels[ZoneLabel] = fmt.Sprintf("zone-%d", zone)
		labels[RegionLabel] = fmt.Sprintf("region-%d", zone/s.ZonesPerRegion)
	}
	for key, value := range s.Labels {
		labels[key] = value
	}
	capacity := v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse(s.CPU),
		v1.ResourceMemory:           resource.MustParse(s.Memory),
		v1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		v1.ResourcePods:             resource.MustParse("110"),
		GPUs:                        *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI),
	}
	if s.WithoutPlugin {
		delete(capacity, GPUs)
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: v1.NodeStatus{
			Capacity: capacity, Allocatable: capacity.DeepCopy(),
			// KWOK would say the same, with one more request for each node.
			Conditions: []v1.NodeCondition{{
				Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		},
	}
}

func (s NodeShape) withDefaults() NodeShape {
	s.Prefix = orDefault(s.Prefix, "node")
	s.GPUs = orDefault(s.GPUs, 8)
	s.Product = orDefault(s.Product, "NVIDIA-H100-80GB-HBM3")
	s.CPU = orDefault(s.CPU, "128")
	s.Memory = orDefault(s.Memory, "2Ti")
	s.NodesPerLeaf = orDefault(s.NodesPerLeaf, 8)
	s.LeavesPerSpine = orDefault(s.LeavesPerSpine, 8)
	s.SpinesPerZone = orDefault(s.SpinesPerZone, 4)
	s.ZonesPerRegion = orDefault(s.ZonesPerRegion, 2)
	return s
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// CreateNodes creates fake nodes, waits until every one is ready and without taints, and returns their names.
func (c *Cluster) CreateNodes(ctx context.Context, count int, shape NodeShape) ([]string, error) {
	names := make([]string, count)
	err := Each(Workers, count, func(i int) error {
		node := shape.Node(shape.First + i)
		names[i] = node.Name
		_, err := c.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create nodes: %w", err)
	}
	wanted := make(map[string]bool, count)
	for _, name := range names {
		wanted[name] = true
	}
	// Reading many nodes is work for the API server, which is busy with them.
	every := 50*time.Millisecond + time.Duration(count)*time.Millisecond
	err = AwaitCount(ctx, startTimeout, every, count, func(ctx context.Context) (int, error) {
		list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return 0, err
		}
		ready := 0
		for _, node := range list.Items {
			if wanted[node.Name] && isReady(&node) && len(node.Spec.Taints) == 0 {
				ready++
			}
		}
		return ready, nil
	})
	if err != nil {
		err = fmt.Errorf("nodes that are ready: %w; the end of %s:\n%s", err, c.KWOK.Log, c.KWOK.Tail())
	}
	return names, err
}

// LoseNode stops the fake kubelet of a node without a word, as a power failure would: the lease is no longer renewed, and the
// pods neither stop nor change. The node becomes NotReady when its lease has ended.
func (c *Cluster) LoseNode(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, kubeletLabel)
	_, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// RecoverNode starts the fake kubelet of a lost node again.
func (c *Cluster) RecoverNode(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, kubeletLabel, kubeletRuns)
	_, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func isReady(node *v1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}
