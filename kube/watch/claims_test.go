package watch_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

func slice(pool string, generation, parts int64, names ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", Pool: resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: parts},
	}}
	for _, name := range names {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: name})
	}
	return s
}

func TestPoolDevices(t *testing.T) {
	part := slice("p", 1, 1, "gpu-9")
	part.Spec.Devices[0].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "x"}}
	shared := slice("q", 1, 1, "gpu-9")
	shared.Spec.Devices[0].AllowMultipleAllocations = new(true)
	for _, c := range []struct {
		name   string
		slices []*resourceapi.ResourceSlice
		want   string
	}{
		{"numbers", []*resourceapi.ResourceSlice{slice("p", 1, 1, "gpu-10", "gpu-9", "gpu-1")}, "p/gpu-1 p/gpu-9 p/gpu-10"},
		{"two pools", []*resourceapi.ResourceSlice{slice("q", 1, 1, "gpu-0"), slice("p", 3, 1, "gpu-1")}, "p/gpu-1 q/gpu-0"},
		{"two slices of a pool", []*resourceapi.ResourceSlice{slice("p", 1, 2, "gpu-1"), slice("p", 1, 2, "gpu-0")}, "p/gpu-0 p/gpu-1"},
		{"the newest generation", []*resourceapi.ResourceSlice{slice("p", 1, 1, "old"), slice("p", 2, 1, "new"), slice("p", 1, 1, "older")}, "p/new"},
		{"an incomplete pool", []*resourceapi.ResourceSlice{slice("p", 1, 1, "old"), slice("p", 2, 2, "new"), slice("q", 1, 1, "gpu-0")}, "q/gpu-0"},
		{"parts of devices", []*resourceapi.ResourceSlice{part, shared}, ""},
	} {
		var got []string
		for _, d := range watch.PoolDevices(c.slices) {
			got = append(got, strings.TrimPrefix(d.ID(), "gpu.nvidia.com/"))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

func TestPoolDeviceRecords(t *testing.T) {
	s := slice("p", 1, 1, "gpu-0", "gpu-1", "gpu-2")
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"gpu.nvidia.com/productName":      {StringValue: new("NVIDIA H100")},
			"resource.kubernetes.io/numaNode": {IntValue: new(int64(i / 2))},
			"resource.kubernetes.io/pcieRoot": {StringValue: new(fmt.Sprintf("pci%d", (i+1)/2))},
		}
		s.Spec.Devices[i].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}
	}
	s.Spec.Devices[2].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	list := watch.PoolDevices([]*resourceapi.ResourceSlice{s})
	var records []ares.Device
	for i, d := range list {
		records = append(records, d.GPU(i, d.Product()))
	}
	n := watch.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		"cpu": resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("8"),
	}}}, watch.Resources{})
	watch.UsePoolDevices(n, list, records)
	if len(n.Devices) != 3 {
		t.Fatalf("devices: %v", n.Devices)
	}
	if d := n.Devices[1]; d.ID != "gpu.nvidia.com/p/gpu-1" || d.Index != 1 || d.Model != "NVIDIA H100" || d.MemoryMB != 81920 || d.NUMA != 0 || !d.Healthy || d.Type != watch.ClaimDevice {
		t.Errorf("device: %+v", d)
	}
	if d := n.Devices[2]; d.Healthy || d.NUMA != 1 || !strings.Contains(d.Reason, "broken") {
		t.Errorf("a device with a taint: %+v", d)
	}
	if got := fmt.Sprint(n.Links); got != "[[X NODE SYS] [NODE X PHB] [SYS PHB X]]" {
		t.Errorf("links: %s", got)
	}
	if len(n.NUMA) != 2 || n.NUMA[1].ID != 1 || n.NUMA[1].CPUs != 8 {
		t.Errorf("NUMA nodes: %v", n.NUMA)
	}
}

func TestDeviceRequests(t *testing.T) {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	c.Spec.Devices = resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{
			{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 2, Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "x"}}}}},
			{Name: "b", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll}},
			{Name: "c", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AdminAccess: new(true)}},
			{Name: "d", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "x", DeviceClassName: "gpu"}}},
			{Name: "e", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "nic"}},
		},
		Constraints: []resourceapi.DeviceConstraint{
			{Requests: []string{"a"}, MatchAttribute: new(resourceapi.FullyQualifiedName("x/y"))},
			{Requests: []string{"e"}, DistinctAttribute: new(resourceapi.FullyQualifiedName("x/y"))},
		},
	}
	var got []string
	for _, r := range watch.DeviceRequests(c) {
		problem, _, _ := strings.Cut(r.Problem, " cannot")
		got = append(got, fmt.Sprintf("%s %s %d %v %v %s", r.Name, r.Class, r.Count, r.Selectors, r.Match, problem))
	}
	want := []string{
		"a gpu 2 [x] [x/y] ", "b gpu 1 [] [] allocationMode All", "d gpu 1 [] [] firstAvailable",
		"e nic 1 [] [] only the constraint matchAttribute can be planned for GPUs: remove the others",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("requests:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTranslateClaimPod(t *testing.T) {
	p := gpuPod("0")
	p.Spec.NodeName = "n"
	p.Annotations = map[string]string{"topology.scheduler/gpu-count": "2", watch.AnnotationFence: "3", watch.AnnotationDevices: "0,1"}
	out := watch.TranslateClaimPod(p, nil, nil, watch.Claims{GPUs: 2, Type: watch.ClaimDevice, Models: []string{"H100 (1)"}, Devices: []int{4, 5}})
	if out.Problem != "" || out.GPUs != 2 || out.Spec.GPUs != 2 || !out.Exact || fmt.Sprint(out.Plan.Devices) != "[4 5]" || out.Plan.Fence != 3 {
		t.Errorf("pod: %+v", out)
	}
	if r := out.Spec.Placement().NodeRequirements.String(); r != `gpu.model="H100 (1)"` || out.Spec.AcceleratorType != watch.ClaimDevice {
		t.Errorf("requirements: %s, type %s", r, out.Spec.AcceleratorType)
	}
	p.Annotations[watch.AnnotationDevices] = "d/p/gpu-0,d/p/gpu-1,no device"
	if out = watch.TranslateClaimPod(p, nil, nil, watch.Claims{GPUs: 2}); out.Exact || fmt.Sprint(out.Plan.IDs) != "[d/p/gpu-0 d/p/gpu-1]" {
		t.Errorf("plan: %+v", out.Plan)
	}
	if out = watch.TranslateClaimPod(gpuPod("1"), nil, nil, watch.Claims{GPUs: 2}); !strings.Contains(out.Problem, "remove one of the two") {
		t.Errorf("a pod with limits and claims: %q", out.Problem)
	}
}
