package watch_test

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ares-scheduler/ares/kube/watch"
)

// jobOf returns a Job of a JobSet with three Jobs.
func jobOf(name string, pods int32, gpus string) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID("uid-" + name), Labels: map[string]string{
			"jobset.sigs.k8s.io/jobset-uid": "set", "jobset.sigs.k8s.io/global-replicas": "3", "jobset.sigs.k8s.io/replicatedjob-name": name,
		}},
		Spec: batchv1.JobSpec{Parallelism: &pods},
	}
	if gpus != "" {
		j.Spec.Template.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Limits: list("nvidia.com/gpu", gpus)}}}
	}
	return j
}

// Without the JobSet itself, the labels of its Jobs tell how many Jobs it has.
func TestGangOfAJobSetByLabels(t *testing.T) {
	leader, worker := jobOf("leader", 1, "1"), jobOf("worker", 4, "1")
	if o := watch.JobSetOwner(leader, []*batchv1.Job{leader, worker}, nil); o.Pods != 6 || o.UID != "set" || !o.IsGang {
		t.Errorf("%+v, want a gang of 6: one Job is missing and counts like this one", o)
	}
	if o := watch.JobSetOwner(leader, []*batchv1.Job{leader, worker, jobOf("worker", 4, "1")}, nil); o.Pods != 9 {
		t.Errorf("%d pods, want 9", o.Pods)
	}
	leader.Labels = nil
	if o := watch.JobSetOwner(leader, nil, nil); o.Pods != 1 || o.UID != "uid-leader" {
		t.Errorf("%+v, want the Job alone", o)
	}
}

const jobSetText = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, annotations: {topology.scheduler/gpu-count: "18", topology.scheduler/placement-strategy: consolidated}}
spec:
  replicatedJobs:
    - name: driver
      template: {spec: {template: {spec: {containers: [{name: main}]}}}}
    - name: leader
      template: {spec: {template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]}}}}
    - name: worker
      replicas: 2
      template: {spec: {parallelism: 4, completions: 2, template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 4}}}]}}}}
`

func TestGangOfAJobSet(t *testing.T) {
	set, err := watch.TranslateJobSet(object(t, jobSetText))
	if err != nil {
		t.Fatal(err)
	}
	driver, leader, worker := jobOf("driver", 1, ""), jobOf("leader", 1, "2"), jobOf("worker", 2, "4")
	worker.Annotations = map[string]string{"topology.scheduler/placement-strategy": "distributed"}
	o := watch.JobSetOwner(worker, []*batchv1.Job{driver, leader, worker}, set)
	if o.Pods != 5 || o.Left != 5 || o.UID != "set" || !slices.Contains(o.Totals, 18) || !slices.Contains(o.Totals, 8) {
		t.Errorf("%+v, want a gang of 5 pods with GPUs, and 18 GPUs in all or 8 of this Job", o)
	}
	if o.Annotations["topology.scheduler/placement-strategy"] != "distributed" || o.Annotations["topology.scheduler/gpu-count"] != "18" {
		t.Errorf("annotations: %v, want those of the Job and then those of the JobSet", o.Annotations)
	}
	p := gpuPod("4")
	if got := watch.TranslatePod(p, o, nil); got.Problem != "" || got.Gang.Size != 5 {
		t.Errorf("problem %q, gang %+v", got.Problem, got.Gang)
	}
	// A Job may ask for its GPUs by claims.
	claims := jobOf("driver", 1, "")
	claims.Spec.Template.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
	if o := watch.JobSetOwner(worker, []*batchv1.Job{claims, leader, worker}, set); o.Pods != 6 {
		t.Errorf("%d pods, want 6 with the one that has a claim", o.Pods)
	}
	// A Job that is complete needs no pods any more.
	leader.Spec.Completions, leader.Status.Succeeded = new(int32(1)), 1
	if o := watch.JobSetOwner(worker, []*batchv1.Job{driver, leader, worker}, set); o.Left != 4 {
		t.Errorf("%d pods are left, want 4", o.Left)
	}
	// The first pod of a Job that chooses its domain waits for no other.
	worker.Annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"] = "topology.scheduler/leaf"
	if o := watch.JobSetOwner(worker, []*batchv1.Job{driver, leader, worker}, set); o.Left != 1 || o.Pods != 2 || o.UID != "uid-worker" {
		t.Errorf("%+v, want a first pod that waits for no other", o)
	}
	worker.Annotations["alpha.jobset.sigs.k8s.io/node-selector"] = "true"
	if o := watch.JobSetOwner(worker, []*batchv1.Job{driver, worker}, set); o.Left != 5 {
		t.Errorf("%d pods are left, want 5: labels of nodes choose the domain", o.Left)
	}
}

// The Jobs of a JobSet that starts them in an order do not wait for each other.
func TestGangOfAnOrderedJobSet(t *testing.T) {
	text := object(t, jobSetText)
	set, err := watch.TranslateJobSet(text)
	if err != nil || set.Ordered {
		t.Fatalf("ordered: %t, %v", set.Ordered, err)
	}
	set.Ordered = true
	worker := jobOf("worker", 2, "4")
	if o := watch.JobSetOwner(worker, []*batchv1.Job{jobOf("leader", 1, "2"), worker}, set); o.Pods != 4 || o.UID != "set/worker" {
		t.Errorf("%+v, want the four workers", o)
	}
	spec := text.Object["spec"].(map[string]any)
	spec["startupPolicy"] = map[string]any{"startupPolicyOrder": "InOrder"}
	if set, err = watch.TranslateJobSet(text); err != nil || !set.Ordered {
		t.Errorf("InOrder is no order: %v", err)
	}
	spec["startupPolicy"] = map[string]any{"startupPolicyOrder": "AnyOrder"}
	spec["replicatedJobs"].([]any)[2].(map[string]any)["dependsOn"] = []any{map[string]any{"name": "leader", "status": "Ready"}}
	if set, err = watch.TranslateJobSet(text); err != nil || !set.Ordered {
		t.Errorf("dependsOn is no order: %v", err)
	}
	spec["replicatedJobs"] = "none"
	if _, err = watch.TranslateJobSet(text); err == nil {
		t.Error("a JobSet that cannot be read is no error")
	}
}

func TestGangOfALeaderWorkerSet(t *testing.T) {
	const text = `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: serve, uid: lws-uid, annotations: {topology.scheduler/preferred-domain: leaf-1}}
