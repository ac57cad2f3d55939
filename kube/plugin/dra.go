package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/ares-scheduler/ares/kube/watch"
)

// ClaimsName is the name of the plugin that allocates ResourceClaims. It takes the place of the framework's own plugin
// DynamicResources.
const ClaimsName = "AresResourceClaims"

// claimsPlugin is the framework's plugin DynamicResources, restricted to the planned GPUs: all other GPUs of the planned
// node look allocated to it. So it checks the whole claim as usual, and allocates exactly the planned devices.
//
// Allocation and reservation are one write, in PreBind. So a claim that was allocated here is always reserved for its pod.
// If the pod is deleted before it is bound, Kubernetes' resource claim controller takes the allocation back; if its
// binding fails, Unreserve does; and if this process ends in between, the next one does, in releaseStale.
type claimsPlugin struct {
	*dynamicresources.DynamicResources
	ares    func() *Plugin // the planner's plugin; it is made later
	tracker *maskedTracker

	mu       sync.Mutex // held while a pod's claims are allocated in memory, or released
	inFlight sets.Set[types.UID]
}

var (
	_ fwk.PreEnqueuePlugin  = (*claimsPlugin)(nil)
	_ fwk.PreFilterPlugin   = (*claimsPlugin)(nil)
	_ fwk.FilterPlugin      = (*claimsPlugin)(nil)
	_ fwk.PostFilterPlugin  = (*claimsPlugin)(nil)
	_ fwk.ReservePlugin     = (*claimsPlugin)(nil)
	_ fwk.PreBindPlugin     = (*claimsPlugin)(nil)
	_ fwk.PostBindPlugin    = (*claimsPlugin)(nil)
	_ fwk.EnqueueExtensions = (*claimsPlugin)(nil)
)

