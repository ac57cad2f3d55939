package planner_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// report says which devices the kubelet gave to a bound pod.
func (c *cluster) report(name string, ids ...string) {
	c.t.Helper()
	p := *c.pods[name]
	p.Devices = ids
	c.pods[name] = &p
	c.SetPod(&p, c.now)
}

// remove deletes a pod.
func (c *cluster) remove(name string) {
	c.DeletePod("uid-"+name, c.now)
	delete(c.pods, name)
}

// run plans pods with one GPU each, binds them and reports their devices, and returns the corrections.
func (c *cluster) run(pods ...[2]string) []planner.Correction {
	c.t.Helper()
	for _, p := range pods {
		c.pod(p[0], 1, "", 1)
	}
	c.cycle()
	for _, p := range pods {
		c.bind(p[0])
		c.report(p[0], p[1])
	}
	d, err := c.Cycle(c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	c.checkSeats()
	return d.Corrected
}

func TestDevicesOfTheKubelet(t *testing.T) {
	c := newCluster(t, 1)
	if got := c.run([2]string{"a", "GPU-x"}, [2]string{"b", "GPU-y"}); len(got) != 0 {
		t.Errorf("devices that are seen for the first time get the planned indexes, but there are the corrections %v", got)
	}
	a, b := c.plan("a"), c.plan("b")
	c.remove("a")
	c.remove("b")
	// The kubelet gives b's device to the pod that is planned on a's.
	got := c.run([2]string{"c", "GPU-y"})
	want := []planner.Correction{{
		Pod: planner.Ref{UID: "uid-c", Namespace: "team-a", Name: "c"}, Node: "node-000", Planned: []int{0}, Real: []int{1}, Devices: []string{"GPU-y"},
	}}
	if a != "node-000 [0]" || b != "node-000 [1]" || c.plan("c") != b || !reflect.DeepEqual(got, want) {
		t.Errorf("a had %s, b %s, and c has %s, corrected by %+v", a, b, c.plan("c"), got)
	}
	// The other device is free again, for the engine too.
	c.pod("rest", 7, "", 1)
	c.cycle()
	if c.plan("rest") != "node-000 [0 2 3 4 5 6 7]" {
		t.Errorf("the rest of the node is planned as %q", c.plan("rest"))
	}
}

// Two pods whose devices the kubelet exchanged both become known at the same time.
func TestExchangedDevices(t *testing.T) {
	c := newCluster(t, 1)
	c.run([2]string{"a", "GPU-x"}, [2]string{"b", "GPU-y"})
	c.remove("a")
	c.remove("b")
	if got := c.run([2]string{"c", "GPU-y"}, [2]string{"d", "GPU-x"}); len(got) == 0 || c.plan("c") != "node-000 [1]" || c.plan("d") != "node-000 [0]" {
		t.Errorf("c has %s and d has %s, corrected by %v", c.plan("c"), c.plan("d"), got)
	}
}

// A pod that is planned, and not bound yet, gets other devices when another pod uses those of its plan. Its binding, which is
// under way with the devices of the old plan, still counts as a part of its gang.
func TestPlannedPodGetsOtherDevices(t *testing.T) {
	c := newCluster(t, 1)
	c.run([2]string{"a", "GPU-x"}, [2]string{"b", "GPU-y"})
	c.remove("a")
	c.remove("b")
	c.pod("c", 1, "", 1)
	c.cycle()
	c.bind("c") // at index 0
	c.pod("d0", 1, "d", 2)
	c.pod("d1", 1, "d", 2)
	c.cycle()
	if c.plan("d0") != "node-000 [1]" {
		t.Fatalf("d0 is planned as %q", c.plan("d0"))
	}
	old, _ := c.Assignment("uid-d0")
	c.report("c", "GPU-y")
	c.cycle()
	if c.plan("c") != "node-000 [1]" || c.plan("d0") != "node-000 [0]" {
		t.Fatalf("c has %s and d0 has %s", c.plan("c"), c.plan("d0"))
	}
	p := *c.pods["d0"]
	p.Node, p.Plan = old.Node, watch.Bound{Fence: old.Fence, Devices: old.Devices, Gang: old.Gang}
	c.pods["d0"] = &p
	c.SetPod(&p, c.now)
	c.cycle()
	rest, _ := c.Assignment("uid-d1")
	if c.plan("c") != "node-000 [1]" || c.plan("d0") != "node-000 [0]" || rest.Leader != "uid-d0" || !rest.LeaderBound {
		t.Errorf("after the binding of d0, c has %s, d0 has %s, and d1 has %+v", c.plan("c"), c.plan("d0"), rest)
	}
	c.checkSeats()
}

// The kubelet gives the device of a pod that ended to the next one before the planner sees the end.
func TestDeviceOfAPodThatEnds(t *testing.T) {
	c := newCluster(t, 1)
	c.run([2]string{"a", "GPU-x"})
	if got := c.run([2]string{"b", "GPU-x"}); len(got) != 0 || c.plan("b") != "node-000 [1]" {
		t.Errorf("b has %s while a has %s, corrected by %v", c.plan("b"), c.plan("a"), got)
	}
	c.remove("a")
	c.cycle()
	if c.plan("b") != "node-000 [0]" {
		t.Errorf("b has %s after a ended, want [0]", c.plan("b"))
	}
}

// A pod with a claim has exactly the devices of its plan, so it never gets others in exchange.
func TestClaimedDevicesStay(t *testing.T) {
	c := newCluster(t, 1)
	c.run([2]string{"a", "GPU-x"}, [2]string{"b", "GPU-y"})
	c.remove("a")
	c.remove("b")
	c.pod("c", 1, "", 1)
	c.cycle()
	c.bind("c") // at index 0
	c.pod("claim", 1, "", 1, func(p *watch.Pod) { p.ByClaim = true })
	c.cycle()
	if c.plan("claim") != "node-000 [1]" {
		t.Fatalf("the pod with a claim is planned as %q", c.plan("claim"))
	}
	c.report("c", "GPU-y")
	c.cycle()
	if c.plan("c") != "node-000 [0]" || c.plan("claim") != "node-000 [1]" {
		t.Errorf("c has %s and the pod with a claim has %s", c.plan("c"), c.plan("claim"))
	}
}

// After all devices of a node were replaced, the new ones get indexes too.
func TestReplacedDevices(t *testing.T) {
	c := newCluster(t, 1)
	for _, generation := range []string{"old", "new"} {
		for i := range 8 {
			c.run([2]string{fmt.Sprintf("%s%d", generation, i), fmt.Sprintf("GPU-%s-%d", generation, i)})
		}
		for i := range 8 {
			if name := fmt.Sprintf("%s%d", generation, i); c.plan(name) != fmt.Sprintf("node-000 [%d]", i) {
				t.Errorf("%s has %s", name, c.plan(name))
			}
			if generation == "old" {
				c.remove(fmt.Sprintf("old%d", i))
			}
		}
	}
}

// A kubelet chooses at random, and its reports and the ends of its pods arrive late and in any order. No two pods ever share a
// device, and whenever all reports are there, each device has the index that it had before.
func TestRandomDevices(t *testing.T) {
	for seed := range uint64(200) {
		w := &kubelet{cluster: newCluster(t, 1), r: rand.New(rand.NewPCG(seed, 0)), uses: map[string][]string{}, ended: map[string]bool{}, index: map[string]int{}}
		for i := range 8 {
			w.free = append(w.free, fmt.Sprintf("GPU-%d", i))
		}
		for range 80 {
			w.step()
			w.cycle()
			w.checkSeats()
		}
		w.settle()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A kubelet is a model of a node with 8 GPUs, whose reports the planner sees late.
type kubelet struct {
	*cluster
	r     *rand.Rand
	made  int
	free  []string            // IDs
	uses  map[string][]string // pod → IDs, from its start
	ended map[string]bool     // pods that have ended, and the planner does not know it
	index map[string]int      // ID → its index at the last check
}

// pick returns one of the pods that fulfil the condition, or "".
func (k *kubelet) pick(is func(name string) bool) string {
	var list []string
	for name := range k.pods {
		if is(name) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	return list[k.r.IntN(len(list))]
}

func (k *kubelet) step() {
	switch k.r.IntN(7) {
	case 0, 1:
		k.made++
		k.pod(fmt.Sprintf("p%03d", k.made), 1+k.r.IntN(3), "", 1)
	case 2:
		if name := k.pick(func(n string) bool { return k.pods[n].Node == "" && k.plan(n) != "" }); name != "" {
			k.bind(name)
		}
	case 3: // a pod starts
		name := k.pick(func(n string) bool { return k.pods[n].Node != "" && k.uses[n] == nil && k.pods[n].GPUs <= len(k.free) })
		if name != "" {
			k.r.Shuffle(len(k.free), reflect.Swapper(k.free))
			count := k.pods[name].GPUs
			k.uses[name], k.free = slices.Sorted(slices.Values(k.free[:count])), slices.Clone(k.free[count:])
		}
	case 4: // its devices become known
		if name := k.pick(func(n string) bool { return k.uses[n] != nil && k.pods[n].Devices == nil }); name != "" {
			k.report(name, k.uses[name]...)
		}
	case 5: // a pod ends
		if name := k.pick(func(n string) bool { return k.uses[n] != nil && !k.ended[n] }); name != "" {
			k.ended[name], k.free = true, append(k.free, k.uses[name]...)
		}
	case 6: // its end becomes known
		if name := k.pick(func(n string) bool { return k.ended[n] }); name != "" {
			k.remove(name)
			delete(k.ended, name)
			delete(k.uses, name)
		}
	}
	if k.r.IntN(10) == 0 {
		k.settle()
	}
	if k.r.IntN(40) == 0 {
		k.cluster, k.index = k.restart(1), map[string]int{}
	}
}

// settle lets everything become known, and compares the indexes of single devices with those of before.
func (k *kubelet) settle() {
	for name := range k.ended {
		k.remove(name)
		delete(k.uses, name)
	}
	clear(k.ended)
	for name, ids := range k.uses {
		k.report(name, ids...)
	}
	k.cycle()
	k.checkSeats()
	for name, ids := range k.uses {
		a, planned := k.Assignment("uid-" + name)
		if !planned || len(ids) != 1 {
			continue
		}
		if before, known := k.index[ids[0]]; known && a.Devices[0] != before {
			k.t.Errorf("%s had the index %d and has %d now", ids[0], before, a.Devices[0])
		}
		k.index[ids[0]] = a.Devices[0]
	}
}
