package planner_test

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// byClaim makes a pod one that gets its GPUs by claims, of the given models.
func byClaim(models ...string) func(*watch.Pod) {
	return func(p *watch.Pod) {
		p.ByClaim = true
		p.Spec.EditPlacement().NodeRequirements = ares.NodeRequirements{{Key: ares.KeyGPUModel, Operator: ares.OperatorIn, Values: models}}
	}
}

func claimHolder(uid string, node string, devices ...int) *watch.Pod {
	p := watch.ClaimHolder(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "team-b", UID: types.UID(uid)}}, node, devices)
	p.Spec.AcceleratorType = "" // the devices of the tests are those of a device plugin
	return p
}

// TestClaimModels checks that a pod gets only devices of the models that its claims accept, and is planned again when
// these change.
func TestClaimModels(t *testing.T) {
	c := newCluster(t, 0)
	n := gpuNode(0)
	for i := range n.Devices {
		n.Devices[i].Model = []string{"H100 (1)", "H100 (12)"}[i%2]
	}
	c.SetNode(n, true, false)
	c.pod("a", 4, "", 1, byClaim("H100 (1)"))
	c.pod("b", 1, "", 1, byClaim("H100 (7)"))
	c.cycle()
	if got := c.plan("a"); got != "node-000 [0 2 4 6]" {
		t.Errorf("a: %s", got)
	}
	if got := c.plan("b"); got != "" {
		t.Errorf("b: %s", got)
	}
	seen := *c.pods["b"]
	byClaim("H100 (7)", "H100 (12)")(&seen)
	c.SetPod(&seen, c.now)
	c.cycle()
	if a, planned := c.Assignment("uid-b"); !planned || !slices.Contains([]int{1, 3, 5, 7}, a.Devices[0]) {
		t.Errorf("b: %v %v", a, planned)
	}
}

// TestClaimHolder checks that the devices of a claim are taken, also if a pod was planned with them, and that nothing
// preempts a claim.
func TestClaimHolder(t *testing.T) {
	c := newCluster(t, 1)
	c.pod("a", 4, "", 1, byClaim("H100"))
	c.cycle()
	a, _ := c.Assignment("uid-a")
	c.SetPod(claimHolder("x", "node-000", a.Devices[0], a.Devices[1]), c.now)
	if d := c.cycle(); len(d.Withdrawn) != 1 {
		t.Errorf("withdrawn: %v, want the pod a", d.Withdrawn)
	}
	b, planned := c.Assignment("uid-a")
	if !planned || slices.Contains(b.Devices, a.Devices[0]) || slices.Contains(b.Devices, a.Devices[1]) {
		t.Errorf("a: %v after %v", b.Devices, a.Devices)
	}
	c.bind("a")
	c.pod("urgent", 8, "", 1, withPriority(900))
	if d := c.cycle(); len(d.Evictions) > 0 {
		t.Errorf("a pod is evicted although a claim holds devices: %v", d.Evictions)
	}
	c.DeletePod("uid-a", c.now)
	c.DeletePod(watch.HolderUID(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: "x"}}), c.now)
	c.cycle()
	if c.plan("urgent") == "" {
		t.Error("the devices of the claim are not free again")
	}
}

// TestClaimDevices checks that a pod is seated on the devices that are allocated to it, after a restart and if they are not
// the planned ones, and that it never gets others instead.
func TestClaimDevices(t *testing.T) {
	c := newCluster(t, 1)
	c.pod("a", 2, "", 1, byClaim("H100"))
	c.cycle()
	p := *c.pods["a"]
	p.Node, p.Exact, p.Plan = "node-000", true, watch.Bound{Fence: 1, Devices: []int{7, 5}}
	c.pods["a"] = &p
	c.SetPod(&p, c.now)
	for _, now := range []*cluster{c, c.restart(1)} {
		now.cycle()
		if got := now.plan("a"); got != "node-000 [7 5]" {
			t.Errorf("a: %s", got)
		}
		now.SetPod(claimHolder("x", "node-000", 7), now.now) // it contradicts the pod's claim, so it has nothing
		now.pod("rest", 6, "", 1)
		now.cycle()
		if got := now.plan("rest"); got != "node-000 [0 1 2 3 4 6]" {
			t.Errorf("rest: %s", got)
		}
	}
}

// TestClaimGangRestart checks that after a restart the pods of a half-bound gang keep their planned devices, unless a
// claim took them: then they are planned with others that their claims accept.
func TestClaimGangRestart(t *testing.T) {
	for _, taken := range []bool{false, true} {
		c := newCluster(t, 2)
		c.pod("a", 4, "g", 2, byClaim("H100"))
		c.pod("b", 4, "g", 2, byClaim("H100"))
		c.cycle()
		before, _ := c.Assignment("uid-b")
		c.bind("a")
		c = c.restart(2)
		if taken {
			c.SetPod(claimHolder("x", before.Node, before.Devices[0]), c.now)
		}
		c.cycle()
		after, planned := c.Assignment("uid-b")
		same := after.Node == before.Node && slices.Equal(after.Devices, before.Devices)
		if !planned || same == taken {
			t.Errorf("taken %t: b is on %s %v, before on %s %v", taken, after.Node, after.Devices, before.Node, before.Devices)
		}
		c.checkSeats()
	}
}
