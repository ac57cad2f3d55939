package watch

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Gang names the pods that are placed together. A pod that belongs to no gang is a gang of its own.
type Gang struct {
	Key  string // unique in the cluster
	Size int    // the number of pods that must be placed together at first
	// Total is the number of pods that divide the GPUs of a workload among them.
	Total int
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
}

// These labels and annotations name a gang.
const (
	labelLWSGroup      = "leaderworkerset.sigs.k8s.io/group-key"
	annotationLWSSize  = "leaderworkerset.sigs.k8s.io/size"
	labelPodGroup      = "scheduling.x-k8s.io/pod-group"
	labelKueueGroup    = "kueue.x-k8s.io/pod-group-name"
	annotationKueue    = "kueue.x-k8s.io/pod-group-total-count"
	annotationVolcano  = "scheduling.k8s.io/group-name"
	annotationMinCount = "ares.dev/gang-size"
)

// gang returns the gang of a pod. The first name of a gang that the pod has wins.
func gang(p *v1.Pod, owner *Owner) Gang {
	total := 1
	if owner != nil {
		total = max(owner.Pods, 1)
	}
	count := func(key string) int {
		n, err := strconv.Atoi(p.Annotations[key])
		if err != nil || n < 1 {
			return 1
		}
		return n
	}
	named := func(kind, name string, size int) Gang {
		return Gang{Key: kind + ":" + p.Namespace + "/" + name, Size: size, Total: max(size, 1)}
	}
	switch {
	case p.Labels[labelLWSGroup] != "":
		return named("lws", p.Labels[labelLWSGroup], count(annotationLWSSize))
	case p.Labels[labelPodGroup] != "":
		return named("podgroup", p.Labels[labelPodGroup], count(annotationMinCount))
	case p.Labels[labelKueueGroup] != "":
		return named("kueue", p.Labels[labelKueueGroup], count(annotationKueue))
	case p.Annotations[annotationVolcano] != "":
		return named("volcano", p.Annotations[annotationVolcano], count(annotationMinCount))
	case owner != nil && owner.IsGang && owner.Pods > 1:
		return Gang{Key: "owner:" + owner.UID, Size: owner.Left, Total: total}
	}
	return Gang{Key: "pod:" + string(p.UID), Size: 1, Total: total}
}