func newClaimsPlugin(ctx context.Context, handle fwk.Handle, ares func() *Plugin) (*claimsPlugin, error) {
	p := &claimsPlugin{ares: ares, tracker: &maskedTracker{ResourceClaimTracker: handle.SharedDRAManager().ResourceClaims()}, inFlight: sets.New[types.UID]()}
	upstream, err := dynamicresources.New(ctx, &config.DynamicResourcesArgs{}, maskedHandle{handle, p.tracker},
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	var ok bool
	if p.DynamicResources, ok = upstream.(*dynamicresources.DynamicResources); !ok {
		return nil, fmt.Errorf("the plugin %s is a %T", dynamicresources.Name, upstream)
	}
	return p, nil
}

// claimsKey is the key of the plan whose devices are allocated, in the state of a scheduling cycle.
const claimsKey fwk.StateKey = ClaimsName

// Name returns the plugin's name.
func (*claimsPlugin) Name() string { return ClaimsName }

// PreFilter prepares the allocation of the planned devices. A claim that is allocated for the pod already is from a cycle
// that did not end with a binding, so it is released first.
func (p *claimsPlugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	ares := p.ares()
	// Most pods have no claim and a device plugin, so this costs little.
	if node := ares.planner.PlannedNode(string(pod.UID)); node == "" || !ares.feed.table.has(node) {
		return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
	}
	a, planned := ares.planner.Assignment(string(pod.UID))
	if !planned {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "its plan was withdrawn")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.release(ctx, pod); err != nil {
		return nil, fwk.AsStatus(err)
	}
	state.Write(claimsKey, planState{fence: a.Fence})
	p.tracker.hide(ares.feed.table.others(a.Node, a.Devices))
	defer p.tracker.hide(nil)
	return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
}

// PostFilter deallocates a claim that keeps a pod from its nodes. The claims of planned pods are released by PreFilter.
func (p *claimsPlugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if len(pod.Spec.ResourceClaims) > 0 && p.ares().feed.usesGPUs(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.DynamicResources.PostFilter(ctx, state, pod, nodes)
}

// Reserve notes that claims of the pod may be written from now on.
func (p *claimsPlugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if len(pod.Spec.ResourceClaims) > 0 {
		p.mu.Lock()
		p.inFlight.Insert(pod.UID)
		p.mu.Unlock()
	}
	return p.DynamicResources.Reserve(ctx, state, pod, node)
}

// Unreserve takes back what PreBind wrote. Allocation and reservation go in one write, so that no claim stays allocated
// without a pod.
func (p *claimsPlugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if len(pod.Spec.ResourceClaims) > 0 && p.ares().feed.usesGPUs(pod) {
		p.mu.Lock()
		if err := p.release(ctx, pod); err != nil {
			klog.FromContext(ctx).Error(err, "A claim of a pod that was not bound is not released yet", "pod", klog.KObj(pod))
		}
		p.mu.Unlock()
	}
	p.DynamicResources.Unreserve(ctx, state, pod, node)
	p.finish(pod)
}

// PostBind notes that the pod is bound.
func (p *claimsPlugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.finish(pod)
}

// finish notes that nothing of the pod is written any more: it is bound, or its claims are released.
func (p *claimsPlugin) finish(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight.Delete(pod.UID)
}

// release deallocates the claims that are allocated for this pod alone.
func (p *claimsPlugin) release(ctx context.Context, pod *v1.Pod) error {
	names, _ := claimNames(pod)
	var failed []error
	for _, name := range names {
		c, err := p.tracker.Get(pod.Namespace, name)
		if err != nil {
			continue // the filters say that it does not exist
		}
		if mine, others := watch.ReservedFor(c, pod); !mine || others || c.Status.Allocation == nil {
			continue
		}
		failed = append(failed, p.deallocate(ctx, c, pod))
	}
	return errors.Join(failed...)
}

// releaseTimeout limits how long the release of a claim takes, because no other claim is allocated meanwhile.
const releaseTimeout = 10 * time.Second

// deallocate takes a claim's allocation and its only reservation back.
func (p *claimsPlugin) deallocate(ctx context.Context, c *resourceapi.ResourceClaim, pod *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	client := p.ares().handle.ClientSet().ResourceV1().ResourceClaims(c.Namespace)
	for range 3 {
		free := c.DeepCopy()
		free.Status.Allocation, free.Status.ReservedFor, free.Status.Devices = nil, nil, nil
		after, err := client.UpdateStatus(ctx, free, metav1.UpdateOptions{})
		switch {
		case err == nil:
			if err := p.tracker.AssumeClaimAfterAPICall(after); err != nil {
				klog.FromContext(ctx).V(2).Info("The informer was faster", "claim", klog.KObj(c), "err", err)
			}
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return fmt.Errorf("deallocate the claim %s: %w", klog.KObj(c), err)
		}
		if c, err = client.Get(ctx, c.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("read the claim %s again: %w", free.Name, err)
		}
		if mine, others := watch.ReservedFor(c, pod); !mine || others || c.Status.Allocation == nil {
			return nil // somebody else did it
		}
	}
	return fmt.Errorf("deallocate the claim %s: it changes all the time", klog.KObj(c))
}

// releaseStale releases claims that are allocated for pods of this scheduler that are neither bound nor about to be: a
// process before this one ended in between, or a release failed.
func (p *claimsPlugin) releaseStale(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("ares")
	f := p.ares().feed
	list, err := f.factory.Resource().V1().ResourceClaims().Lister().List(labels.Everything())
	if err != nil {
		return // a list from the informer does not fail
	}
	for _, c := range list {
		if c.Status.Allocation == nil {
			continue
		}
		pod := f.consumer(c)
		if pod == nil || pod.Spec.NodeName != "" || pod.Spec.SchedulerName != f.scheduler || !f.usesGPUs(pod) {
			continue
		}
		if err := p.releaseOf(ctx, pod); err != nil {
			logger.Error(err, "A claim of a pod that is not bound is not released yet", "pod", klog.KObj(pod))
		}
	}
}

func (p *claimsPlugin) releaseOf(ctx context.Context, pod *v1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inFlight.Has(pod.UID) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	// The informer may not have seen yet that the pod was bound.
	now, err := p.ares().handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // the resource claim controller releases its claims
	case err != nil:
		return err
	case now.UID != pod.UID || now.Spec.NodeName != "":
		return nil
	}
	return p.release(ctx, now)
}
