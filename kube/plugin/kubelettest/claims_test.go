package kubelettest

import (
	"path"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
	"github.com/ares-scheduler/ares/kube/plugin/kubetest/realnode"
	"github.com/ares-scheduler/ares/kube/watch"
)

// testClaims has a pod that gets its GPUs by a ResourceClaim, on a node with a DRA driver: its container sees exactly the
// devices that were planned.
func testClaims(t *testing.T, s *scene) {
	const count = 2
	node := realnode.Start(t, s.Cluster, realnode.Options{Name: "gpu-2", Labels: map[string]string{kubetest.LeafLabel: "leaf-1"}})
	node.StartClaimDriver(t, kubetest.GPUDriver)
	client := s.Client.ResourceV1()
	if _, err := client.DeviceClasses().Create(t.Context(), kubetest.GPUClass(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ResourceSlices().Create(t.Context(), kubetest.GPUSlice(node.Name, 0, 4, "NVIDIA H100", "80Gi"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := client.ResourceClaimTemplates(metav1.NamespaceDefault).Create(t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gpus"},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: kubetest.GPUDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
			}}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.job(t, "claim", 0, func(spec *v1.PodSpec) {
		spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: new("gpus")}}
		spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpus"}}
	})
	pod := s.pod(t, "claim", "running", kubetest.IsRunning)
	var want []string // the plan has the whole IDs of the devices: driver, pool and name
	for id := range strings.SplitSeq(pod.Annotations[watch.AnnotationDevices], ",") {
		want = append(want, path.Base(id))
	}
	s.end(t, "claim")
	got := s.completed(t, "claim")
	slices.Sort(got)
	slices.Sort(want)
	if len(want) != count || !slices.Equal(got, want) {
		t.Errorf("the pod saw %v, and %v are planned", got, want)
	}
}
