package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
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
	var planned []string
	for word := range strings.SplitSeq(pod.Annotations[devicesAnnotation], ",") {
		planned = append(planned, "gpu-"+word)
	}
	slices.Sort(planned)
	got := allocation(c)
	if !slices.Equal(got, planned) {
		s.t.Errorf("pod %s is planned with the devices %v, and its claim has %v", pod.Name, planned, got)
	}
	if len(c.Status.ReservedFor) != 1 || c.Status.ReservedFor[0].UID != pod.UID || !slices.Contains(c.Finalizers, resourceapi.Finalizer) {
		s.t.Errorf("the claim %s is reserved for %v and has the finalizers %v: want the pod %s and %s", c.Name, c.Status.ReservedFor, c.Finalizers, pod.Name, resourceapi.Finalizer)
	}
	if c.Status.Allocation != nil && !strings.Contains(fmt.Sprint(c.Status.Allocation.NodeSelector), pod.Spec.NodeName) {
		s.t.Errorf("the claim %s is allocated on %v, and its pod runs on %s", c.Name, c.Status.Allocation.NodeSelector, pod.Spec.NodeName)
	}
	return got
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

// TestClaims: claims are allocated with exactly the planned devices, and the devices of a deleted pod are used again. A
// pool may have several slices, and a node several pools.
func TestClaims(t *testing.T) {
	t.Parallel()
	s := newClaimScene(t, "claims", 1, func(node string) []*resourceapi.ResourceSlice {
		first, second := kubetest.GPUSlice(node, 0, 4, "NVIDIA H100", "80Gi"), kubetest.GPUSlice(node, 4, 4, "NVIDIA H100", "80Gi")
		old := kubetest.GPUSlice(node, 8, 4, "NVIDIA H100", "80Gi") // of an old generation of the second pool
		old.Spec.Pool.Name, old.Spec.Pool.Generation, second.Spec.Pool.Generation = second.Spec.Pool.Name, 1, 2
		return []*resourceapi.ResourceSlice{first, second, old}
	})
	for i, count := range []int{3, 3, 2} {
		name := fmt.Sprintf("pod-%d", i)
		s.createClaim(name, devices(count))
		s.create(s.claimPod(name, name))
		if got := s.checkClaim(&s.awaitBound(name, 1)[0]); len(got) != count {
			t.Errorf("pod %s has the devices %v, want %d", name, got, count)
		}
	}
	s.checkClaims()
	s.createClaim("last", devices(3))
	s.create(s.claimPod("last", "last"))
	s.awaitTold("last", 1, "too few free devices: 3 needed")
	if err := cluster.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), "pod-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitBound("last", 1)
	s.checkClaims()
}

// TestClaimGang: the pods of a Job get claims from a template, all or none of them, in one leaf.
func TestClaimGang(t *testing.T) {
	t.Parallel()
	s := newClaimScene(t, "claim-gang", 2*nodesPerLeaf, eight)
	s.createTemplate("four", devices(4))
	s.createJob(s.claimJob("gang", 4, "four"))
	s.sameLeaf(s.awaitBound("gang", 4))
	s.createJob(s.claimJob("large", 16, "four")) // 12 would fit
	s.awaitTold("large", 16, "16")
	s.checkClaims()
	if err := cluster.Client.BatchV1().Jobs(s.namespace).Delete(t.Context(), "gang", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	s.awaitBound("large", 16)
	s.checkClaims()
}

// TestClaimSelectors: of a node with different GPUs, a pod gets those that satisfy the selectors of its claim.
func TestClaimSelectors(t *testing.T) {
	t.Parallel()
	s := newClaimScene(t, "claim-selectors", 2, func(node string) []*resourceapi.ResourceSlice {
		return []*resourceapi.ResourceSlice{
			kubetest.GPUSlice(node, 0, 4, "NVIDIA A100", "40Gi"), kubetest.GPUSlice(node, 4, 2, "NVIDIA H100", "80Gi"),
		}
	})
	large := "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0"
	for i, want := range [][]string{{"gpu-4", "gpu-5"}, {"gpu-4", "gpu-5"}} {
		name := fmt.Sprintf("large-%d", i)
		s.createClaim(name, devices(2, large))
		s.create(s.claimPod(name, name))
		if got := s.checkClaim(&s.awaitBound(name, 1)[0]); !slices.Equal(got, want) {
			t.Errorf("pod %s has the devices %v, want %v", name, got, want)
		}
	}
	s.createClaim("any", devices(4))
	s.create(s.claimPod("any", "any"))
	s.awaitBound("any", 1)
	uuid := fmt.Sprintf("GPU-%s-3", s.nodes[0])
	if pod := s.awaitBound("any", 1)[0]; pod.Spec.NodeName == s.nodes[0] {
		uuid = fmt.Sprintf("GPU-%s-3", s.nodes[1])
	}
	s.createClaim("one", devices(1, fmt.Sprintf("device.attributes['gpu.nvidia.com'].uuid == %q", uuid)))
	s.create(s.claimPod("one", "one"))
	if got := s.checkClaim(&s.awaitBound("one", 1)[0]); !slices.Equal(got, []string{"gpu-3"}) {
		t.Errorf("the claim for %s has the devices %v", uuid, got)
	}
	same := devices(4)
	same.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName("gpu.nvidia.com/productName"))}}
	s.createClaim("same", same)
	s.create(s.claimPod("same", "same"))
	s.awaitTold("same", 1, "too few free devices: 4 needed, at most 3 free")
	if err := cluster.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitBound("same", 1)
	s.checkClaims()
}

