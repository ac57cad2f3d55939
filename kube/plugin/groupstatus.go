package plugin

import (
	"context"
	"encoding/json"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/ares-scheduler/ares/kube/planner"
)

// reasonScheduled is the reason of the condition of a PodGroup whose pods are bound. Kubernetes' own scheduler writes the
// same.
const reasonScheduled = "Scheduled"

// reportGroup writes into the condition of a PodGroup whether its pods are bound, or why they are not. The condition is
// about the first time: once it is true it stays so. It returns false if the write should be repeated.
func (p *Plugin) reportGroup(ctx context.Context, s planner.GroupState) bool {
	objects := p.feed.objects
	object, _ := objects.get(kubernetesGroups, s.Group.Namespace, s.Group.Name)
	if object == nil {
		return true
	}
	condition := metav1.Condition{
		Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse,
		Reason: schedulingv1beta1.PodGroupReasonUnschedulable, Message: clip(s.Text),
		LastTransitionTime: metav1.Now(), ObservedGeneration: object.GetGeneration(),
	}
	resource := objects.resource(kubernetesGroups)
	if resource.Version == "v1alpha2" {
		condition.Type = "PodGroupScheduled" // its name in Kubernetes 1.36
	}
	if s.Bound {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, reasonScheduled, "as many pods are bound as the group asks for"
	}
	before := conditionOf(object, condition.Type)
	if before["status"] == string(metav1.ConditionTrue) || before["message"] == condition.Message {
		return true
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{condition}}})
	if err == nil {
		_, err = objects.client.Resource(resource).Namespace(s.Group.Namespace).
			Patch(ctx, s.Group.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err == nil || apierrors.IsNotFound(err) {
		return true
	}
	if ctx.Err() == nil {
		klog.FromContext(ctx).WithName("ares").V(2).Info("The condition of a PodGroup was not written", "podGroup", klog.KRef(s.Group.Namespace, s.Group.Name), "err", err)
	}
	return apierrors.IsForbidden(err)
}

// conditionOf returns a condition of an object, or nil.
func conditionOf(o *unstructured.Unstructured, kind string) map[string]any {
	list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}
