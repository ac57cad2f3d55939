package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
	"github.com/ares-scheduler/ares/kube/watch"
)

// newTable returns a table with two nodes: each has two A100 with 40 GiB and two H100 with 80 GiB.
func newTable() *deviceTable {
	t := newDeviceTable()
	t.setClass(kubetest.GPUDriver, kubetest.GPUClass())
	for _, node := range []string{"n1", "n2"} {
		t.setSlice(kubetest.GPUSlice(node, 0, 2, "NVIDIA A100", "40Gi"), true)
		t.setSlice(kubetest.GPUSlice(node, 2, 2, "NVIDIA H100", "80Gi"), true)
	}
	return t
}

// accepted returns the devices of a node whose model is among the given ones.
func accepted(t *deviceTable, node string, models []string) string {
	record := &ares.Node{ID: node, NUMA: []ares.NUMANode{{}}}
	t.use(record)
	var out []string
	for _, d := range record.Devices {
		if slices.Contains(models, d.Model) {
			out = append(out, fmt.Sprint(d.Index))
		}
	}
	return strings.Join(out, ",")
}

func request(selectors ...string) *watch.DeviceRequest {
	return &watch.DeviceRequest{Class: kubetest.GPUDriver, Selectors: selectors, Count: 1}
}

// TestSelections checks that the models of a request are exactly those of the devices that it accepts, also after other
// requests have split the kinds.
func TestSelections(t *testing.T) {
	table := newTable()
	all, large := request(), request("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0")
	one := request("device.attributes['gpu.nvidia.com'].uuid == 'GPU-n2-1'")
	missing := request("device.attributes['gpu.nvidia.com'].slot == 3") // no device has the attribute
	match := request()
	match.Match = []string{"gpu.nvidia.com/uuid"}
	for round := range 2 {
		for _, c := range []struct {
			name    string
			request *watch.DeviceRequest
			n1, n2  string
			changed int // nodes whose devices are split by the request, when it is new
		}{
			{"all", all, "0,1,2,3", "0,1,2,3", 0},
			{"large", large, "2,3", "2,3", 0},
			{"one", one, "", "1", 1},
			{"missing", missing, "", "", 0},
			{"match", match, "0", "0", 2},
		} {
			models, changed, isGPU := table.selection(c.request)
			if got := accepted(table, "n1", models); got != c.n1 {
				t.Errorf("round %d, %s: n1 has %s, want %s", round, c.name, got, c.n1)
			}
			if got := accepted(table, "n2", models); got != c.n2 {
				t.Errorf("round %d, %s: n2 has %s, want %s", round, c.name, got, c.n2)
			}
			if want := c.changed * (1 - round); len(changed) != want || !isGPU {
				t.Errorf("round %d, %s: %v changed, want %d; GPU %t", round, c.name, changed, want, isGPU)
			}
		}
	}
	// The engine compares models by a part of their name.
	models, _, _ := table.selection(all)
	for _, a := range models {
		for _, b := range models {
			if a != b && strings.Contains(a, b) {
				t.Errorf("the model %q contains the model %q", a, b)
			}
		}
	}
	// A new device belongs to all requests that accept it.
	if _, newKinds := table.setSlice(kubetest.GPUSlice("n3", 0, 1, "NVIDIA B200", "180Gi"), true); !newKinds {
		t.Error("a new product is no new kind")
	}
	if models, _, _ := table.selection(large); accepted(table, "n3", models) != "0" {
		t.Errorf("the new device is not among %v", models)
	}
}

