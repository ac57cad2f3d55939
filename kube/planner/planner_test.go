package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

const scheduler = "topology-aware-scheduler"

var start = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

// cluster is a planner with nodes of 8 GPUs, four nodes in each leaf, and the pods that a test made.
type cluster struct {
	*planner.Planner
	t    *testing.T
	now  time.Time
	pods map[string]*watch.Pod
}

func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := &cluster{Planner: planner.New(scheduler, nil), t: t, now: start, pods: map[string]*watch.Pod{}}
	for i := range nodes {
		c.SetNode(gpuNode(i), true, false)
	}
	return c
}

func gpuNode(i int) *ares.Node {
	n := &ares.Node{ID: fmt.Sprintf("node-%03d", i), CPUs: 96, MemoryMB: 1 << 20, Images: true, Labels: map[string]string{
		"leaf": fmt.Sprintf("leaf-%03d", i/4), "spine": fmt.Sprintf("spine-%03d", i/32),
	}}
	for d := range 8 {
		n.Devices = append(n.Devices, ares.Device{ID: watch.DeviceName(n.ID, d), Index: d, Type: "gpu", Model: "H100", MemoryMB: 81920, Healthy: true})
	}
	return n
}

// pod adds a pod. Pods with the same gang key are a gang of the given size.
func (c *cluster) pod(name string, gpus int, gang string, size int, change ...func(*watch.Pod)) *watch.Pod {
	c.t.Helper()
	p := &watch.Pod{
		UID: "uid-" + name, Namespace: "team-a", Name: name, Scheduler: scheduler, GPUs: gpus, Created: c.now, Index: -1,
		Gang: watch.Gang{Key: gang, Size: size, Total: size},
		Spec: ares.Spec{Name: name, Tenant: "team-a", Members: 1, GPUs: gpus, Retry: ares.RetryPolicy{MaxRetries: new(0)}},
	}
	if gang == "" {
		p.Gang = watch.Gang{Key: "pod:" + p.UID, Size: 1, Total: 1}
	}
	for _, f := range change {
		f(p)
	}
	c.pods[name] = p
	c.SetPod(p, c.now)
	return p
}

func withPriority(n int) func(*watch.Pod) {
	return func(p *watch.Pod) { p.Spec.Priority, p.Spec.PriorityClass = &n, ares.ClassOf(n) }
}

// cycle decides until nothing changes, and returns all decisions together.
func (c *cluster) cycle() planner.Decision {
	c.t.Helper()
	var all planner.Decision
	for range 20 {
		c.now = c.now.Add(10 * time.Millisecond)
		d, err := c.Cycle(c.now)
		if err != nil {
			c.t.Fatal(err)
		}
		all.Planned = append(all.Planned, d.Planned...)
		all.Evictions = append(all.Evictions, d.Evictions...)
		all.Withdrawn = append(all.Withdrawn, d.Withdrawn...)
		if !d.Again {
			return all
		}
	}
	c.t.Fatal("the planner does not come to rest")
	return all
}

// bind carries out the plan of a pod as the scheduler and the API server would.
func (c *cluster) bind(names ...string) {
	c.t.Helper()
	for _, name := range names {
		a, planned := c.Assignment("uid-" + name)
		if !planned {
			c.t.Fatalf("%s has no plan", name)
		}
		p := *c.pods[name]
		p.Node, p.Plan = a.Node, watch.Bound{Fence: a.Fence, Devices: a.Devices, Gang: a.Gang}
		c.pods[name] = &p
		c.SetPod(&p, c.now)
	}
}

// plan returns where a pod is planned, "" if nowhere.
func (c *cluster) plan(name string) string {
	a, planned := c.Assignment("uid-" + name)
	if !planned {
		return ""
	}
	return fmt.Sprintf("%s %v", a.Node, a.Devices)
}

// restart returns a new planner that sees what the API server knows.
func (c *cluster) restart(nodes int) *cluster {
	next := newCluster(c.t, nodes)
	next.pods, next.now = c.pods, c.now
	for _, p := range c.pods {
		next.SetPod(p, next.now)
	}
	return next
}

