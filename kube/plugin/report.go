package plugin

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/ares-scheduler/ares/kube/planner"
)

// The reasons of waiting pods are written at most this often, because each is a write to the API server.
const (
	reportsPerSecond = 20
	reportEvery      = 250 * time.Millisecond
	// maxMessage limits the length of a reason, in bytes. An event may have at most 1,024.
	maxMessage = 1000
)

// report writes why pods wait into their condition PodScheduled, which autoscalers and people read, and records an event
// whenever the reason changes. PodGroups have a condition too.
func (p *Plugin) report(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	perTick := reportsPerSecond * int(reportEvery) / int(time.Second)
	var groups []planner.GroupState // that could not be written
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, r := range p.planner.WaitingReasons(perTick, now) {
				p.explain(ctx, r)
			}
			failed := groups[:0:0]
			for _, s := range append(groups, p.planner.GroupStates(perTick, now)...) {
				if !p.reportGroup(ctx, s) {
					failed = append(failed, s)
				}
			}
			groups = failed
		}
	}
}

func (p *Plugin) explain(ctx context.Context, r planner.Reason) {
	logger := klog.FromContext(ctx).WithName("ares")
	pod := p.feed.pod(r.Pod)
	if pod == nil {
		return
	}
	message := clip(r.Text)
	status := map[string]any{"conditions": []v1.PodCondition{{
		Type:               v1.PodScheduled,
		Status:             v1.ConditionFalse,
		Reason:             v1.PodReasonUnschedulable,
		Message:            message,
		LastTransitionTime: metav1.Now(),
	}}}
	if r.Nominated != pod.Status.NominatedNodeName { // other schedulers keep off a node for which a pod preempts others
		status["nominatedNodeName"] = r.Nominated
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		_, err = p.handle.ClientSet().CoreV1().Pods(r.Pod.Namespace).Patch(ctx, r.Pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		logger.V(2).Info("The condition of a waiting pod was not written", "pod", r.Pod.String(), "err", err)
		return
	}
	p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", message)
}

// clip cuts a text that is too long for a message.
func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + " …"
}