// TestClaimsThatCannotBePlanned: the condition of a pod says what is wrong with its claims.
func TestClaimsThatCannotBePlanned(t *testing.T) {
	t.Parallel()
	s := newClaimScene(t, "claims-refused", 1, eight)
	all, first, two := devices(1), devices(1), devices(1)
	all.Devices.Requests[0].Exactly.AllocationMode, all.Devices.Requests[0].Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	first.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "one", DeviceClassName: kubetest.GPUDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}
	two.Devices.Requests = append(two.Devices.Requests, devices(1, "device.driver == 'other'").Devices.Requests[0])
	two.Devices.Requests[1].Name = "others"
	for name, c := range map[string]struct {
		spec resourceapi.ResourceClaimSpec
		want string
	}{
		"all":       {all, "allocationMode All cannot be planned for GPUs: write ExactCount"},
		"first":     {first, "firstAvailable cannot be planned for GPUs: write exactly"},
		"two":       {two, "all GPUs of a pod must have the same class and selectors"},
		"nowhere":   {devices(1, "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA B200'"), `no GPU of the cluster satisfies the request "gpus" of the claim "nowhere" (class gpu.nvidia.com, selector`},
		"too-many":  {devices(9), "9 "},
		"both-ways": {devices(1), "the pod asks for GPUs by resourceClaims and for 1 in its limits of nvidia.com/gpu: remove one of the two"},
	} {
		s.createClaim(name, c.spec)
		pod := s.claimPod(name, name)
		if name == "both-ways" {
			one := s.spec(1).Containers[0].Resources
			one.Claims = pod.Spec.Containers[0].Resources.Claims
			pod.Spec.Containers[0].Resources = one
		}
		s.create(pod)
		s.awaitTold(name, 1, c.want)
	}
	// A pod with limits does not go to a node whose GPUs are claimed.
	s.create(s.pod("limits", 1))
	s.awaitTold("limits", 1, "no device of type gpu")
}

// TestClaimsOfOthers: the devices of claims that another scheduler allocated, or that pods share, are taken.
func TestClaimsOfOthers(t *testing.T) {
	t.Parallel()
	s := newClaimScene(t, "claims-others", 1, eight)
	foreign := s.claimPod("foreign", "foreign")
	foreign.Spec.SchedulerName = "another"
	s.createClaim("foreign", devices(3))
	s.create(foreign)
	s.allocate("foreign", "foreign", "gpu-1", "gpu-4", "gpu-6")
	err := cluster.Client.CoreV1().Pods(s.namespace).Bind(t.Context(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Target: v1.ObjectReference{Kind: "Node", Name: s.nodes[0]},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.createClaim("rest", devices(5))
	s.create(s.claimPod("rest", "rest"))
	if got := s.checkClaim(&s.awaitBound("rest", 1)[0]); !slices.Equal(got, []string{"gpu-0", "gpu-2", "gpu-3", "gpu-5", "gpu-7"}) {
		t.Errorf("the claim has the devices %v", got)
	}
	if err := cluster.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), "foreign", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Two pods share a claim: the second one follows the first.
	s.createClaim("shared", devices(3))
	s.create(s.claimPod("shared-0", "shared"))
	s.create(s.claimPod("shared-1", "shared"))
	s.awaitBound("shared-0", 1)
	s.awaitBound("shared-1", 1)
	s.createClaim("late", devices(1))
	s.create(s.claimPod("late", "late"))
	s.awaitTold("late", 1, "too few free devices: 1 needed")
	if err := cluster.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), "shared-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitPods("shared-0", 0, "there", func(*v1.Pod) bool { return true })
	if c, err := cluster.Client.ResourceV1().ResourceClaims(s.namespace).Get(t.Context(), "shared", metav1.GetOptions{}); err != nil || len(allocation(c)) != 3 {
		t.Errorf("the shared claim lost its devices with the first pod: %v, %v", c, err)
	}
	s.awaitBound("late", 0)
	if err := cluster.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), "shared-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitBound("late", 1)
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

