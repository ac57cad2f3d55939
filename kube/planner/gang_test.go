package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// inOneDomain lets one domain of a level hold the whole gang, as a PodGroup can ask for.
func inOneDomain(level ares.Level) func(*watch.Pod) {
	return func(p *watch.Pod) {
		p.Gang.Group = watch.GroupRef{API: watch.KubernetesGroups, Namespace: p.Namespace, Name: "train"}
		p.Gang.Level, p.Gang.Source = level, fmt.Sprintf("PodGroup train: minCount is %d", p.Gang.Size)
		p.Spec.EditPlacement().RequiredLevel = string(level)
	}
}

// leaves returns the leaves of the planned pods of a gang with this prefix, and how many pods have a plan.
func (c *cluster) leaves(prefix string) (leaves map[int]bool, planned int) {
	leaves = map[int]bool{}
	for name := range c.pods {
		if a, has := c.Assignment("uid-" + name); has && strings.HasPrefix(name, prefix) {
			leaves[leafOf(a.Node)] = true
			planned++
		}
	}
	return leaves, planned
}

// reasons returns why pods wait, by name. It has only the reasons that changed since it was last called.
func (c *cluster) reasons() map[string]string {
	out := map[string]string{}
	for _, r := range c.WaitingReasons(100, c.now) {
		out[r.Pod.Name] = r.Text
	}
	return out
}

// Pods beyond the size of a gang do not delay it. They are placed one by one, in its leaf, once it is bound.
func TestGangWithMorePods(t *testing.T) {
	c := newCluster(t, 8)
	c.pod("other", 8, "", 1)
	for i := range 5 {
		c.pod(fmt.Sprintf("g%d", i), 8, "gang", 2)
	}
	c.cycle()
	if _, planned := c.leaves("g"); planned != 2 {
		t.Fatalf("%d pods are planned at once, want 2", planned)
	}
	if got := c.reasons()["g4"]; got != "waits until the first 2 pods of its gang are bound" {
		t.Errorf("g4 waits because %q", got)
	}
	c.bind("g0", "g1")
	c.cycle()
	if _, planned := c.leaves("g"); planned != 5 {
		t.Errorf("%d pods are planned, want all 5", planned)
	}
	c.checkSeats()
}

// A gang that one leaf must hold is never spread over two, neither its first pods nor those that come later.
func TestGangInOneLeaf(t *testing.T) {
	c := newCluster(t, 8)
	for i := range 5 {
		c.pod(fmt.Sprintf("g%d", i), 8, "gang", 3, inOneDomain(ares.LevelLeaf))
	}
	c.cycle()
	c.bind("g0", "g1", "g2")
	c.cycle()
	leaves, planned := c.leaves("g")
	if planned != 4 || len(leaves) != 1 {
		t.Errorf("%d pods in the leaves %v, want the 4 that fit into one leaf", planned, leaves)
	}
	if got := c.reasons()["g4"]; got == "" {
		t.Error("the pod that does not fit into the leaf has no reason")
	}
	// The same holds for a planner that finds the gang bound.
	next := c.restart(8)
	next.cycle()
	if leaves, planned = next.leaves("g"); planned != 4 || len(leaves) != 1 {
		t.Errorf("after a restart %d pods in the leaves %v, want 4 in one leaf", planned, leaves)
	}
	next.DeletePod("uid-g0", next.now)
	delete(next.pods, "g0")
	next.cycle()
	if leaves, planned = next.leaves("g"); planned != 4 || len(leaves) != 1 || next.plan("g4") == "" {
		t.Errorf("%d pods in the leaves %v, want g4 instead of g0", planned, leaves)
	}
}

// The pods of a gang that one leaf must hold may use different numbers of GPUs. The large ones choose the leaf.
func TestMixedGangInOneLeaf(t *testing.T) {
	c := newCluster(t, 12)
	c.pod("other-a", 8, "", 1, func(p *watch.Pod) { p.Spec.EditPlacement().NodeSelector = map[string]string{"leaf": "leaf-000"} })
	c.pod("other-b", 8, "", 1, func(p *watch.Pod) { p.Spec.EditPlacement().NodeSelector = map[string]string{"leaf": "leaf-001"} })
	c.cycle()
	c.bind("other-a", "other-b")
	c.pod("g0", 1, "gang", 4, inOneDomain(ares.LevelLeaf))
	for i := 1; i < 4; i++ {
		c.pod(fmt.Sprintf("g%d", i), 8, "gang", 4, inOneDomain(ares.LevelLeaf))
	}
	c.cycle()
	if leaves, planned := c.leaves("g"); planned != 4 || len(leaves) != 1 {
		t.Errorf("%d pods in the leaves %v, want 4 in one", planned, leaves)
	}
	c.checkSeats()
}

