package watch

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobOwner describes a Job. The pods of a Job with a parallelism above 1 are a gang.
func JobOwner(j *batchv1.Job) *Owner {
	pods := 1
	if j.Spec.Parallelism != nil {
		pods = int(*j.Spec.Parallelism)
	}
	if c := j.Spec.Completions; c != nil {
		pods = min(pods, int(*c))
	}
	return &Owner{UID: string(j.UID), Annotations: j.Annotations, Pods: pods, IsGang: true}
}

// ReplicasOwner describes a workload whose pods do the same work independently of each other, such as a Deployment.
func ReplicasOwner(o metav1.Object, replicas *int32) *Owner {
	pods := 1
	if replicas != nil {
		pods = int(*replicas)
	}
	return &Owner{UID: string(o.GetUID()), Annotations: o.GetAnnotations(), Pods: pods}
}
