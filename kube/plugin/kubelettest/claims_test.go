package kubelettest

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
	"github.com/ares-scheduler/ares/kube/plugin/kubetest/realnode"
)

// testClaims has a pod that gets its GPUs by a ResourceClaim, on a node with a DRA driver: the container sees exactly the devices
// that are allocated to the claim.
func testClaims(t *testing.T, s *scene) {
	const driver, count = "gpu.nvidia.com", 2
	node := realnode.Start(t, s.Cluster, realnode.Options{Name: "gpu-2", Labels: map[string]string{kubetest.LeafLabel: "leaf-1"}})
	node.StartClaimDriver(t, driver)
	s.publish(t, node.Name, driver, 4)
	_, err := s.Client.ResourceV1().ResourceClaimTemplates(metav1.NamespaceDefault).Create(t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gpus"},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: driver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
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
	claim, err := s.Client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Get(t.Context(), *pod.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		want = append(want, result.Device)
	}
	s.end(t, "claim")
	got := s.completed(t, "claim")
	slices.Sort(got)
	slices.Sort(want)
	if len(want) != count || !slices.Equal(got, want) {
		t.Errorf("the pod saw %v, and %v are allocated", got, want)
	}
}

// publish creates the DeviceClass of a driver and the ResourceSlice of a node, as a DRA driver for GPUs does.
func (s *scene) publish(t *testing.T, node, driver string, count int) {
	t.Helper()
	_, err := s.Client.ResourceV1().DeviceClasses().Create(t.Context(), &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", driver),
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1}},
	}
	for i := range count {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": {StringValue: new("gpu")}},
		})
	}
	if _, err := s.Client.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
