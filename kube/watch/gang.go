package watch

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"

	ares "github.com/ares-scheduler/ares"
)

// Gang names the pods that are placed together. A pod that belongs to no gang is a gang of its own.
type Gang struct {
	Key  string // unique in the cluster
	Size int    // the number of pods that must be placed together at first
	// Total is the number of pods that divide the GPUs of a workload among them.
	Total int
	// Level is the level of the topology of which one domain must hold all pods of the gang, "" for none.
	Level ares.Level
	// Group is the PodGroup of Kubernetes itself that gives the size, or is empty.
	Group GroupRef
	// Source says where the size comes from, such as "PodGroup train: minCount is 4". It is "" if a Job or an annotation
	// gives the size.
	Source string
}

// Owner is what the planner needs to know of the workload that created a pod: a Job or its JobSet, a ReplicaSet
// or its Deployment, a StatefulSet.
type Owner struct {
	UID         string
	Name        string
	Annotations map[string]string
	// Pods is the number of pods that run at the same time.
	Pods int
	// Left is the number of them that are still needed. The pods of a Job that succeeded need no others beside them any more.
	Left int
	// IsGang is true if these pods are useful only together. The pods of a Job with a parallelism above 1 are; the
	// replicas of a Deployment are not.
	IsGang bool
	// Totals are the numbers of GPUs that the annotation gpu-count may give for the whole workload, apart from the GPUs of one
	// pod times Gang.Total. The pods of a JobSet or a LeaderWorkerSet may use different numbers.
	Totals []int
	// Group is the PodGroup that the pod names. It is nil if the pod names none or if the API server has no such kind.
	Group *Group
	// GangSize is the number of pods with GPUs that a LeaderWorkerSet starts together, 0 if unknown.
	GangSize int
}

// These labels and annotations name a gang.
const (
	labelPodGroup      = "scheduling.x-k8s.io/pod-group"
	labelKueueGroup    = "kueue.x-k8s.io/pod-group-name"
	annotationKueue    = "kueue.x-k8s.io/pod-group-total-count"
	annotationVolcano  = "scheduling.k8s.io/group-name"
	annotationGangSize = "ares.dev/gang-size"
)

// gang returns the gang of a pod, and why the pod cannot be placed, "" if it can. The first name of a gang that the pod has
// wins.
func gang(p *v1.Pod, owner *Owner) (Gang, string) {
	if owner == nil {
		owner = &Owner{}
	}
	named := func(kind, name string, size int, problem string) (Gang, string) {
		return Gang{Key: kind + ":" + p.Namespace + "/" + name, Size: size, Total: size}, problem
	}
	if ref, has := GroupOf(p); has {
		return gangOfGroup(p, ref, owner)
	}
	switch {
	case p.Labels[labelKueueGroup] != "":
		size, problem := count(p, annotationKueue)
		return named("kueue", p.Labels[labelKueueGroup], size, problem)
	case p.Labels[labelLWSGroup] != "":
		size, problem := count(p, annotationLWSSize)
		g, problem := named("lws", p.Labels[labelLWSGroup], size, problem)
		if owner.GangSize > 0 {
			g.Size = owner.GangSize
		}
		return g, problem
	case owner.IsGang && owner.Pods > 1:
		return Gang{Key: "owner:" + owner.UID, Size: owner.Left, Total: owner.Pods}, ""
	}
	return single(p, owner.Pods), ""
}

// single returns the gang of a pod that is placed by itself. The argument `whole` is the number of pods of its workload.
func single(p *v1.Pod, whole int) Gang {
	return Gang{Key: "pod:" + string(p.UID), Size: 1, Total: max(whole, 1)}
}

// count reads an annotation with a number of pods. Without a number nobody knows when the gang is complete, so a pod
// without it waits.
func count(p *v1.Pod, key string) (n int, problem string) {
	text := p.Annotations[key]
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= ares.MaxMembers {
		return n, ""
	}
	return 1, fmt.Sprintf("%s: %q is not a number of pods: write how many pods the gang has, from 1 to %d", key, ares.Clip(text), ares.MaxMembers)
}
