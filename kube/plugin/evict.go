package plugin

import (
	"context"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/ares-scheduler/ares/kube/planner"
)

// evict evicts all pods of a preempted workload, or none. It first asks the API server whether each eviction would be
// allowed. A PodDisruptionBudget that refuses one protects the whole workload.
func (p *Plugin) evict(ctx context.Context, e planner.Eviction) {
	logger := klog.FromContext(ctx).WithName("ares")
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
			logger.Info("A workload is not preempted", "pod", ref.String(), "reason", err.Error())
			p.planner.Protect(e, fmt.Sprintf("pod %s cannot be evicted: %v", ref, err), time.Now())
			time.AfterFunc(p.evictionRetry, func() { p.planner.Unprotect(e.Job); p.loop.wake() })
			p.loop.wake()
			return
		}
	}
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
