package kubetest

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which a pod tells its fake kubelet what to do. Without them it runs until it is deleted, and stops at once.
const (
	RunFor    = "kubetest.ares.dev/run-for"    // a duration, after which the pod ends by itself
	ExitCode  = "kubetest.ares.dev/exit-code"  // with which it ends by itself; "0" if absent
	StopAfter = "kubetest.ares.dev/stop-after" // a duration, which a deleted pod needs to stop
)

// PodSpec returns the specification of a pod with one container that asks for GPUs, and for no more than a node has of other
// things per GPU. An empty scheduler is upstream's default.
func PodSpec(scheduler string, gpus int) v1.PodSpec {
	requests := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(max(1, gpus)), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(max(1, gpus))<<30, resource.BinarySI),
	}
	limits := v1.ResourceList{}
	if gpus > 0 {
		count := *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		requests[GPUs], limits[GPUs] = count, count
	}
	return v1.PodSpec{
		SchedulerName: scheduler,
		RestartPolicy: v1.RestartPolicyNever,
		Containers: []v1.Container{{
			Name: "main", Image: "fake", Resources: v1.ResourceRequirements{Requests: requests, Limits: limits},
		}},
	}
}

// Pod returns a pod in the default namespace.
func Pod(name, scheduler string, gpus int) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec:       PodSpec(scheduler, gpus),
	}
}

// AwaitPods waits until `count` pods that the label selector selects in the namespace fulfil the condition, and returns
// those. `what` names the condition in the error.
func (c *Cluster) AwaitPods(ctx context.Context, namespace, selector string, count int, what string, is func(*v1.Pod) bool) ([]v1.Pod, error) {
	var found []v1.Pod
	err := Await(ctx, time.Minute, 50*time.Millisecond, func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		found = nil
		for _, pod := range list.Items {
			if is(&pod) {
				found = append(found, pod)
			}
		}
		if len(found) != count {
			return fmt.Errorf("%d of %d pods are %s, want %d", len(found), len(list.Items), what, count)
		}
		return nil
	})
	return found, err
}

// IsRunning says whether the pod runs and is not being deleted.
func IsRunning(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodRunning && pod.DeletionTimestamp == nil
}
