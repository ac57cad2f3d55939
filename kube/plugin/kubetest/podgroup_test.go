package kubetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// TestPodGroups: with the feature gate, the API server takes PodGroups and members of them, upstream's scheduler waits for
// the whole group, and the group is removed once it has no members.
func TestPodGroups(t *testing.T) {
	gates := map[string]bool{"GenericWorkload": true}
	c := kubetest.Start(t, kubetest.Options{
		FeatureGates: gates, APIServerArgs: []string{"--runtime-config=scheduling.k8s.io/v1beta1=true"},
	})
	if _, err := c.StartKubeScheduler(c.Kubeconfig, "--feature-gates=GenericWorkload=true"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateNodes(t.Context(), 2, kubetest.NodeShape{}); err != nil {
		t.Fatal(err)
	}
	groups := c.Client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault)
	_, err := groups.Create(t.Context(), &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "pair"},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	member := func(name string) *v1.Pod {
		pod, group := kubetest.Pod(name, "", 8), "pair"
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		return pod
	}
	create(t, c, member("pair-0"), "pair")
	create(t, c, kubetest.Pod("single", "", 8), "single")
	await(t, c, "app=single", 1, "running", kubetest.IsRunning)
	await(t, c, "app=pair", 0, "bound", func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" })
	remove(t, c, "single")
	create(t, c, member("pair-1"), "pair")
	await(t, c, "app=pair", 2, "running", kubetest.IsRunning)

	if err := groups.Delete(t.Context(), "pair", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	remove(t, c, "pair-0", "pair-1")
	err = kubetest.Await(t.Context(), time.Minute, 50*time.Millisecond, func(ctx context.Context) error {
		group, err := groups.Get(ctx, "pair", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("the group is still there, with finalizers %q", group.Finalizers)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
