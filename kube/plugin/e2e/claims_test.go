package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

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

// TestClaimPreemption: a pod of a higher class gets the devices of a preempted one. They are free only when the claim of
// the preempted pod is released.
func TestClaimPreemption(t *testing.T) {
	t.Parallel()
	s := newClaimScene(t, "claim-preemption", 1, eight)
	s.createClaim("low", devices(8))
	s.create(s.claimPod("low", "low"))
	s.awaitBound("low", 1)
	s.createClaim("high", devices(4))
	high := s.claimPod("high", "high")
	high.Spec.PriorityClassName = critical
	s.create(high)
	s.awaitBound("high", 1)
	s.checkClaims()
	c, err := cluster.Client.ResourceV1().ResourceClaims(s.namespace).Get(t.Context(), "low", metav1.GetOptions{})
	if err != nil || c.Status.Allocation != nil {
		t.Errorf("the claim of the preempted pod: %v, %v: want no allocation", c.Status, err)
	}
}
