package watch

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// JobOwner describes a Job. The pods of a Job with a parallelism above 1 are a gang.
func JobOwner(j *batchv1.Job) *Owner {
	pods := 1
	if j.Spec.Parallelism != nil {
		pods = int(*j.Spec.Parallelism)
	}
	left := pods
	if c := j.Spec.Completions; c != nil {
		pods = min(pods, int(*c))
		left = min(pods, int(*c)-int(j.Status.Succeeded))
	}
	return &Owner{UID: string(j.UID), Name: j.Name, Annotations: j.Annotations, Pods: pods, Left: max(left, 1), IsGang: true}
}

// The JobSet controller writes these labels into the Jobs and pods of a JobSet.
const (
	labelJobSet         = "jobset.sigs.k8s.io/jobset-uid"
	labelJobSetName     = "jobset.sigs.k8s.io/jobset-name"
	labelGlobalReplicas = "jobset.sigs.k8s.io/global-replicas" // the number of Jobs of the JobSet
)

// InJobSet reports whether a Job belongs to a JobSet.
func InJobSet(j *batchv1.Job) bool { return j.Labels[labelJobSet] != "" }

// SameJobSet selects the Jobs of the same JobSet, and none for a Job that belongs to no JobSet.
func SameJobSet(j *batchv1.Job) labels.Selector {
	if !InJobSet(j) {
		return labels.Nothing()
	}
	return labels.SelectorFromSet(labels.Set{labelJobSet: j.Labels[labelJobSet]})
}

// JobSetOwner describes the workload of a Job. All pods of a JobSet are one gang. The argument `siblings` has the Jobs of the
// JobSet that exist, this one included. Those that do not exist yet count as if they were like this one, so the gang waits
// for them.
func JobSetOwner(j *batchv1.Job, siblings []*batchv1.Job) *Owner {
	own := JobOwner(j)
	if !InJobSet(j) {
		return own
	}
	pods, left := 0, 0
	for _, other := range siblings {
		o := JobOwner(other)
		pods += o.Pods
		if !isComplete(other) {
			left += o.Left
		}
	}
	if all, err := strconv.Atoi(j.Labels[labelGlobalReplicas]); err == nil && all > len(siblings) {
		pods += (all - len(siblings)) * own.Pods
		left += (all - len(siblings)) * own.Pods
	}
	return &Owner{UID: j.Labels[labelJobSet], Name: j.Labels[labelJobSetName], Annotations: own.Annotations, Pods: max(pods, own.Pods), Left: max(left, 1), IsGang: true}
}

// isComplete reports whether a Job needs no more pods.
func isComplete(j *batchv1.Job) bool {
	return j.Spec.Completions != nil && j.Status.Succeeded >= *j.Spec.Completions
}

// ReplicasOwner describes a workload whose pods do the same work independently of each other, such as a Deployment.
func ReplicasOwner(o metav1.Object, replicas *int32) *Owner {
	pods := 1
	if replicas != nil {
		pods = int(*replicas)
	}
	return &Owner{UID: string(o.GetUID()), Name: o.GetName(), Annotations: o.GetAnnotations(), Pods: pods, Left: pods}
}