// TestDeviceIndexes checks that a device keeps its index while its slice is away, and that it gets no pods then.
func TestDeviceIndexes(t *testing.T) {
	table := newTable()
	first := kubetest.GPUSlice("n1", 0, 2, "NVIDIA A100", "40Gi")
	table.setSlice(first, false)
	if node, indexes := table.find([]string{"gpu.nvidia.com/n1-2/gpu-3", "gpu.nvidia.com/n1-2/gpu-2", "nic/n1/eth0"}); node != "n1" || fmt.Sprint(indexes) != "[2 3]" {
		t.Errorf("found %v on %s", indexes, node)
	}
	healthy := func() (out []bool) {
		record := &ares.Node{ID: "n1", NUMA: []ares.NUMANode{{}}}
		table.use(record)
		for _, d := range record.Devices {
			out = append(out, d.Healthy)
		}
		return out
	}
	if got := fmt.Sprint(healthy()); got != "[false false true true]" {
		t.Errorf("healthy: %s", got)
	}
	table.setSlice(first, true)
	if got := fmt.Sprint(healthy()); got != "[true true true true]" {
		t.Errorf("healthy: %s", got)
	}
	if got := table.others("n1", []int{1, 2}); len(got) != 2 || got[0].Name != "gpu-0" || got[1].Name != "gpu-3" {
		t.Errorf("others: %v", got)
	}
}

// TestClasses checks which requests are for GPUs.
func TestClasses(t *testing.T) {
	class := func(name, selector, label string) *resourceapi.DeviceClass {
		c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelGPUs: label}}}
		c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
		return c
	}
	table := newTable()
	table.setClass("nic", class("nic", "device.driver == 'nic'", ""))
	table.setClass("h100", class("h100", "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100'", ""))
	table.setClass("tpu", class("tpu", "device.driver == 'tpu'", "true"))
	for name, want := range map[string]bool{kubetest.GPUDriver: true, "nic": false, "h100": true, "tpu": true, "unknown": false} {
		r := &watch.DeviceRequest{Class: name}
		if got := table.wantsGPU(r); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
		if _, _, got := table.selection(r); got != want {
			t.Errorf("selection of %s: %t, want %t", name, got, want)
		}
		if got := table.wantsGPU(r); got != want {
			t.Errorf("%s again: %t, want %t", name, got, want)
		}
	}
	if table.deviceType() != watch.ClaimDevice {
		t.Error("the devices count as those of a device plugin")
	}
	extended := kubetest.GPUClass()
	extended.Spec.ExtendedResourceName = new(string(watch.GPUResource))
	if changed := table.setClass(extended.Name, extended); len(changed) != 2 || table.deviceType() != ares.DefaultAccelerator {
		t.Errorf("an extended resource: %v changed, type %s", changed, table.deviceType())
	}
	table.setClass(extended.Name, nil)
	record := &ares.Node{ID: "n1", NUMA: []ares.NUMANode{{}}}
	table.use(record)
	if slices.ContainsFunc(record.Devices, func(d ares.Device) bool { return d.Healthy }) {
		t.Errorf("devices without a class of GPUs: %v", record.Devices)
	}
}

// TestResolve checks that the IDs of a plan become the indexes of this process, unless the devices are known exactly.
func TestResolve(t *testing.T) {
	table := newTable()
	ids := table.ids("n2", []int{3, 0})
	if fmt.Sprint(ids) != "[gpu.nvidia.com/n2-2/gpu-3 gpu.nvidia.com/n2-0/gpu-0]" || table.ids("n2", []int{4}) != nil || table.ids("n9", []int{0}) != nil {
		t.Errorf("IDs: %v", ids)
	}
	for _, exact := range []bool{false, true} {
		p := &watch.Pod{Exact: exact, Plan: watch.Bound{Devices: []int{7}, IDs: ids, Gang: []watch.PlannedPod{{IDs: ids[:1]}, {Devices: []int{5}}}}}
		table.resolve(p)
		want := map[bool]string{false: "[0 3] [3] [5]", true: "[7] [3] [5]"}[exact]
		if got := fmt.Sprint(p.Plan.Devices, p.Plan.Gang[0].Devices, p.Plan.Gang[1].Devices); got != want {
			t.Errorf("exact %t: %s, want %s", exact, got, want)
		}
	}
}
