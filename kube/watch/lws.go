package watch

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The controller of LeaderWorkerSets writes these labels and annotations into the pods of a LeaderWorkerSet. A leader and
// its workers are a group, and each group is a gang.
const (
	labelLWSName      = "leaderworkerset.sigs.k8s.io/name"
	labelLWSGroup     = "leaderworkerset.sigs.k8s.io/group-key"
	labelLWSIndex     = "leaderworkerset.sigs.k8s.io/worker-index" // 0 for the leader
	annotationLWSSize = "leaderworkerset.sigs.k8s.io/size"
	// annotationExclusive is an annotation of a LeaderWorkerSet. Its workers are created when their leader has a node.
	annotationExclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
)

// LeaderWorkerSetOf returns the name of the LeaderWorkerSet that a pod belongs to, "" if it belongs to none.
func LeaderWorkerSetOf(p *v1.Pod) string {
	if p.Labels[labelLWSGroup] == "" {
		return ""
	}
	return p.Labels[labelLWSName]
}

// LeaderWorkerSet is what a LeaderWorkerSet says of its pods.
type LeaderWorkerSet struct {
	UID         string
	Name        string
	Annotations map[string]string
	// LeaderFirst is true if the workers are created only after their leader has a node. Then the leader does not wait for
	// them.
	LeaderFirst bool
	// LeaderGPUs and WorkerGPUs are the GPUs of one pod, as the limits of the templates say.
	LeaderGPUs, WorkerGPUs int
	// LeaderUsesGPUs and WorkersUseGPUs are true also if an annotation or claims give the GPUs.
	LeaderUsesGPUs, WorkersUseGPUs bool
}

// TranslateLeaderWorkerSet returns what a LeaderWorkerSet says.
func TranslateLeaderWorkerSet(o *unstructured.Unstructured) (*LeaderWorkerSet, error) {
	var read struct {
		Spec struct {
			StartupPolicy string `json:"startupPolicy"`
			Template      struct {
				Leader *v1.PodTemplateSpec `json:"leaderTemplate"`
				Worker v1.PodTemplateSpec  `json:"workerTemplate"`
			} `json:"leaderWorkerTemplate"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &read); err != nil {
		return nil, fmt.Errorf("LeaderWorkerSet %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	worker, leader := &read.Spec.Template.Worker, read.Spec.Template.Leader
	if leader == nil {
		leader = worker
	}
	return &LeaderWorkerSet{
		UID:         string(o.GetUID()),
		Name:        o.GetName(),
		Annotations: o.GetAnnotations(),
		LeaderFirst: read.Spec.StartupPolicy == "LeaderReady" || o.GetAnnotations()[annotationExclusive] != "",
		LeaderGPUs:  templateGPUs(leader), WorkerGPUs: templateGPUs(worker),
		LeaderUsesGPUs: templateMayUseGPUs(leader), WorkersUseGPUs: templateMayUseGPUs(worker),
	}, nil
}

// LeaderWorkerSetOwner describes the workload of a pod with GPUs of a LeaderWorkerSet.
func LeaderWorkerSetOwner(p *v1.Pod, s *LeaderWorkerSet) *Owner {
	size, err := strconv.Atoi(p.Annotations[annotationLWSSize])
	if err != nil || size < 1 {
		size = 1
	}
	isLeader := p.Labels[labelLWSIndex] == "0"
	workers, leaders := 0, 0 // pods with GPUs
	if s.WorkersUseGPUs || !isLeader {
		workers = size - 1
	}
	if s.LeaderUsesGPUs || isLeader {
		leaders = 1
	}
	together := leaders + workers
	if s.LeaderFirst && isLeader {
		together = 1
	}
	return &Owner{
		UID: s.UID, Name: s.Name, Annotations: s.Annotations, Pods: size, Left: size, IsGang: true, GangSize: max(together, 1),
		Totals: []int{s.LeaderGPUs + (size-1)*s.WorkerGPUs},
	}
}