spec:
  leaderWorkerTemplate:
    size: 4
    leaderTemplate: {spec: {containers: [{name: main}]}}
    workerTemplate: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 4}}}]}}
`
	pod := func(index string) *v1.Pod {
		p := gpuPod("4")
		p.Labels = map[string]string{"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-key": "abc", "leaderworkerset.sigs.k8s.io/worker-index": index}
		p.Annotations = map[string]string{"leaderworkerset.sigs.k8s.io/size": "4"}
		return p
	}
	if got := watch.LeaderWorkerSetOf(pod("0")); got != "serve" {
		t.Errorf("the pod is of %q, want serve", got)
	}
	for _, c := range []struct {
		name         string
		change       func(spec, annotations map[string]any)
		leader, rest int // the sizes of the gang for the leader and for a worker, 0 for a leader without GPUs
	}{
		{"leader without GPUs", func(map[string]any, map[string]any) {}, 0, 3},
		{"one template", func(s, _ map[string]any) { delete(s["leaderWorkerTemplate"].(map[string]any), "leaderTemplate") }, 4, 4},
		{"leader ready first", func(s, _ map[string]any) {
			delete(s["leaderWorkerTemplate"].(map[string]any), "leaderTemplate")
			s["startupPolicy"] = "LeaderReady"
		}, 1, 4},
		{"exclusive", func(s, a map[string]any) {
			delete(s["leaderWorkerTemplate"].(map[string]any), "leaderTemplate")
			a["leaderworkerset.sigs.k8s.io/exclusive-topology"] = "topology.scheduler/leaf"
		}, 1, 4},
	} {
		o := object(t, text)
		c.change(o.Object["spec"].(map[string]any), o.Object["metadata"].(map[string]any)["annotations"].(map[string]any))
		set, err := watch.TranslateLeaderWorkerSet(o)
		if err != nil {
			t.Fatal(err)
		}
		for index, want := range map[string]int{"0": c.leader, "1": c.rest} {
			if want == 0 {
				continue
			}
			got := watch.TranslatePod(pod(index), watch.LeaderWorkerSetOwner(pod(index), set), nil)
			if got.Gang.Size != want || got.Gang.Key != "lws:team-a/abc" || got.Spec.Placement().PreferredDomain != "leaf-1" || got.Problem != "" {
				t.Errorf("%s: pod %s has the gang %+v, the domain %q and the problem %q, want a gang of %d", c.name, index, got.Gang, got.Spec.Placement().PreferredDomain, got.Problem, want)
			}
		}
	}
	bad := object(t, text)
	bad.Object["spec"] = "none"
	if _, err := watch.TranslateLeaderWorkerSet(bad); err == nil {
		t.Error("a LeaderWorkerSet that cannot be read is no error")
	}
}
