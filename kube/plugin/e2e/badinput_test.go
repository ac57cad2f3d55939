package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// TestBadInput: a pod that can never be placed as it is written waits, and its condition and an event say what to write.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newScene(t, "bad-input", 2)
	for _, c := range []struct {
		name        string
		gpus        int
		annotations []string
		want        string
	}{
		{"zero", 1, []string{"topology.scheduler/gpu-count", "0"}, `"0" is not a number of GPUs: write a whole number from 1`},
		{"letters", 1, []string{"topology.scheduler/gpu-count", "abc"}, `"abc" is not a number of GPUs: write a whole number from 1`},
		{"against-limits", 2, []string{"topology.scheduler/gpu-count", "3"}, `"3" differs from the GPU limits of the pod, which are 2: write "2"`},
		{"strategy", 1, []string{"topology.scheduler/placement-strategy", "consolidate"}, `"consolidate" is not a strategy: write "consolidated"`},
		{"unknown", 1, []string{"topology.scheduler/gpu-counts", "1"}, "there is no such annotation: did you mean topology.scheduler/gpu-count?"},
		{"bandwidth", 1, []string{"topology.scheduler/network-bandwidth", "200"}, `"200" is not a bandwidth: write a whole number of gigabits per second with the unit Gb, such as "200Gb"`},
		{"latency", 1, []string{"topology.scheduler/latency-sensitive", "yes"}, `"yes" is neither true nor false: write "true" or "false"`},
		{"no-such-domain", 1, []string{"topology.scheduler/preferred-domain", "no-such-leaf"}, `no node is in the domain "no-such-leaf"`},
		{"too-large", 9, nil, "9 "},
		{"no-limits", 0, []string{"topology.scheduler/gpu-count", "2"}, "no container has a limit of nvidia.com/gpu: write the limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			s.create(s.pod(c.name, c.gpus, c.annotations...))
			s.awaitTold(c.name, 1, c.want)
		})
	}
	// The owner's annotations count as well: 16 GPUs agree neither with one pod nor with three.
	s.createJob(s.job("indivisible", 3, 4, "topology.scheduler/gpu-count", "16"))
	s.awaitTold("indivisible", 3, `"16" agrees neither with the GPU limits of one pod, which are 4, nor with those of all 3 pods: write "4" or "12"`)
	// Nothing of this keeps a correct pod from being placed.
	s.create(s.pod("correct", 8))
	s.awaitBound("correct", 1)
}

// TestGangWaits: a gang whose pods do not all exist, or that fits nowhere, waits as a whole and says why.
func TestGangWaits(t *testing.T) {
	t.Parallel()
	s := newScene(t, "gang-waits", 2)
	for i := range 2 {
		pod := s.pod(fmt.Sprintf("member-%d", i), 1, "ares.dev/gang-size", "3")
		pod.Labels[appLabel], pod.Labels["scheduling.x-k8s.io/pod-group"] = "group", "group"
		s.create(pod)
	}
	s.awaitTold("group", 2, "the gang is not complete: 2 of 3 pods exist")
	s.createJob(s.job("large", 4, 8))
	s.awaitTold("large", 4, "4")
	last := s.pod("member-2", 1, "ares.dev/gang-size", "3")
	last.Labels[appLabel], last.Labels["scheduling.x-k8s.io/pod-group"] = "group", "group"
	s.create(last)
	s.awaitBound("group", 3)
	s.awaitBound("large", 0)
	s.checkDevices()
}

// TestNodesWithoutLabels: nodes without labels of the network take single pods and gangs.
func TestNodesWithoutLabels(t *testing.T) {
	t.Parallel()
	s := newScene(t, "no-labels", 0)
	names, err := cluster.CreateNodes(t.Context(), 2, kubetest.NodeShape{
		Prefix: "no-labels", WithoutTopology: true, Labels: map[string]string{sceneLabel: s.namespace},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.nodes = names
	s.create(s.pod("one", 4))
	s.awaitBound("one", 1)
	s.createJob(s.job("gang", 3, 4))
	s.awaitBound("gang", 3)
	s.checkDevices()
}

// awaitTold waits until the condition of `count` pods says why they wait, and until an event of each says the same.
func (s *scene) awaitTold(app string, count int, want string) {
	s.t.Helper()
	pods := s.awaitPods(app, count, "told "+want, waitsFor(want))
	s.await(func(ctx context.Context) error {
		list, err := cluster.Client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range pods {
			if !hasEvent(list.Items, &pods[i], want) {
				return fmt.Errorf("pod %s has no event FailedScheduling with %q", pods[i].Name, want)
			}
		}
		return nil
	})
}

func hasEvent(list []v1.Event, pod *v1.Pod, want string) bool {
	for i := range list {
		e := &list[i]
		if e.InvolvedObject.UID == pod.UID && e.Reason == "FailedScheduling" && strings.Contains(e.Message, want) {
			return true
		}
	}
	return false
}