// If no leaf has room for all of them, none of them keeps devices, and the reason says so. Later a leaf may have room.
func TestMixedGangThatFitsNowhere(t *testing.T) {
	c := newCluster(t, 8)
	c.pod("g0", 1, "gang", 5, inOneDomain(ares.LevelLeaf))
	for i := 1; i < 5; i++ {
		c.pod(fmt.Sprintf("g%d", i), 8, "gang", 5, inOneDomain(ares.LevelLeaf))
	}
	c.cycle()
	if _, planned := c.leaves("g"); planned != 0 {
		t.Errorf("%d pods are planned, want none", planned)
	}
	for name, got := range c.reasons() {
		if got != "no leaf was found with enough free GPUs for all pods of the gang together: they ask for different numbers" {
			t.Errorf("%s waits because %q", name, got)
		}
	}
	wide := gpuNode(8)
	wide.Labels["leaf"] = "leaf-001"
	c.SetNode(wide, true, false)
	c.now = c.now.Add(2 * time.Minute) // the leaves are tried again
	c.cycle()
	if leaves, planned := c.leaves("g"); planned != 5 || len(c.reasons()) != 0 {
		t.Errorf("%d pods are planned in the leaves %v, want 5: %v", planned, leaves, c.reasons())
	}
	c.checkSeats()
}

// A gang larger than a leaf waits and says so. With a smaller minCount it is planned again.
func TestGangSizeChanges(t *testing.T) {
	c := newCluster(t, 8)
	for i := range 5 {
		c.pod(fmt.Sprintf("g%d", i), 8, "gang", 6, inOneDomain(ares.LevelLeaf))
	}
	c.cycle()
	if got := c.reasons()["g0"]; got != "PodGroup train: minCount is 6, and 5 of its pods with GPUs exist" {
		t.Errorf("g0 waits because %q", got)
	}
	group := func() (state planner.GroupState) {
		for _, s := range c.GroupStates(10, c.now) {
			state = s
		}
		return state
	}
	if got := group(); got.Bound || got.Group.Name != "train" || got.Text != "PodGroup train: minCount is 6, and 5 of its pods with GPUs exist" {
		t.Errorf("the group is %+v", got)
	}
	if again := group(); again != (planner.GroupState{}) {
		t.Errorf("the state is reported twice: %+v", again)
	}
	resize := func(size int) {
		for name, p := range c.pods {
			changed := *p
			changed.Gang.Size = size
			inOneDomain(ares.LevelLeaf)(&changed)
			c.pods[name] = &changed
			c.SetPod(&changed, c.now)
		}
		c.cycle()
	}
	resize(5)
	if got := c.reasons()["g0"]; !strings.Contains(got, "leaf") {
		t.Errorf("a gang of 5 nodes waits because %q, want that no leaf is large enough", got)
	}
	resize(4)
	if leaves, planned := c.leaves("g"); planned != 4 || len(leaves) != 1 {
		t.Errorf("%d pods in the leaves %v, want 4 in one", planned, leaves)
	}
	for name := range c.pods {
		if c.plan(name) != "" {
			c.bind(name)
		}
	}
	if got := group(); !got.Bound {
		t.Errorf("the group with 4 bound pods is %+v", got)
	}
}

// Pods that cannot be placed do not make a gang complete.
func TestGangWithGatedPods(t *testing.T) {
	c := newCluster(t, 4)
	c.pod("g0", 1, "gang", 2)
	c.pod("g1", 1, "gang", 2, func(p *watch.Pod) { p.Gated = true })
	c.cycle()
	if got := c.reasons()["g0"]; got != "the gang is not complete: 2 pods exist, but 1 of them cannot be placed: see their conditions and scheduling gates" {
		t.Errorf("g0 waits because %q", got)
	}
}

// An event of a pod's owner may come later than that of its binding, with the pod as it was before.
func TestLateEventOfABoundPod(t *testing.T) {
	c := newCluster(t, 1)
	before := c.pod("p", 8, "", 1)
	c.cycle()
	c.bind("p")
	c.SetPod(before, c.now)
	c.pod("next", 8, "", 1)
	c.cycle()
	if got := c.plan("next"); got != "" {
		t.Errorf("the devices of a bound pod were given away: %s", got)
	}
}