// checkSeats fails if two pods have the same device.
func (c *cluster) checkSeats() {
	c.t.Helper()
	used := map[string]string{}
	for name := range c.pods {
		a, planned := c.Assignment("uid-" + name)
		if !planned {
			continue
		}
		for _, d := range a.Devices {
			key := watch.DeviceName(a.Node, d)
			if other := used[key]; other != "" {
				c.t.Errorf("%s and %s both have %s", name, other, key)
			}
			used[key] = name
		}
		if len(a.Devices) != c.pods[name].GPUs {
			c.t.Errorf("%s has %d devices, want %d", name, len(a.Devices), c.pods[name].GPUs)
		}
	}
}

// The case of the benchmark, in small: pods of mixed sizes that fill 62 % of the GPUs are all placed at once.
func TestMixedPodsAreAllPlaced(t *testing.T) {
	c := newCluster(t, 50)
	for i := range 100 {
		c.pod(fmt.Sprintf("p%03d", i), []int{1, 1, 1, 1, 2, 2, 4, 8}[i%8], "", 1)
	}
	c.cycle()
	for name := range c.pods {
		if c.plan(name) == "" {
			t.Errorf("%s has no plan", name)
		}
	}
	c.checkSeats()
}

func TestGangWaitsForAllItsPods(t *testing.T) {
	c := newCluster(t, 8)
	for i := range 3 {
		c.pod(fmt.Sprintf("g%d", i), 8, "gang", 4)
	}
	if d := c.cycle(); len(d.Planned) != 0 {
		t.Fatalf("planned %v before the gang is complete", d.Planned)
	}
	reasons := c.WaitingReasons(10, c.now)
	if len(reasons) != 3 || reasons[0].Text != "the gang is not complete: 3 of 4 pods exist" {
		t.Errorf("reasons: %v", reasons)
	}
	c.pod("g3", 8, "gang", 4)
	if d := c.cycle(); len(d.Planned) != 4 {
		t.Fatalf("planned %v, want 4 pods", d.Planned)
	}
	leaf := map[string]bool{}
	for i := range 4 {
		a, _ := c.Assignment(fmt.Sprintf("uid-g%d", i))
		leaf[a.Domain] = true
	}
	if len(leaf) != 1 || !strings.HasPrefix(first(leaf), "leaf/") {
		t.Errorf("a gang of 4 nodes is in %v, want one whole leaf", leaf)
	}
	c.checkSeats()
}

func first(set map[string]bool) string {
	for k := range set {
		return k
	}
	return ""
}

func TestGangIsReleasedTogether(t *testing.T) {
	c := newCluster(t, 4)
	c.pod("a", 4, "gang", 2)
	c.pod("b", 4, "gang", 2)
	c.cycle()
	if _, complete := c.Arrive("uid-b"); complete {
		t.Error("the gang is complete with one pod")
	}
	release, complete := c.Arrive("uid-a")
	if !complete || len(release) != 2 {
		t.Errorf("the last pod releases %v, complete %v", release, complete)
	}
}

// reject lets the planned node reject a pod until the node is excluded, as the scheduler would.
func (c *cluster) reject(name string) (d planner.Decision) {
	c.t.Helper()
	node, _ := c.Assignment("uid-" + name)
	for i := range 10 {
		c.Reject("uid-"+name, c.now)
		d = c.cycle()
		if now, planned := c.Assignment("uid-" + name); !planned || now.Node != node.Node {
			if i < 2 {
				c.t.Errorf("%s is excluded after %d rejections", node.Node, i+1)
			}
			return d
		}
		c.now = c.now.Add(2 * time.Second)
		if d = c.cycle(); len(d.Planned) != 1 {
			c.t.Fatalf("%s is not tried again", name)
		}
	}
	c.t.Fatalf("%s is never excluded", node.Node)
	return d
}

func TestRejectedNodeIsExcluded(t *testing.T) {
	c := newCluster(t, 2)
	c.pod("a", 8, "", 1)
	c.cycle()
	before := c.plan("a")
	if d := c.reject("a"); len(d.Withdrawn) != 1 {
		t.Errorf("withdrawn: %v", d.Withdrawn)
	}
	after := c.plan("a")
	if after == "" || after == before {
		t.Fatalf("planned on %q after %q was rejected", after, before)
	}
	c.reject("a")
	if p := c.plan("a"); p != "" {
		t.Fatalf("planned on %q although both nodes rejected it", p)
	}
	c.SetNode(gpuNode(0), true, false) // the node changed
	c.cycle()
	if p := c.plan("a"); !strings.HasPrefix(p, "node-000") {
		t.Errorf("planned on %q, want the node that changed", p)
	}
	c.reject("a")
	c.now = c.now.Add(2 * time.Minute)
	c.cycle()
	if c.plan("a") == "" {
		t.Error("the nodes stay excluded for ever")
	}
}

