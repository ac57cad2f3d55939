package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// gpuClass creates the class of the GPUs in slices, once.
var gpuClass = sync.OnceValue(func() error {
	_, err := cluster.Client.ResourceV1().DeviceClasses().Create(context.Background(), kubetest.GPUClass(), metav1.CreateOptions{})
	return err
})

// newClaimScene makes a scene whose nodes have no device plugin. Each node has the slices that the function returns.
func newClaimScene(t testing.TB, name string, nodes int, describe func(node string) []*resourceapi.ResourceSlice) *scene {
	t.Helper()
	if err := gpuClass(); err != nil {
		t.Fatal(err)
	}
	s := newScene(t, name, 0)
	shape := kubetest.NodeShape{
		Prefix: name, First: int(scenes.Add(1)) * 256, NodesPerLeaf: nodesPerLeaf, LeavesPerSpine: 4,
		Labels: map[string]string{sceneLabel: name}, WithoutPlugin: true,
	}
	var err error
	if s.nodes, err = cluster.CreateNodes(t.Context(), nodes, shape); err != nil {
		t.Fatal(err)
	}
	for i, node := range s.nodes {
		s.leaves[node] = shape.Node(shape.First + i).Labels[kubetest.LeafLabel]
		for _, slice := range describe(node) {
			s.createSlice(slice)
		}
	}
	return s
}

func (s *scene) createSlice(slice *resourceapi.ResourceSlice) {
	s.t.Helper()
	client := cluster.Client.ResourceV1().ResourceSlices()
	if _, err := client.Create(s.t.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Delete(context.Background(), slice.Name, metav1.DeleteOptions{}) })
}

// eight describes a node with eight H100.
func eight(node string) []*resourceapi.ResourceSlice {
	return []*resourceapi.ResourceSlice{kubetest.GPUSlice(node, 0, 8, "NVIDIA H100", "80Gi")}
}

// devices returns the specification of a claim for a number of GPUs that satisfy the selectors.
func devices(count int, selectors ...string) resourceapi.ResourceClaimSpec {
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: kubetest.GPUDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(count)}
	for _, text := range selectors {
		exactly.Selectors = append(exactly.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: text}})
	}
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpus", Exactly: exactly}}}}
}

