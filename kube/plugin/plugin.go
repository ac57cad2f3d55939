package plugin

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/ares-scheduler/ares/kube/annotations"
	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// Name is the name of the plugin in the configuration of a scheduler.
const Name = "Ares"

// gangWait is how long the pods of a gang wait at Permit for the last one. After that they are rejected and tried again.
const gangWait = 30 * time.Second

// Plugin carries out the plans of a planner for the pods that use GPUs. It leaves all other pods to the other plugins.
type Plugin struct {
	handle  fwk.Handle
	planner *planner.Planner
	metrics *observer
	feed    *feed
	// configured reports whether the configuration was read for the first time.
	configured func() bool
	binds      *bindOrder
	binding    chan struct{} // has one element for each binding that is being written
	loop       *loop
	claims     *claimsPlugin
	// evictionRetry is how long a workload is left alone after a PodDisruptionBudget refused its eviction.
	evictionRetry time.Duration
	evicting      sync.Mutex    // held while a workload is evicted
	learnedRead   atomic.Bool   // what was learned before is read
	saveEvery     time.Duration // how often what was learned is stored
}

var (
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.QueueSortPlugin   = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PermitPlugin      = (*Plugin)(nil)
	_ fwk.BindPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New makes the plugin and registers its event handlers. It decides nothing before Lead is called.
func New(ctx context.Context, s *Settings, handle fwk.Handle) (*Plugin, error) {
	p := &Plugin{handle: handle, evictionRetry: s.EvictionRetry, saveEvery: s.SaveEvery, metrics: newMetrics(), binds: newBindOrder(), binding: make(chan struct{}, bindings)}
	p.planner = planner.New(handle.ProfileName(), p.metrics)
	if err := p.metrics.register(p.planner); err != nil {
		return nil, err
	}
	p.loop = newLoop(p)
	var err error
	p.feed, err = newFeed(handle.SharedInformerFactory(), p.planner, handle.ProfileName(), p.loop.wake, p.takeUp)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, err
	}
	p.feed.objects = newObjects(handle.ClientSet().Discovery(), client, p.feed.objectChanged)
	go p.feed.objects.run(ctx)
	if p.configured, err = p.watchConfig(ctx); err != nil {
		return nil, err
	}
	go p.readLearned(ctx)
	go p.loop.standBy(ctx)
	return p, nil
}

// Lead starts to decide. It is called once, when this process has become the leader.
func (p *Plugin) Lead(ctx context.Context) {
	close(p.loop.leads)
	p.metrics.Recovery.Lead()
	go p.loop.run(ctx)
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// EventsToRegister returns nothing: only the planner moves a pod that it holds back, with Activate.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{}, nil
}

// PreEnqueue holds a pod back until it has a plan. This costs no scheduling cycle.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if !p.feed.usesGPUs(pod) {
		return nil
	}
	if _, planned := p.planner.Assignment(string(pod.UID)); planned {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waits for a plan")
}

// Less orders pods by the sequence of their plans, and inside a gang by rank. Pods without GPUs are ordered as usual, and
// come before: they take no GPU from others.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	aSequence, aRank, aPlanned := p.order(a)
	bSequence, bRank, bPlanned := p.order(b)
	switch {
	case aPlanned != bPlanned:
		return bPlanned
	case aPlanned && aSequence != bSequence:
		return aSequence < bSequence
	case aPlanned && aRank != bRank:
		return aRank < bRank
	case a.GetPriority() != b.GetPriority():
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

func (p *Plugin) order(e fwk.QueuedEntityInfo) (sequence int64, rank int, planned bool) {
	info, ok := e.(interface{ GetPodInfo() fwk.PodInfo })
	if !ok {
		return 0, 0, false
	}
	return p.planner.Order(string(info.GetPodInfo().GetPod().UID))
}

// PreFilter restricts a pod to its planned node, so that the filters run for one node and no node is scored.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !p.feed.usesGPUs(pod) {
		if p.feed.lacksLimits(pod) {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, noLimits)
		}
		return nil, fwk.NewStatus(fwk.Skip)
	}
	a, planned := p.planner.Assignment(string(pod.UID))
	if !planned {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "its plan was withdrawn")
	}
	state.Write(planKey, planState{a.Fence, a.Leader == string(pod.UID)})
	return &fwk.PreFilterResult{NodeNames: sets.New(a.Node)}, nil
}

