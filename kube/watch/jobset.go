package watch

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ares-scheduler/ares/kube/annotations"
)

// The JobSet controller writes these labels into the Jobs and pods of a JobSet.
const (
	labelJobSet         = "jobset.sigs.k8s.io/jobset-uid"
	labelJobSetName     = "jobset.sigs.k8s.io/jobset-name"
	labelGlobalReplicas = "jobset.sigs.k8s.io/global-replicas" // the number of Jobs of the JobSet
	labelReplicatedJob  = "jobset.sigs.k8s.io/replicatedjob-name"
	// With annotationJobExclusive, the first pod of a Job chooses the domain of the Job, and the others are created when it has
	// a node. With annotationJobSelector as well, labels of nodes choose the domain, and all pods are created at once.
	annotationJobExclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	annotationJobSelector  = "alpha.jobset.sigs.k8s.io/node-selector"
)

// isLeaderFirst reports whether the pods of a Job are created only after its first one has a node.
func isLeaderFirst(j *batchv1.Job) bool {
	_, exclusive := j.Annotations[annotationJobExclusive]
	_, selector := j.Annotations[annotationJobSelector]
	return exclusive && !selector
}

// InJobSet reports whether a Job belongs to a JobSet.
func InJobSet(j *batchv1.Job) bool { return j.Labels[labelJobSet] != "" }

// SameJobSet selects the Jobs of the same JobSet, and none for a Job that belongs to no JobSet.
func SameJobSet(j *batchv1.Job) labels.Selector { return JobsOfSet(j.Labels[labelJobSet]) }

// JobsOfSet selects the Jobs of the JobSet with the given UID.
func JobsOfSet(uid string) labels.Selector {
	if uid == "" {
		return labels.Nothing()
	}
	return labels.SelectorFromSet(labels.Set{labelJobSet: uid})
}

// JobSet is what a JobSet says of its Jobs.
type JobSet struct {
	Annotations map[string]string
	// Ordered is true if some of its Jobs are created only when others are ready or complete. Then the Jobs do not wait for
	// each other, because the first ones would wait for ever.
	Ordered bool
	Jobs    []ReplicatedJob
}

// ReplicatedJob is a set of equal Jobs of a JobSet.
type ReplicatedJob struct {
	Name     string
	Replicas int
	Pods     int // of each Job, at the same time
	GPUs     int // of each pod, 0 if the limits do not say it
	UsesGPUs bool
}

// TranslateJobSet returns what a JobSet says.
func TranslateJobSet(o *unstructured.Unstructured) (*JobSet, error) {
	var read struct {
		Spec struct {
			StartupPolicy struct {
				Order string `json:"startupPolicyOrder"`
			} `json:"startupPolicy"`
			ReplicatedJobs []struct {
				Name      string                  `json:"name"`
				Replicas  *int32                  `json:"replicas"`
				Template  batchv1.JobTemplateSpec `json:"template"`
				DependsOn []struct {
					Name string `json:"name"`
				} `json:"dependsOn"`
			} `json:"replicatedJobs"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &read); err != nil {
		return nil, fmt.Errorf("JobSet %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	s := &JobSet{Annotations: o.GetAnnotations(), Ordered: read.Spec.StartupPolicy.Order == "InOrder"}
	for i := range read.Spec.ReplicatedJobs {
		r := &read.Spec.ReplicatedJobs[i]
		s.Ordered = s.Ordered || len(r.DependsOn) > 0
		job := ReplicatedJob{Name: r.Name, Replicas: 1, Pods: parallel(&r.Template.Spec), GPUs: templateGPUs(&r.Template.Spec.Template)}
		if r.Replicas != nil {
			job.Replicas = int(*r.Replicas)
		}
		// The admission policy writes the limits into the Jobs, not into the JobSet.
		job.UsesGPUs = templateMayUseGPUs(&r.Template.Spec.Template) || r.Template.Annotations[annotations.GPUCount] != ""
		s.Jobs = append(s.Jobs, job)
	}
	return s, nil
}

// JobSetOwner describes the workload of a Job. All pods with GPUs of a JobSet are one gang. If the JobSet starts its Jobs in
// an order, the Jobs of the same name are. If the first pod of a Job chooses its domain, that pod waits for no other. The
// argument `siblings` has the Jobs of the JobSet that exist, this one
// included. The gang waits for those that do not exist yet. The argument `set` is nil if nobody knows the JobSet. Then
// each missing Job counts as if it were like this one.
func JobSetOwner(j *batchv1.Job, siblings []*batchv1.Job, set *JobSet) *Owner {
	own := JobOwner(j)
	if !InJobSet(j) {
		return own
	}
	out := &Owner{UID: j.Labels[labelJobSet], Name: j.Labels[labelJobSetName], Annotations: own.Annotations, IsGang: true, Totals: own.Totals}
	total := 0 // GPUs of the whole JobSet
	exist, useGPUs := map[string]int{}, map[string]bool{}
	inGang := func(name string) bool {
		return set == nil || !set.Ordered || name == j.Labels[labelReplicatedJob]
	}
	for _, other := range siblings {
		name, each, o := other.Labels[labelReplicatedJob], templateGPUs(&other.Spec.Template), JobOwner(other)
		exist[name]++
		useGPUs[name] = templateMayUseGPUs(&other.Spec.Template)
		total += o.Pods * each
		if !useGPUs[name] || !inGang(name) {
			continue
		}
		out.Pods += o.Pods
		if !isComplete(other) {
			out.Left += o.Left
		}
	}
	if set == nil {
		if all, err := strconv.Atoi(j.Labels[labelGlobalReplicas]); err == nil && all > len(siblings) {
			out.Pods += (all - len(siblings)) * own.Pods
			out.Left += (all - len(siblings)) * own.Pods
		}
	} else {
		out.Annotations = overlaid(set.Annotations, own.Annotations)
		if set.Ordered {
			out.UID += "/" + j.Labels[labelReplicatedJob]
		}
		for _, r := range set.Jobs {
			missing := max(r.Replicas-exist[r.Name], 0)
			total += missing * r.Pods * r.GPUs
			if inGang(r.Name) && (r.UsesGPUs || useGPUs[r.Name]) {
				out.Pods += missing * r.Pods
				out.Left += missing * r.Pods
			}
		}
	}
	out.Totals = append(out.Totals, total)
	out.Pods, out.Left = max(out.Pods, own.Pods), max(out.Left, 1)
	if isLeaderFirst(j) {
		out.UID, out.Pods, out.Left = string(j.UID), own.Pods, 1
	}
	return out
}

// isComplete reports whether a Job needs no more pods.
func isComplete(j *batchv1.Job) bool {
	return j.Spec.Completions != nil && j.Status.Succeeded >= *j.Spec.Completions
}