// createClaim creates a claim.
func (s *scene) createClaim(name string, spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaim {
	s.t.Helper()
	c, err := cluster.Client.ResourceV1().ResourceClaims(s.namespace).Create(s.t.Context(),
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// createTemplate creates a template of claims.
func (s *scene) createTemplate(name string, spec resourceapi.ResourceClaimSpec) {
	s.t.Helper()
	_, err := cluster.Client.ResourceV1().ResourceClaimTemplates(s.namespace).Create(s.t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// claimPod returns a pod that uses a claim.
func (s *scene) claimPod(name, claim string) *v1.Pod {
	pod := s.pod(name, 0)
	useClaim(&pod.Spec, v1.PodResourceClaim{Name: "gpus", ResourceClaimName: &claim})
	return pod
}

// claimJob returns a Job whose pods get a claim each from a template.
func (s *scene) claimJob(name string, pods int32, template string) *batchv1.Job {
	job := s.job(name, pods, 0)
	useClaim(&job.Spec.Template.Spec, v1.PodResourceClaim{Name: "gpus", ResourceClaimTemplateName: &template})
	return job
}

func useClaim(spec *v1.PodSpec, claim v1.PodResourceClaim) {
	spec.ResourceClaims = []v1.PodResourceClaim{claim}
	spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: claim.Name}}
}

// claimOf returns the claim of a pod.
func (s *scene) claimOf(ctx context.Context, pod *v1.Pod) (*resourceapi.ResourceClaim, error) {
	name := pod.Spec.ResourceClaims[0].ResourceClaimName
	if name == nil && len(pod.Status.ResourceClaimStatuses) > 0 {
		name = pod.Status.ResourceClaimStatuses[0].ResourceClaimName
	}
	if name == nil {
		return nil, fmt.Errorf("pod %s has no claim yet", pod.Name)
	}
	return cluster.Client.ResourceV1().ResourceClaims(s.namespace).Get(ctx, *name, metav1.GetOptions{})
}

// allocation returns the names of the devices that are allocated to a claim.
func allocation(c *resourceapi.ResourceClaim) (names []string) {
	if c.Status.Allocation != nil {
		for i := range c.Status.Allocation.Devices.Results {
			names = append(names, c.Status.Allocation.Devices.Results[i].Device)
		}
	}
	slices.Sort(names)
	return names
}

// checkClaim fails the test unless a bound pod's claim is allocated on its node, with exactly the devices that the
// scheduler planned, and reserved for the pod. It returns the devices.
func (s *scene) checkClaim(pod *v1.Pod) []string {
	s.t.Helper()
	c, err := s.claimOf(s.t.Context(), pod)
	if err != nil {
		s.t.Fatal(err)
	}
	planned := strings.Split(pod.Annotations[devicesAnnotation], ",")
	var has []string
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			has = append(has, r.Driver+"/"+r.Pool+"/"+r.Device)
		}
	}
	slices.Sort(planned)
	slices.Sort(has)
	if !slices.Equal(has, planned) {
		s.t.Errorf("pod %s is planned with the devices %v, and its claim has %v", pod.Name, planned, has)
	}
	if len(c.Status.ReservedFor) != 1 || c.Status.ReservedFor[0].UID != pod.UID || !slices.Contains(c.Finalizers, resourceapi.Finalizer) {
		s.t.Errorf("the claim %s is reserved for %v and has the finalizers %v: want the pod %s and %s", c.Name, c.Status.ReservedFor, c.Finalizers, pod.Name, resourceapi.Finalizer)
	}
	if c.Status.Allocation != nil && !strings.Contains(fmt.Sprint(c.Status.Allocation.NodeSelector), pod.Spec.NodeName) {
		s.t.Errorf("the claim %s is allocated on %v, and its pod runs on %s", c.Name, c.Status.Allocation.NodeSelector, pod.Spec.NodeName)
	}
	return allocation(c)
}

// checkClaims checks all bound pods with claims, and that no device belongs to two of them.
func (s *scene) checkClaims() {
	s.t.Helper()
	list, err := s.pods(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	owners := map[string]string{}
	for i := range list {
		p := &list[i]
		if p.Spec.NodeName == "" || len(p.Spec.ResourceClaims) == 0 || p.DeletionTimestamp != nil || p.Status.Phase == v1.PodSucceeded {
			continue
		}
		for _, device := range s.checkClaim(p) {
			device = p.Spec.NodeName + "/" + device
			if other := owners[device]; other != "" {
				s.t.Errorf("pods %s and %s both have the device %s", other, p.Name, device)
			}
			owners[device] = p.Name
		}
	}
}

// allocate writes an allocation into a claim and reserves it for a pod, in one write, as schedulers do before they bind.
func (s *scene) allocate(claim, pod string, names ...string) {
	s.t.Helper()
	s.await(func(ctx context.Context) error {
		client := cluster.Client.ResourceV1().ResourceClaims(s.namespace)
		c, err := client.Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p, err := cluster.Client.CoreV1().Pods(s.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Finalizers = []string{resourceapi.Finalizer}
		if c, err = client.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
			return err
		}
		result := &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{s.nodes[0]}}},
		}}}}
		for _, name := range names {
			result.Devices.Results = append(result.Devices.Results, resourceapi.DeviceRequestAllocationResult{
				Request: "gpus", Driver: kubetest.GPUDriver, Pool: s.nodes[0] + "-0", Device: name,
			})
		}
		c.Status.Allocation = result
		c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod, UID: p.UID}}
		_, err = client.UpdateStatus(ctx, c, metav1.UpdateOptions{})
		return err
	})
}
