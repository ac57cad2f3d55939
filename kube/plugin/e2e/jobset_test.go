package e2e

import (
	"fmt"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The controllers of JobSets and LeaderWorkerSets do not run here. These functions create what those controllers create,
// with the labels, annotations and owners that the sources of JobSet 0.12.0 and LeaderWorkerSet 0.9.0 give to them.

// ownedBy makes an object the controller of another one.
func ownedBy(o metav1.Object, apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: new(true)}}
}

// jobOfSet creates one Job of a JobSet, which has so many Jobs in all.
func (s *scene) jobOfSet(set *unstructured.Unstructured, replicatedJob string, index, all int, pods int32, gpus int) {
	s.t.Helper()
	job := s.job(fmt.Sprintf("%s-%s-%d", set.GetName(), replicatedJob, index), pods, gpus)
	labels := map[string]string{
		"jobset.sigs.k8s.io/jobset-name": set.GetName(), "jobset.sigs.k8s.io/jobset-uid": string(set.GetUID()),
		"jobset.sigs.k8s.io/replicatedjob-name": replicatedJob, "jobset.sigs.k8s.io/global-replicas": strconv.Itoa(all),
		"jobset.sigs.k8s.io/job-index": strconv.Itoa(index),
	}
	job.Labels, job.Spec.Template.Annotations = labels, labels
	for key, value := range labels {
		job.Spec.Template.Labels[key] = value
	}
	job.Spec.Template.Labels[appLabel] = set.GetName()
	job.OwnerReferences = ownedBy(set, "jobset.x-k8s.io/v1alpha2", "JobSet")
	s.createJob(job)
}

// replicatedJob is an entry of a JobSet.
func replicatedJob(name string, replicas, pods int64, gpus string, more ...map[string]any) map[string]any {
	container := map[string]any{"name": "main", "image": "none"}
	if gpus != "" {
		container["resources"] = map[string]any{"limits": map[string]any{"nvidia.com/gpu": gpus}}
	}
	out := map[string]any{"name": name, "replicas": replicas, "template": map[string]any{"spec": map[string]any{
		"parallelism": pods, "completions": pods, "template": map[string]any{"spec": map[string]any{"containers": []any{container}}},
	}}}
	for _, m := range more {
		for key, value := range m {
			out[key] = value
		}
	}
	return out
}

// TestJobSet: all pods with GPUs of a JobSet are one gang, and the annotations of the JobSet apply to them.
func TestJobSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, "jobset", 2*nodesPerLeaf)
	leaf := s.leaves[s.nodes[nodesPerLeaf]]
	set := s.object("jobset.x-k8s.io/v1alpha2", "JobSet", "train", map[string]string{
		"topology.scheduler/preferred-domain": leaf, "topology.scheduler/gpu-count": "20",
	}, map[string]any{"replicatedJobs": []any{replicatedJob("driver", 1, 1, ""), replicatedJob("worker", 2, 2, "4"), replicatedJob("store", 1, 1, "4")}})
	s.jobOfSet(set, "driver", 0, 4, 1, 0)
	s.jobOfSet(set, "worker", 0, 4, 2, 4)
	s.jobOfSet(set, "worker", 1, 4, 2, 4)
	s.awaitPods("train", 4, "told that the last Job is missing", waitsFor("the gang is not complete: 4 of 5 pods exist"))
	s.jobOfSet(set, "store", 0, 4, 1, 4)
	for _, pod := range s.awaitBound("train", 6) {
		if got := s.leaves[pod.Spec.NodeName]; gpus(&pod) > 0 && got != leaf {
			t.Errorf("pod %s is in the leaf %s, want %s as the JobSet says", pod.Name, got, leaf)
		}
	}
	s.checkDevices()
}

// TestOrderedJobSet: a JobSet that starts its Jobs one after the other does not wait for Jobs that cannot exist yet.
func TestOrderedJobSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, "jobset-ordered", 2)
	after := map[string]any{"dependsOn": []any{map[string]any{"name": "leader", "status": "Ready"}}}
	set := s.object("jobset.x-k8s.io/v1alpha2", "JobSet", "ordered", nil, map[string]any{
		"replicatedJobs": []any{replicatedJob("leader", 1, 1, "1"), replicatedJob("worker", 1, 2, "1", after)},
	})
	s.jobOfSet(set, "leader", 0, 2, 1, 1)
	s.awaitBound("ordered", 1)
	s.jobOfSet(set, "worker", 0, 2, 2, 1)
	s.awaitBound("ordered", 3)
}

// TestLeaderWorkerSet: a leader and its workers are a gang, and the annotations of the LeaderWorkerSet apply to them.
func TestLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, "lws", 2*nodesPerLeaf)
	leaf := s.leaves[s.nodes[nodesPerLeaf]]
	for _, c := range []struct{ name, startup string }{{"together", "LeaderCreated"}, {"leader-first", "LeaderReady"}} {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			set := s.object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", c.name, map[string]string{"topology.scheduler/preferred-domain": leaf}, map[string]any{
				"startupPolicy": c.startup,
				"leaderWorkerTemplate": map[string]any{"size": int64(3), "workerTemplate": map[string]any{"spec": map[string]any{"containers": []any{
					map[string]any{"name": "main", "image": "none", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "4"}}},
				}}}},
			})
			s.setOfLWS(set, set.GetName(), 0, 1, ownedBy(set, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"))
			var leader v1.Pod
			if c.startup == "LeaderReady" {
				leader = s.awaitBound(c.name, 1)[0] // the workers do not exist yet
			} else {
				leader = s.awaitPods(c.name, 1, "told that the workers are missing", waitsFor("the gang is not complete: 1 of 3 pods exist"))[0]
			}
			s.setOfLWS(set, leader.Name, 1, 2, ownedBy(&leader, "v1", "Pod"))
			for _, pod := range s.awaitBound(c.name, 3) {
				if got := s.leaves[pod.Spec.NodeName]; got != leaf {
					t.Errorf("pod %s is in the leaf %s, want %s as the LeaderWorkerSet says", pod.Name, got, leaf)
				}
			}
		})
	}
	s.checkDevices()
}

// setOfLWS creates the StatefulSet of a leader, or that of the workers of a leader, whose numbers begin with 1.
func (s *scene) setOfLWS(set *unstructured.Unstructured, name string, first, replicas int32, owners []metav1.OwnerReference) {
	s.t.Helper()
	template := s.template(set.GetName(), 4, v1.RestartPolicyAlways)
	template.Labels["leaderworkerset.sigs.k8s.io/name"] = set.GetName()
	template.Labels["leaderworkerset.sigs.k8s.io/group-index"] = "0"
	template.Labels["leaderworkerset.sigs.k8s.io/group-key"] = "key-of-" + set.GetName()
	selector := map[string]string{"leaderworkerset.sigs.k8s.io/name": set.GetName(), "role": "worker"}
	if first == 0 { // the webhook of LeaderWorkerSet numbers the workers, which is not here
		template.Labels["leaderworkerset.sigs.k8s.io/worker-index"] = "0"
		selector["role"] = "leader"
	}
	template.Labels["role"] = selector["role"]
	template.Annotations = map[string]string{"leaderworkerset.sigs.k8s.io/size": "3"}
	_, err := cluster.Client.AppsV1().StatefulSets(s.namespace).Create(s.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: selector, OwnerReferences: owners},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: set.GetName(), PodManagementPolicy: appsv1.ParallelPodManagement, Template: template,
			Ordinals: &appsv1.StatefulSetOrdinals{Start: first}, Selector: &metav1.LabelSelector{MatchLabels: selector},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}
