package e2e

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// podTemplate returns a template of the scene's pods as it is written into an object without a typed client.
func (s *scene) podTemplate(app string, gpus int, policy v1.RestartPolicy) map[string]any {
	s.t.Helper()
	template := s.template(app, gpus, policy)
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// A part is an entry of a JobSet's list replicatedJobs.
type part struct {
	name                 string
	replicas, pods, gpus int
	after                string // the entry that must be ready before
}

// jobSet creates a JobSet. Its pods have its name as their app.
func (s *scene) jobSet(name string, annotations map[string]string, parts ...part) {
	s.t.Helper()
	var list []any
	for _, p := range parts {
		entry := map[string]any{
			"name": p.name, "replicas": int64(p.replicas), "template": map[string]any{"spec": map[string]any{
				"parallelism": int64(p.pods), "completions": int64(p.pods), "backoffLimit": int64(1000), "template": s.podTemplate(name, p.gpus, v1.RestartPolicyNever),
			}},
		}
		if p.after != "" {
			entry["dependsOn"] = []any{map[string]any{"name": p.after, "status": "Ready"}}
		}
		list = append(list, entry)
	}
	s.object("jobset.x-k8s.io/v1alpha2", "JobSet", name, annotations, map[string]any{"replicatedJobs": list})
}

// inLeaf fails the test unless the pods with GPUs are in one leaf.
func (s *scene) inLeaf(pods []v1.Pod, leaf string) {
	s.t.Helper()
	for i := range pods {
		if got := s.leaves[pods[i].Spec.NodeName]; gpus(&pods[i]) > 0 && got != leaf {
			s.t.Errorf("pod %s is in the leaf %s, want %s", pods[i].Name, got, leaf)
		}
	}
}

// TestJobSet: all pods with GPUs of a JobSet are one gang, and the annotations of the JobSet apply to them.
func TestJobSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, "jobset", 2*nodesPerLeaf)
	leaf := s.leaves[s.nodes[nodesPerLeaf]]
	s.jobSet("train", map[string]string{"topology.scheduler/preferred-domain": leaf, "topology.scheduler/gpu-count": "20"},
		part{"driver", 1, 1, 0, ""}, part{"worker", 2, 2, 4, ""}, part{"store", 1, 1, 4, ""})
	s.inLeaf(s.awaitBound("train", 6), leaf)
	// Nine nodes do not exist, so none of the pods is bound.
	s.jobSet("large", nil, part{"worker", 3, 3, 8, ""})
	s.awaitPods("large", 9, "told why they wait", waitsFor(""))
	s.awaitBound("large", 0)
	s.jobSet("wrong", map[string]string{"topology.scheduler/gpu-count": "7"}, part{"worker", 2, 2, 1, ""})
	s.awaitPods("wrong", 4, "told what is wrong", waitsFor(`"7" agrees neither with the GPU limits of one pod, which are 1, nor with those of all 4 pods: write "1" or "4"`))
	s.checkDevices()
}

// TestOrderedJobSet: a JobSet that starts its Jobs one after the other does not wait for Jobs that cannot exist yet.
func TestOrderedJobSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, "jobset-ordered", 2)
	s.jobSet("ordered", nil, part{"leader", 1, 1, 1, ""}, part{"worker", 1, 2, 1, "leader"})
	s.awaitBound("ordered", 3)
	s.checkDevices()
}

// TestExclusiveJobSet: each Job of a JobSet gets a leaf of its own. Its first pod chooses the leaf, and the JobSet's webhook
// lets the others be created only then.
func TestExclusiveJobSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, "jobset-exclusive", 2*nodesPerLeaf)
	s.jobSet("exclusive", map[string]string{"alpha.jobset.sigs.k8s.io/exclusive-topology": kubetest.LeafLabel}, part{"worker", 2, 2, 8, ""})
	leaves := map[string][]v1.Pod{}
	for _, pod := range s.awaitBound("exclusive", 4) {
		job := pod.Labels["jobset.sigs.k8s.io/job-index"]
		leaves[job] = append(leaves[job], pod)
	}
	s.sameLeaf(leaves["0"])
	s.sameLeaf(leaves["1"])
	if len(leaves["0"]) != 2 || s.leaves[leaves["0"][0].Spec.NodeName] == s.leaves[leaves["1"][0].Spec.NodeName] {
		t.Errorf("both Jobs share a leaf: %v", leaves)
	}
	s.checkDevices()
}

// TestLeaderWorkerSet: a leader and its workers are a gang, and the annotations of the LeaderWorkerSet apply to them. A
// leader does not wait for workers that are created only when it is ready.
func TestLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, "lws", 3*nodesPerLeaf)
	for i, startup := range []string{"LeaderCreated", "LeaderReady"} {
		t.Run(startup, func(t *testing.T) {
			s, leaf := s.in(t), s.leaves[s.nodes[(i+1)*nodesPerLeaf]]
			app := []string{"together", "leader-first"}[i]
			s.object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", app, map[string]string{"topology.scheduler/preferred-domain": leaf}, map[string]any{
				"replicas": int64(2), "startupPolicy": startup,
				"leaderWorkerTemplate": map[string]any{
					"size":           int64(3),
					"leaderTemplate": s.podTemplate(app, 2, v1.RestartPolicyAlways), "workerTemplate": s.podTemplate(app, 4, v1.RestartPolicyAlways),
				},
			})
			s.inLeaf(s.awaitBound(app, 6), leaf)
		})
	}
	// Of two groups, one fits: none of the other is bound.
	s.object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "large", nil, map[string]any{
		"replicas": int64(2), "leaderWorkerTemplate": map[string]any{"size": int64(4), "workerTemplate": s.podTemplate("large", 8, v1.RestartPolicyAlways)},
	})
	s.awaitBound("large", 4)
	s.awaitPods("large", 4, "told why they wait", waitsFor("free"))
	s.checkDevices()
}
