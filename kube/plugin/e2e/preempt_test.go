package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// critical is a priority class that exists in every cluster. Ares reads it as its own class critical.
const critical = "system-cluster-critical"

// TestDisruptionBudget: a PodDisruptionBudget that allows no disruption keeps a gang from being preempted. When it allows
// them, the gang is evicted as a whole, and its GPUs go to the workload that preempted it, not to one that waited longer.
func TestDisruptionBudget(t *testing.T) {
	t.Parallel()
	s := newScene(t, "budget", 2)
	s.useScheduler("--eviction-retry=1s")
	s.createJob(s.job("victim", 2, 8))
	before := uids(s.awaitBound("victim", 2))
	s.budget("victim", 2)
	s.create(s.pod("waits-longer", 8))
	s.awaitTold("waits-longer", 1, "too few free devices")
	urgent := s.job("urgent", 2, 8)
	urgent.Spec.Template.Spec.PriorityClassName = critical
	s.createJob(urgent)
	refused := func(more int) {
		t.Helper()
		seen := count(s.process, "A workload is not preempted")
		s.await(func(context.Context) error {
			if n := count(s.process, "A workload is not preempted") - seen; n < more {
				return fmt.Errorf("the budget refused %d evictions, want %d", n, more)
			}
			return nil
		})
		s.awaitPods("urgent", 2, "told about the budget", waitsFor("protected"))
		for _, pod := range s.awaitBound("victim", 2) {
			if !before[pod.UID] {
				t.Errorf("pod %s is new: the budget does not allow its eviction", pod.Name)
			}
		}
	}
	refused(2)                // the scheduler asks again, so it does not only wait for its next try
	s.require("victim", 1, 1) // fewer than the gang has pods: none of them may go
	refused(2)
	if err := cluster.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Delete(t.Context(), "victim", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitBound("urgent", 2)
	s.awaitPods("victim", 2, "new and waiting", func(p *v1.Pod) bool { return !before[p.UID] && p.Spec.NodeName == "" })
	s.awaitBound("waits-longer", 0)
	s.checkDevices()
}

// TestNominatedNode: while a preempted pod takes its time to stop, the pod that gets its GPUs says on which node it waits.
func TestNominatedNode(t *testing.T) {
	t.Parallel()
	s := newScene(t, "nominated", 1)
	s.useScheduler()
	victim := s.pod("victim", 8)
	victim.Annotations, victim.Spec.TerminationGracePeriodSeconds = map[string]string{kubetest.StopAfter: "3s"}, new(int64(30))
	s.create(victim)
	s.awaitPods("victim", 1, "running", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	urgent := s.pod("urgent", 8)
	urgent.Spec.PriorityClassName = critical
	s.create(urgent)
	told := waitsFor("preempted workloads have stopped")
	s.awaitPods("urgent", 1, "nominated", func(p *v1.Pod) bool { return told(p) && p.Status.NominatedNodeName == s.nodes[0] })
	s.awaitBound("urgent", 1)
}

// budget creates a PodDisruptionBudget that demands so many pods of a workload, and waits until it is in force.
func (s *scene) budget(app string, available int32) {
	s.t.Helper()
	least := intstr.FromInt32(available)
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets(s.namespace)
	_, err := budgets.Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: app}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.await(func(ctx context.Context) error {
		b, err := budgets.Get(ctx, app, metav1.GetOptions{})
		if err == nil && b.Status.CurrentHealthy < available {
			err = fmt.Errorf("the budget counts %d healthy pods, want %d", b.Status.CurrentHealthy, available)
		}
		return err
	})
}

// require changes how many pods a budget demands, and waits until it allows the given number of disruptions.
func (s *scene) require(app string, available, disruptions int32) {
	s.t.Helper()
	budgets := cluster.Client.PolicyV1().PodDisruptionBudgets(s.namespace)
	patch := fmt.Appendf(nil, `{"spec": {"minAvailable": %d}}`, available)
	if _, err := budgets.Patch(s.t.Context(), app, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await(func(ctx context.Context) error {
		b, err := budgets.Get(ctx, app, metav1.GetOptions{})
		if err == nil && b.Status.DisruptionsAllowed != disruptions {
			err = fmt.Errorf("the budget allows %d disruptions, want %d", b.Status.DisruptionsAllowed, disruptions)
		}
		return err
	})
}

func uids(list []v1.Pod) map[types.UID]bool {
	out := map[types.UID]bool{}
	for i := range list {
		out[list[i].UID] = true
	}
	return out
}

// count returns how often a text is in the log of a process.
func count(p *kubetest.Process, text string) int {
	log, err := os.ReadFile(p.Log)
	if err != nil {
		return 0
	}
	return strings.Count(string(log), text)
}
