package watch

import (
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/annotations"
)

// JobOwner describes a Job. The pods of a Job with a parallelism above 1 are a gang.
func JobOwner(j *batchv1.Job) *Owner {
	pods := parallel(&j.Spec)
	left := pods
	if c := j.Spec.Completions; c != nil {
		left = min(pods, int(*c)-int(j.Status.Succeeded))
	}
	return &Owner{
		UID: string(j.UID), Name: j.Name, Annotations: j.Annotations, Pods: pods, Left: max(left, 1), IsGang: true,
		Totals: []int{pods * templateGPUs(&j.Spec.Template)},
	}
}

// parallel returns the number of pods of a Job that run at the same time.
func parallel(s *batchv1.JobSpec) int {
	pods := 1
	if s.Parallelism != nil {
		pods = int(*s.Parallelism)
	}
	if s.Completions != nil {
		pods = min(pods, int(*s.Completions))
	}
	return pods
}

// templateGPUs returns the GPUs of each pod that is made from a template.
func templateGPUs(t *v1.PodTemplateSpec) int { return gpus(&v1.Pod{Spec: t.Spec}) }

// MayUseGPUs reports whether a pod asks for GPUs in its limits, or for devices by claims, which are taken for GPUs here.
func MayUseGPUs(p *v1.Pod) bool { return UsesGPUs(p) || len(p.Spec.ResourceClaims) > 0 }

// templateMayUseGPUs is MayUseGPUs for the pods of a template. The admission policy may set the limits later, from an
// annotation.
func templateMayUseGPUs(t *v1.PodTemplateSpec) bool {
	return MayUseGPUs(&v1.Pod{Spec: t.Spec}) || t.Annotations[annotations.GPUCount] != ""
}

// ReplicasOwner describes a workload whose pods do the same work independently of each other, such as a Deployment.
func ReplicasOwner(o metav1.Object, replicas *int32) *Owner {
	pods := 1
	if replicas != nil {
		pods = int(*replicas)
	}
	return &Owner{UID: string(o.GetUID()), Name: o.GetName(), Annotations: o.GetAnnotations(), Pods: pods, Left: pods}
}
