package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/ares-scheduler/ares/kube/planner"
)

// evict evicts all pods of a preempted workload, or none. It first asks whether the budgets allow all of them, and whether
// the API server would allow each. A PodDisruptionBudget that refuses one protects the whole workload.
func (p *Plugin) evict(ctx context.Context, e planner.Eviction) {
	p.evicting.Lock() // two workloads may use the same budget
	defer p.evicting.Unlock()
	logger := klog.FromContext(ctx).WithName("ares")
	if refused := p.exceedsBudget(ctx, e.Pods); refused != nil {
		p.protect(logger, e, refused)
		return
	}
	for _, dry := range []bool{true, false} {
		for _, ref := range e.Pods {
			err := p.evictPod(ctx, ref, dry)
			if err == nil || apierrors.IsNotFound(err) {
				continue
			}
			if !dry {
				// The budget was used up between the two requests, or the API server is away. The pods that are evicted
				// already are gone, so the rest must follow.
				logger.Error(err, "A pod of a preempted workload is not evicted yet", "pod", ref.String())
				p.evictLater(ctx, ref)
				continue
			}
			p.protect(logger, e, fmt.Errorf("pod %s cannot be evicted: %w", ref, err))
			return
		}
	}
}

// protect takes a preemption back, and keeps the workload from being chosen again for a while.
func (p *Plugin) protect(logger klog.Logger, e planner.Eviction, why error) {
	logger.Info("A workload is not preempted", "pod", e.Pods[0].String(), "reason", why.Error())
	p.planner.Protect(e, why.Error(), time.Now())
	time.AfterFunc(p.evictionRetry, func() { p.planner.Unprotect(e.Job); p.loop.wake() })
	p.loop.wake()
}

// exceedsBudget returns an error if a PodDisruptionBudget allows fewer evictions than there are pods. The API server checks
// each eviction alone: it would allow the first pods of a gang, and refuse the rest.
func (p *Plugin) exceedsBudget(ctx context.Context, refs []planner.Ref) error {
	byNamespace := map[string][]*v1.Pod{}
	for _, r := range refs {
		if pod := p.feed.pod(r); pod != nil && podutil.IsPodReady(pod) { // a pod that is not ready does not count for a budget
			byNamespace[r.Namespace] = append(byNamespace[r.Namespace], pod)
		}
	}
	for namespace, pods := range byNamespace {
		// Not from an informer: the API server lowers the budget with each eviction, and an informer sees it later.
		budgets, err := p.handle.ClientSet().PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("the PodDisruptionBudgets of namespace %s cannot be read: %w", namespace, err)
		}
		for i := range budgets.Items {
			b := &budgets.Items[i]
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err != nil {
				continue // the API server refuses the evictions of such a budget
			}
			covered := 0
			for _, pod := range pods {
				if selector.Matches(labels.Set(pod.Labels)) {
					covered++
				}
			}
			if allowed := int(b.Status.DisruptionsAllowed); covered > allowed {
				return fmt.Errorf("PodDisruptionBudget %s/%s allows %d more disruptions, and %d pods would be evicted", namespace, b.Name, max(allowed, 0), covered)
			}
		}
	}
	return nil
}

func (p *Plugin) evictPod(ctx context.Context, ref planner.Ref, dry bool) error {
	uid := asUID(ref.UID)
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return p.handle.ClientSet().PolicyV1().Evictions(ref.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name},
		DeleteOptions: options,
	})
}

// evictRetry is the time between two tries to evict a pod.
const evictRetry = 2 * time.Second

// evictLater tries to evict a pod until it is gone.
func (p *Plugin) evictLater(ctx context.Context, ref planner.Ref) {
	go func() {
		tick := time.NewTicker(evictRetry)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := p.evictPod(ctx, ref, false); err == nil || apierrors.IsNotFound(err) {
				return
			}
		}
	}()
}