// TestClaimNotBound: a scheduler that was killed after it had allocated claims, and before it bound the pods, leaves
// nothing behind: the next one plans the pods again, and uses the devices for others.
func TestClaimNotBound(t *testing.T) {
	t.Parallel()
	s := newClaimScene(t, "claim-not-bound", 1, eight)
	s.scheduler = s.namespace + "-scheduler"
	s.createClaim("stays", devices(6))
	s.create(s.claimPod("stays", "stays"))
	s.allocate("stays", "stays", "gpu-7", "gpu-6", "gpu-5", "gpu-4", "gpu-3", "gpu-2")
	// This pod fits nowhere any more, so nothing but the start of the scheduler releases its devices.
	s.createClaim("stuck", devices(2))
	stuck := s.claimPod("stuck", "stuck")
	stuck.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1000")
	s.create(stuck)
	s.allocate("stuck", "stuck", "gpu-0", "gpu-1")
	s.useScheduler()
	s.awaitBound("stays", 1)
	s.checkClaims()
	s.createClaim("urgent", devices(2))
	s.create(s.claimPod("urgent", "urgent"))
	s.awaitBound("urgent", 1)
	s.checkClaims()
	if err := cluster.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), "stays", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.checkClaims()
	// A pod whose binding is rejected keeps no devices either.
	if err := cluster.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), "urgent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	allow := s.rejectBindings("object.metadata.name == 'rejected'")
	s.createClaim("rejected", devices(5))
	s.create(s.claimPod("rejected", "rejected"))
	s.await(func(context.Context) error {
		if count(s.process, rejected) == 0 {
			return errors.New("the scheduler's log has no rejected binding")
		}
		return nil
	})
	s.process.Kill()
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), "rejected", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.createClaim("whole", devices(8))
	s.create(s.claimPod("whole", "whole"))
	s.awaitBound("whole", 1)
	s.checkClaims()
	allow()
	s.await(func(ctx context.Context) error {
		c, err := cluster.Client.ResourceV1().ResourceClaims(s.namespace).Get(ctx, "rejected", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && (c.Status.Allocation != nil || len(c.Status.ReservedFor) > 0) {
			err = fmt.Errorf("the claim of the deleted pod has the devices %v and is reserved for %v", allocation(c), c.Status.ReservedFor)
		}
		return err
	})
}

// TestClaimsSchedulerKilled: the scheduler is killed at moments while it allocates claims of gangs. Afterwards every gang
// is bound with its own devices.
func TestClaimsSchedulerKilled(t *testing.T) {
	t.Parallel()
	s := newClaimScene(t, "claims-killed", nodesPerLeaf, eight)
	s.useScheduler()
	sizes := map[string]int{}
	for i := range 6 {
		app := fmt.Sprintf("gang-%d", i)
		sizes[app] = 2
		s.createTemplate(app, devices(2))
		s.createJob(s.claimJob(app, 2, app))
		decided := count(s.process, `"Decided"`)
		_ = kubetest.Await(t.Context(), 5*time.Second, 5*time.Millisecond, func(context.Context) error { // it may have been faster
			if count(s.process, `"Decided"`) == decided {
				return errors.New("the scheduler decided nothing")
			}
			return nil
		})
		moment := time.Duration(i*i) * 4 * time.Millisecond
		select {
		case <-time.After(moment):
		case <-s.process.Ended():
			t.Fatal("the scheduler ended by itself")
		}
		s.process.Kill()
		if err := s.process.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, app := range slices.Sorted(maps.Keys(sizes)) {
		s.awaitBound(app, sizes[app])
	}
	s.checkClaims()
}
