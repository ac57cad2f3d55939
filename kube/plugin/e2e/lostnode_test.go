package e2e

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLostNode: when a gang loses a node, the replacement of its pod is bound in the leaf of the gang, and the other pods
// stay where they are.
func TestLostNode(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, node string) error{
		"node-deleted": func(t *testing.T, node string) error {
			return cluster.Client.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{})
		},
		"node-silent": func(t *testing.T, node string) error { return cluster.LoseNode(t.Context(), node) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, name, 3*nodesPerLeaf)
			job, second := s.job("gang", nodesPerLeaf-1, 8), int64(1)
			for _, key := range []string{v1.TaintNodeUnreachable, v1.TaintNodeNotReady} {
				job.Spec.Template.Spec.Tolerations = append(job.Spec.Template.Spec.Tolerations,
					v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &second})
			}
			s.createJob(job)
			before := s.awaitBound("gang", nodesPerLeaf-1)
			s.sameLeaf(before)
			lost := before[0]
			if err := lose(t, lost.Spec.NodeName); err != nil {
				t.Fatal(err)
			}
			s.awaitPods("gang", 1, "a replacement", func(p *v1.Pod) bool { return !uids(before)[p.UID] && p.Spec.NodeName != "" })
			after := s.awaitBound("gang", nodesPerLeaf-1)
			s.sameLeaf(append(after, before[1]))
			nodes := map[string]bool{}
			for i := range after {
				nodes[after[i].Spec.NodeName] = true
			}
			for i := range before[1:] {
				if p := &before[1+i]; !uids(after)[p.UID] {
					t.Errorf("pod %s is gone, and only %s was on the lost node", p.Name, lost.Name)
				}
			}
			if len(nodes) != nodesPerLeaf-1 || nodes[lost.Spec.NodeName] {
				t.Errorf("the gang is on %v: want three nodes without %s", nodes, lost.Spec.NodeName)
			}
			if name == "node-silent" { // its pods can only end when its kubelet says so
				if err := cluster.RecoverNode(t.Context(), lost.Spec.NodeName); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