// A process that begins to lead tries the pods that it found in the plan of a half-bound gang.
func TestHalfBoundGangIsTriedByTheNextLeader(t *testing.T) {
	c := newCluster(t, 4)
	c.pod("a", 8, "gang", 2)
	c.pod("b", 8, "gang", 2)
	c.cycle()
	c.bind("a")
	next := c.restart(4)
	next.Absorb(next.now)
	if d := next.cycle(); len(d.Planned) == 0 || next.plan("b") != c.plan("b") {
		t.Errorf("planned %v, b on %q, want %q", d.Planned, next.plan("b"), c.plan("b"))
	}
}

func TestGangWithoutOnePodStartsAgain(t *testing.T) {
	c := newCluster(t, 4)
	c.pod("a", 4, "gang", 2)
	c.pod("b", 4, "gang", 2)
	c.cycle()
	c.DeletePod("uid-b", c.now)
	delete(c.pods, "b")
	d := c.cycle()
	if c.plan("a") != "" || !slices.Contains(d.Withdrawn, planner.Ref{UID: "uid-a", Namespace: "team-a", Name: "a"}) {
		t.Errorf("a keeps its plan without b: %q, withdrawn %v", c.plan("a"), d.Withdrawn)
	}
	c.pod("c", 4, "gang", 2)
	c.cycle()
	if c.plan("a") == "" || c.plan("c") == "" {
		t.Error("the gang is not planned again with its new pod")
	}
	c.checkSeats()
}

func TestReplacementGoesNearTheRest(t *testing.T) {
	c := newCluster(t, 16)
	for i := range 3 {
		c.pod(fmt.Sprintf("g%d", i), 8, "gang", 3)
	}
	c.cycle()
	c.bind("g0", "g1", "g2")
	a, _ := c.Assignment("uid-g0")
	c.DeletePod("uid-g2", c.now)
	delete(c.pods, "g2")
	c.pod("g3", 8, "gang", 3)
	c.cycle()
	b, planned := c.Assignment("uid-g3")
	if !planned {
		t.Fatal("the replacement is not planned")
	}
	if leafOf(a.Node) != leafOf(b.Node) {
		t.Errorf("the gang is in the leaf of %s, its new pod on %s", a.Node, b.Node)
	}
	c.checkSeats()
}

func leafOf(node string) int {
	var i int
	_, _ = fmt.Sscanf(node, "node-%d", &i)
	return i / 4
}

func TestRestartKeepsPlacements(t *testing.T) {
	c := newCluster(t, 8)
	c.pod("single", 3, "", 1)
	for i := range 4 {
		c.pod(fmt.Sprintf("g%d", i), 8, "gang", 4)
	}
	c.cycle()
	want := map[string]string{}
	for name := range c.pods {
		want[name] = c.plan(name)
	}
	c.bind("single", "g0", "g1") // the gang is half bound: g0 carries its plan
	next := c.restart(8)
	next.pod("other", 8, "", 1) // must not take the seats of g2 and g3
	next.cycle()
	for name, plan := range want {
		if got := next.plan(name); got != plan {
			t.Errorf("%s is planned on %q after the restart, want %q", name, got, plan)
		}
	}
	if release, complete := next.Arrive("uid-g2"); complete {
		t.Errorf("g2 does not wait for g3: %v", release)
	}
	if release, complete := next.Arrive("uid-g3"); !complete || len(release) != 2 {
		t.Errorf("the rest of the gang is not released: %v", release)
	}
	next.checkSeats()
}

func TestOtherSchedulersKeepTheirGPUs(t *testing.T) {
	c := newCluster(t, 1)
	c.pod("theirs", 6, "", 1, func(p *watch.Pod) { p.Scheduler, p.Node = "default-scheduler", "node-000" })
	c.pod("big", 4, "", 1, withPriority(3000))
	c.pod("small", 2, "", 1)
	d := c.cycle()
	if len(d.Evictions) != 0 {
		t.Errorf("evicts %v", d.Evictions)
	}
	if c.plan("big") != "" || c.plan("small") == "" {
		t.Errorf("big: %q, small: %q", c.plan("big"), c.plan("small"))
	}
	c.checkSeats()
}

