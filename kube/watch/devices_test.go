package watch_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ares-scheduler/ares/kube/watch"
)

func TestDevicesInUse(t *testing.T) {
	status := func(name v1.ResourceName, ids ...v1.ResourceID) v1.ContainerStatus {
		r := v1.ResourceStatus{Name: name}
		for _, id := range ids {
			r.Resources = append(r.Resources, v1.ResourceHealth{ResourceID: id, Health: v1.ResourceHealthStatusHealthy})
		}
		return v1.ContainerStatus{AllocatedResourcesStatus: []v1.ResourceStatus{r}}
	}
	for _, c := range []struct {
		name   string
		gpus   string
		status []v1.ContainerStatus
		want   []string
	}{
		{"the kubelet says nothing", "2", nil, nil},
		{"in any order", "2", []v1.ContainerStatus{status(watch.GPUResource, "GPU-b", "GPU-a")}, []string{"GPU-a", "GPU-b"}},
		{"in several containers", "2", []v1.ContainerStatus{status(watch.GPUResource, "GPU-b"), status(watch.GPUResource, "GPU-a")}, []string{"GPU-a", "GPU-b"}},
		{"one is missing, as with a sidecar", "2", []v1.ContainerStatus{status(watch.GPUResource, "GPU-b")}, nil},
		{"one device twice", "2", []v1.ContainerStatus{status(watch.GPUResource, "GPU-b"), status(watch.GPUResource, "GPU-b")}, nil},
		{"a claim", "1", []v1.ContainerStatus{status("claim:gpu", "driver/pool/gpu-0")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &v1.Pod{
				Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{
					Limits: v1.ResourceList{watch.GPUResource: resource.MustParse(c.gpus)},
				}}}},
				Status: v1.PodStatus{ContainerStatuses: c.status},
			}
			if got := watch.TranslatePod(p, nil, nil).Devices; !slices.Equal(got, c.want) {
				t.Errorf("the devices in use are %q, want %q", got, c.want)
			}
		})
	}
}