// noLimits is told of a pod that would otherwise run without the GPUs that its annotation asks for.
const noLimits = annotations.GPUCount + " asks for GPUs, but no container has a limit of " + string(watch.GPUResource) +
	": write the limit, or install the admission policies of Ares, which write it, and create the pod again"

// planKey is the key of the plan that a scheduling cycle carries out, in the state of the cycle.
const planKey fwk.StateKey = Name

// planState is the fence of that plan, and whether the pod is the one of its unit that is bound first.
type planState struct {
	fence  int64
	leader bool
}

// Clone returns the same value.
func (s planState) Clone() fwk.StateData { return s }

// isCurrent reports whether a scheduling cycle carries out this plan, and not one before it.
func isCurrent(state fwk.CycleState, a *planner.Assignment) bool {
	claims := planOf(state, claimsKey) // the plan may change between two plugins
	return planOf(state, planKey).fence == a.Fence && (claims.fence == 0 || claims.fence == a.Fence)
}

// planOf returns the plan that a scheduling cycle carries out, or one without a fence.
func planOf(state fwk.CycleState, key fwk.StateKey) planState {
	data, err := state.Read(key)
	if err != nil {
		return planState{}
	}
	plan, _ := data.(planState) // nothing else is written under these keys
	return plan
}

// Filter rejects every node but the planned one. The framework tries the nominated node of a pod before it asks PreFilter,
// and that node may be from a plan of a scheduler that was killed.
func (p *Plugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if !p.feed.usesGPUs(pod) || p.planner.PlannedNode(string(pod.UID)) == node.Node().Name {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod is planned on another node")
}

// PreFilterExtensions returns nil: the filter depends on no other pod.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter is called when the planned node does not accept a pod. After some tries the planner looks for another node.
// Nothing is preempted here: only a plan preempts.
func (p *Plugin) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.feed.usesGPUs(pod) {
		if a, planned := p.planner.Assignment(string(pod.UID)); planned {
			klog.V(2).InfoS("The planned node rejected a pod", "pod", klog.KObj(pod), "node", a.Node, "reason", nodes.Get(a.Node).Message())
			p.planner.Reject(string(pod.UID), time.Now())
			p.loop.wake()
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve has nothing to do: the planner reserved the devices when it made the plan.
func (*Plugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve records that a pod could not be bound. The pod is tried again, on the same node while the plan holds.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	if plan := planOf(state, planKey); plan.leader {
		p.binds.abandon(plan.fence)
	}
	if p.feed.usesGPUs(pod) {
		p.planner.Depart(string(pod.UID), time.Now())
		p.loop.wake()
	}
}

// Permit lets the pods of a gang wait for each other, so that all of them are bound or none.
func (p *Plugin) Permit(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if !p.feed.usesGPUs(pod) {
		return nil, 0
	}
	if a, planned := p.planner.Assignment(string(pod.UID)); !planned || !isCurrent(state, &a) {
		return fwk.NewStatus(fwk.Unschedulable, "its plan was withdrawn"), 0 // nobody would end its wait
	}
	release, complete := p.planner.Arrive(string(pod.UID))
	if !complete {
		return fwk.NewStatus(fwk.Wait), gangWait
	}
	for _, uid := range release {
		if w := p.handle.GetWaitingPod(asUID(uid)); w != nil {
			w.Allow(Name)
		}
	}
	return nil, 0
}

// reject ends the wait of pods whose plan was withdrawn.
func (p *Plugin) reject(refs []planner.Ref) {
	for _, r := range refs {
		if w := p.handle.GetWaitingPod(asUID(r.UID)); w != nil {
			w.Reject(Name, "the plan of its gang was withdrawn")
		}
	}
}

// takeUp lets the scheduler take up a pod without a plan. It does not wait: the scheduler's queue may be locked by a caller
// that asks whether another pod uses GPUs.
func (p *Plugin) takeUp(r planner.Ref) {
	go func() {
		if pod := p.feed.pod(r); pod != nil {
			p.handle.Activate(klog.Background(), map[string]*v1.Pod{r.String(): pod})
		}
	}()
}

// activate lets the scheduler take up the pods that have a plan now.
func (p *Plugin) activate(logger klog.Logger, refs []planner.Ref) {
	if len(refs) == 0 {
		return
	}
	pods := make(map[string]*v1.Pod, len(refs))
	for _, r := range refs {
		if pod := p.feed.pod(r); pod != nil {
			pods[r.String()] = pod
		}
	}
	p.handle.Activate(logger, pods)
}