func TestPreemptionStopsWholeGang(t *testing.T) {
	c := newCluster(t, 2)
	low := withPriority(100)
	c.pod("v0", 8, "victim", 2, low)
	c.pod("v1", 8, "victim", 2, low)
	c.cycle()
	c.bind("v0", "v1")
	c.now = c.now.Add(time.Hour)
	c.pod("urgent", 8, "", 1, withPriority(2500))
	d := c.cycle()
	if len(d.Evictions) != 1 || len(d.Evictions[0].Pods) != 2 {
		t.Fatalf("evictions: %+v, want one of both pods", d.Evictions)
	}
	if reasons := c.WaitingReasons(10, c.now); len(reasons) != 1 || !strings.Contains(reasons[0].Text, "preempted workloads have stopped") {
		t.Errorf("reasons: %v", reasons)
	}
	c.pod("late", 8, "", 1, withPriority(2500), func(p *watch.Pod) { p.Created = c.now.Add(time.Second) })
	c.DeletePod("uid-v0", c.now)
	c.DeletePod("uid-v1", c.now)
	delete(c.pods, "v0")
	delete(c.pods, "v1")
	c.cycle()
	if c.plan("urgent") == "" {
		t.Error("the workload that preempted is not planned")
	}
}

func TestProtectedWorkloadIsNotPreempted(t *testing.T) {
	c := newCluster(t, 1)
	c.pod("victim", 8, "", 1, withPriority(100))
	c.cycle()
	c.bind("victim")
	c.now = c.now.Add(time.Hour)
	c.pod("urgent", 8, "", 1, withPriority(2500))
	d := c.cycle()
	if len(d.Evictions) != 1 {
		t.Fatalf("evictions: %v", d.Evictions)
	}
	c.Protect(d.Evictions[0], "its budget allows no disruption", c.now)
	if d = c.cycle(); len(d.Evictions) != 0 {
		t.Errorf("evicts a protected workload: %v", d.Evictions)
	}
	if c.plan("victim") == "" || c.plan("urgent") != "" {
		t.Errorf("victim %q, urgent %q", c.plan("victim"), c.plan("urgent"))
	}
}

// A replica that does not lead follows what the leader does, and decides nothing.
func TestStandbyFollows(t *testing.T) {
	leader := newCluster(t, 4)
	standby := newCluster(t, 4)
	for i := range 4 {
		name := fmt.Sprintf("p%d", i)
		leader.pod(name, 8, "", 1)
		standby.SetPod(leader.pods[name], start)
	}
	leader.cycle()
	standby.Absorb(leader.now)
	if _, planned := standby.Assignment("uid-p0"); planned {
		t.Error("the standby decides")
	}
	leader.bind("p0", "p1")
	for name, p := range leader.pods {
		standby.SetPod(p, leader.now)
		standby.pods[name] = p
	}
	standby.Absorb(leader.now)
	standby.now = leader.now
	standby.cycle() // it leads now
	for _, name := range []string{"p0", "p1"} {
		if standby.plan(name) != leader.plan(name) {
			t.Errorf("%s: the standby has %q, the leader %q", name, standby.plan(name), leader.plan(name))
		}
	}
	standby.checkSeats()
	if standby.plan("p3") == "" {
		t.Error("the new leader does not plan the rest")
	}
}

func TestPodBoundByAnotherWhileItWaits(t *testing.T) {
	c := newCluster(t, 1)
	c.pod("a", 8, "", 1)
	c.cycle()
	c.bind("a")
	c.pod("b", 4, "", 1) // waits
	c.cycle()
	c.DeletePod("uid-a", c.now)
	delete(c.pods, "a")
	other := *c.pods["b"]
	other.Node, c.pods["b"] = "node-000", &other
	c.SetPod(&other, c.now)
	c.pod("d", 8, "", 1) // must not get the GPUs of b
	c.cycle()
	if !strings.HasPrefix(c.plan("b"), "node-000") || c.plan("d") != "" {
		t.Errorf("b is on %q, d on %q", c.plan("b"), c.plan("d"))
	}
	c.checkSeats()
}

