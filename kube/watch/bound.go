package watch

import (
	"encoding/json"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// The binding of a pod writes these annotations into the pod, in the same write.
const (
	AnnotationDevices = "ares.dev/devices" // indexes of the planned GPUs, such as 0,1, or the IDs of those that are claimed
	AnnotationFence   = "ares.dev/fence"   // the number of the plan
	AnnotationDomain  = "ares.dev/domain"  // the narrowest domain that holds the whole gang, such as leaf/leaf-1
	AnnotationScore   = "ares.dev/score"
	// AnnotationGang is the plan of a whole gang. Only its rank 0 has it, which is bound first. A scheduler that starts
	// while the gang is half bound places the other ranks as planned.
	AnnotationGang = "ares.dev/gang-plan"
)

// MaxGangPlanBytes limits AnnotationGang. A larger gang has no such annotation.
const MaxGangPlanBytes = 64 << 10

// Bound is what a binding wrote into a pod.
type Bound struct {
	Fence   int64
	Devices []int
	IDs     []string     // of devices of pools, whose indexes may be others in the next process
	Gang    []PlannedPod // only for rank 0 of a gang
}

// PlannedPod is the plan of one pod of a gang.
type PlannedPod struct {
	Pod     string   `json:"pod"` // its name; the namespace is that of the gang
	UID     string   `json:"uid"`
	Rank    int      `json:"rank"`
	Node    string   `json:"node"`
	Devices []int    `json:"devices,omitempty"`
	IDs     []string `json:"ids,omitempty"` // instead of indexes, for devices of pools
}

// FormatDevices returns the text of AnnotationDevices.
func FormatDevices(indexes []int) string {
	words := make([]string, len(indexes))
	for i, n := range indexes {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// FormatGang returns the text of AnnotationGang, or false if it would be too long.
func FormatGang(plan []PlannedPod) (string, bool) {
	text, err := json.Marshal(plan)
	return string(text), err == nil && len(text) <= MaxGangPlanBytes
}

// bound reads the annotations that a binding wrote. A user can write them too, so everything that is not as Ares writes
// it is ignored.
func bound(p *v1.Pod) Bound {
	fence, err := strconv.ParseInt(p.Annotations[AnnotationFence], 10, 64)
	if err != nil || fence <= 0 || p.Spec.NodeName == "" {
		return Bound{}
	}
	b := Bound{Fence: fence}
	for word := range strings.SplitSeq(p.Annotations[AnnotationDevices], ",") {
		if n, err := strconv.Atoi(word); err == nil && n >= 0 {
			b.Devices = append(b.Devices, n)
		} else if strings.Contains(word, "/") {
			b.IDs = append(b.IDs, word)
		}
	}
	if text := p.Annotations[AnnotationGang]; text != "" && len(text) <= MaxGangPlanBytes {
		if json.Unmarshal([]byte(text), &b.Gang) != nil {
			b.Gang = nil
		}
	}
	return b
}
