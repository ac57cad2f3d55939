package installtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// createClaimNodes creates two nodes whose GPUs are in ResourceSlices, with the class that a driver would install.
func createClaimNodes(t *testing.T, c *kubetest.Cluster, shape kubetest.NodeShape) []string {
	t.Helper()
	client := c.Client.ResourceV1()
	if _, err := client.DeviceClasses().Create(t.Context(), kubetest.GPUClass(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shape.First, shape.WithoutPlugin = 16, true
	nodes, err := c.CreateNodes(t.Context(), 2, shape)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		for _, slice := range []*resourceapi.ResourceSlice{
			kubetest.GPUSlice(node, 0, 2, "NVIDIA A100", "40Gi"), kubetest.GPUSlice(node, 2, 2, "NVIDIA H100", "80Gi"),
		} {
			if _, err := client.ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return nodes
}

// testClaims checks the devices of the example with claims. Then it lets the class offer its devices as the resource
// nvidia.com/gpu, so that pods with limits get them too.
func testClaims(t *testing.T, c *kubetest.Cluster, a *applier, nodes []string) {
	t.Helper()
	bound := func(p *v1.Pod) bool { return p.Spec.NodeName != "" }
	const selector = "batch.kubernetes.io/job-name=gpu-claim"
	pods, err := c.AwaitPods(t.Context(), metav1.NamespaceDefault, selector, 2, "bound", bound)
	if err != nil {
		t.Fatalf("%v%s", err, conditions(t.Context(), c, selector))
	}
	for i := range pods {
		if len(pods[i].Status.ResourceClaimStatuses) != 1 {
			t.Fatalf("pod %s has the claims %v, want one", pods[i].Name, pods[i].Status.ResourceClaimStatuses)
		}
		checkDevices(t, c, *pods[i].Status.ResourceClaimStatuses[0].ResourceClaimName, []string{"gpu-2", "gpu-3"})
	}
	classes := c.Client.ResourceV1().DeviceClasses()
	class, err := classes.Get(t.Context(), kubetest.GPUDriver, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	class.Spec.ExtendedResourceName = new(string(kubetest.GPUs))
	if _, err := classes.Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	limits := workload{kind: "Pod", limit: 2, meta: map[string]any{"name": "limits", "labels": map[string]any{"app": "limits"}},
		pod: map[string]any{"nodeSelector": map[string]any{v1.LabelHostname: nodes[0]}}}
	if _, err := a.create(t, limits.object(), false); err != nil {
		t.Fatal(err)
	}
	pods, err = c.AwaitPods(t.Context(), metav1.NamespaceDefault, "app=limits", 1, "bound", bound)
	if err != nil {
		t.Fatalf("%v%s", err, conditions(t.Context(), c, "app=limits"))
	}
	status := pods[0].Status.ExtendedResourceClaimStatus
	want := fmt.Sprintf("%[1]s/%[2]s-0/gpu-0,%[1]s/%[2]s-0/gpu-1", kubetest.GPUDriver, nodes[0])
	if got := pods[0].Annotations["ares.dev/devices"]; status == nil || got != want {
		t.Fatalf("the pod has the claim %v and the devices %q, want a claim and %s", status, got, want)
	}
	checkDevices(t, c, status.ResourceClaimName, []string{"gpu-0", "gpu-1"})
}

// checkDevices fails the test unless a claim is allocated with these devices.
func checkDevices(t *testing.T, c *kubetest.Cluster, name string, want []string) {
	t.Helper()
	claim, err := c.Client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if claim.Status.Allocation != nil {
		for i := range claim.Status.Allocation.Devices.Results {
			got = append(got, claim.Status.Allocation.Devices.Results[i].Device)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the claim %s has the devices %s, want %s", name, strings.Join(got, ", "), strings.Join(want, ", "))
	}
}