func TestPodsOfAGangMayDiffer(t *testing.T) {
	c := newCluster(t, 2)
	c.pod("launcher", 1, "gang", 3)
	c.pod("w0", 6, "gang", 3)
	if d := c.cycle(); len(d.Planned) != 0 {
		t.Fatalf("planned %v before the gang is complete", d.Planned)
	}
	c.pod("w1", 6, "gang", 3)
	c.cycle()
	for i, name := range []string{"w0", "launcher", "w1"} {
		release, complete := c.Arrive("uid-" + name)
		if complete != (i == 2) || complete && len(release) != 3 {
			t.Errorf("%s arrives: complete %v, releases %v", name, complete, release)
		}
	}
	c.checkSeats()
	c.DeletePod("uid-launcher", c.now)
	delete(c.pods, "launcher")
	c.cycle()
	if c.plan("w0") != "" || c.plan("w1") != "" {
		t.Errorf("the workers keep their plan without the launcher: %q %q", c.plan("w0"), c.plan("w1"))
	}
}

// One part of a gang waits, and another program binds a pod of the other part. Then a waiting pod is deleted.
func TestWaitingPartOfAGangLosesAPod(t *testing.T) {
	c := newCluster(t, 1)
	c.pod("launcher", 2, "gang", 3)
	c.pod("w0", 6, "gang", 3)
	c.pod("w1", 6, "gang", 3) // does not fit beside w0, so the workers wait
	c.cycle()
	bound := *c.pods["launcher"]
	bound.Node, c.pods["launcher"] = "node-000", &bound
	c.SetPod(&bound, c.now)
	c.DeletePod("uid-w0", c.now)
	delete(c.pods, "w0")
	c.cycle()
	if c.plan("w1") == "" {
		t.Errorf("w1 is not planned although it fits now: %v", c.WaitingReasons(5, c.now))
	}
	c.checkSeats()
}

func TestPodThatWasNotBoundIsTriedAgain(t *testing.T) {
	c := newCluster(t, 1)
	c.pod("a", 8, "", 1)
	c.cycle()
	c.Arrive("uid-a")
	c.Depart("uid-a", c.now)
	if d := c.cycle(); len(d.Planned) != 0 {
		t.Errorf("tried again at once: %v", d.Planned)
	}
	c.now = c.now.Add(2 * time.Second)
	if d := c.cycle(); len(d.Planned) != 1 {
		t.Errorf("not tried again: %v", d.Planned)
	}
}

// TestGangThatIsNeverBoundWhole checks that a gang gives its devices back if one of its pods cannot be bound again and again.
func TestGangThatIsNeverBoundWhole(t *testing.T) {
	c := newCluster(t, 1)
	c.pod("a", 4, "gang", 2)
	c.pod("b", 4, "gang", 2)
	c.cycle()
	before, _ := c.Assignment("uid-a")
	for range 4 {
		c.Arrive("uid-a")
		c.Depart("uid-a", c.now)
		c.now = c.now.Add(2 * time.Second)
	}
	d := c.cycle()
	after, _ := c.Assignment("uid-a")
	if len(d.Withdrawn) != 2 || after.Fence == before.Fence {
		t.Errorf("withdrawn: %v; plan %d before and %d after", d.Withdrawn, before.Fence, after.Fence)
	}
	c.checkSeats()
}

func TestReasonOfAPodThatFitsNowhere(t *testing.T) {
	c := newCluster(t, 3)
	c.pod("huge", 16, "", 1)
	c.cycle()
	reasons := c.WaitingReasons(10, c.now)
	if len(reasons) != 1 || !strings.Contains(reasons[0].Text, "3 of 3 nodes") {
		t.Errorf("reasons: %v", reasons)
	}
	if again := c.WaitingReasons(10, c.now); len(again) != 0 {
		t.Errorf("the same reason is returned twice: %v", again)
	}
}

// TestFractionsOfACPU checks that eight pods of 11.5 CPUs fill a node of 92.
func TestFractionsOfACPU(t *testing.T) {
	c := newCluster(t, 0)
	n := gpuNode(0)
	n.CPUs = 92
	c.SetNode(n, true, false)
	for i := range 8 {
		c.pod(fmt.Sprintf("pod-%d", i), 1, "", 1, func(p *watch.Pod) { p.Spec.SetMilliCPUs(11_500) })
	}
	c.cycle()
	for i := range 8 {
		if name := fmt.Sprintf("pod-%d", i); c.plan(name) == "" {
			t.Errorf("%s is not planned", name)
		}
	}
}
