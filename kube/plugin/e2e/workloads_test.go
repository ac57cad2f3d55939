package e2e

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// template returns the template of a workload's pods.
func (s *scene) template(app string, gpus int, policy v1.RestartPolicy) v1.PodTemplateSpec {
	spec := s.spec(gpus)
	spec.RestartPolicy = policy
	return v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appLabel: app}}, Spec: spec}
}

// job returns an indexed Job whose pods run until they are deleted.
func (s *scene) job(name string, pods int32, gpus int, annotations ...string) *batchv1.Job {
	indexed, retries := batchv1.IndexedCompletion, int32(1000)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Annotations: pairs(annotations)},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods, CompletionMode: &indexed, BackoffLimit: &retries,
			Template: s.template(name, gpus, v1.RestartPolicyNever),
		},
	}
}

// createJob creates a Job.
func (s *scene) createJob(job *batchv1.Job) {
	s.t.Helper()
	if _, err := cluster.Client.BatchV1().Jobs(s.namespace).Create(s.t.Context(), job, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// deployment creates a Deployment.
func (s *scene) deployment(name string, replicas int32, gpus int, annotations ...string) {
	s.t.Helper()
	_, err := cluster.Client.AppsV1().Deployments(s.namespace).Create(s.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: pairs(annotations)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}},
			Template: s.template(name, gpus, v1.RestartPolicyAlways),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// statefulSet creates a StatefulSet that starts all pods at once.
func (s *scene) statefulSet(name string, replicas int32, gpus int) {
	s.t.Helper()
	_, err := cluster.Client.AppsV1().StatefulSets(s.namespace).Create(s.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}},
			Template: s.template(name, gpus, v1.RestartPolicyAlways),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestWorkloads: the pods of every kind of workload are bound, together with exact devices.
func TestWorkloads(t *testing.T) {
	s := newScene(t, "workloads", 3*nodesPerLeaf) // whatever the order of the pods is, a whole leaf stays empty
	s.create(s.pod("one", 1))
	s.create(s.pod("whole-node", 8))
	s.create(s.pod("no-gpu", 0))
	s.createJob(s.job("single", 1, 2))
	s.createJob(s.job("pair", 2, 4, "topology.scheduler/gpu-count", "8"))
	s.deployment("serve", 3, 1, "topology.scheduler/latency-sensitive", "true")
	s.statefulSet("store", 2, 2)
	for app, count := range map[string]int{"one": 1, "whole-node": 1, "no-gpu": 1, "single": 1, "pair": 2, "serve": 3, "store": 2} {
		s.awaitBound(app, count)
	}
	s.checkDevices()
	s.sameLeaf(s.awaitBound("pair", 2))
	free := s.awaitBound("no-gpu", 1)[0]
	if got, has := free.Annotations[devicesAnnotation]; has {
		t.Errorf("a pod without GPUs has the devices %q", got)
	}
	// Pods that end give their devices back.
	quick := s.job("quick", 4, 8)
	quick.Spec.Template.Annotations = map[string]string{kubetest.RunFor: "1ms"}
	s.createJob(quick)
	s.awaitPods("quick", 4, "finished", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded })
	s.createJob(s.job("after", 4, 8))
	s.awaitBound("after", 4)
	s.checkDevices()
}

// TestGangInLeaf: a gang of four whole nodes lies in one leaf, although pods of one GPU lie on nodes of the others.
func TestGangInLeaf(t *testing.T) {
	s := newScene(t, "gang-in-leaf", 3*nodesPerLeaf)
	for i, node := range []int{0, nodesPerLeaf} { // one node of the first two leaves
		pod := s.pod([]string{"first", "second"}[i], 1)
		pod.Spec.NodeSelector[v1.LabelHostname] = s.nodes[node]
		s.create(pod)
		s.awaitBound(pod.Name, 1)
	}
	s.createJob(s.job("gang", 4, 8))
	gang := s.awaitBound("gang", 4)
	s.sameLeaf(gang)
	if leaf, want := s.leaves[gang[0].Spec.NodeName], s.leaves[s.nodes[2*nodesPerLeaf]]; leaf != want {
		t.Errorf("the gang is in %s: want %s, the only leaf with four free nodes", leaf, want)
	}
	for i := range gang {
		if got, want := gang[i].Annotations["ares.dev/domain"], "leaf/"+s.leaves[gang[0].Spec.NodeName]; got != want {
			t.Errorf("pod %s has the domain %q, want %q", gang[i].Name, got, want)
		}
	}
	s.checkDevices()
}

// TestOtherScheduler: the GPUs of pods that another scheduler bound are theirs, even against a workload of a higher class.
func TestOtherScheduler(t *testing.T) {
	s := newScene(t, "other-scheduler", 2)
	if _, err := cluster.StartKubeScheduler(cluster.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"theirs-a", "theirs-b"} {
		pod := s.pod(name, 6)
		pod.Spec.SchedulerName = "default-scheduler"
		s.create(pod)
		s.awaitBound(name, 1)
	}
	ours := s.pod("ours", 2)
	ours.Spec.PriorityClassName = "system-cluster-critical"
	s.create(ours)
	s.awaitBound("ours", 1)
	large := s.pod("large", 4)
	large.Spec.PriorityClassName = "system-cluster-critical"
	s.create(large)
	s.awaitPods("large", 1, "told why they wait", waitsFor(""))
	s.awaitBound("theirs-a", 1)
	s.awaitBound("theirs-b", 1)
	s.checkDevices()
}

// waitsFor returns a condition: the pod is not scheduled, and the reason contains a text.
func waitsFor(text string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool {
		c := scheduled(p)
		return p.Spec.NodeName == "" && c != nil && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable && strings.Contains(c.Message, text)
	}
}
