package watch

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	ares "github.com/ares-scheduler/ares"
)

// GroupAPI is the API group of a kind PodGroup. There are three such kinds, which differ in how a pod names its group.
type GroupAPI string

// The kinds of PodGroups: of Kubernetes itself, of the scheduler plugins of SIG Scheduling, and of Volcano.
const (
	KubernetesGroups GroupAPI = "scheduling.k8s.io"
	PluginGroups     GroupAPI = "scheduling.x-k8s.io"
	VolcanoGroups    GroupAPI = "scheduling.volcano.sh"
)

// GroupRef names a PodGroup.
type GroupRef struct {
	API             GroupAPI
	Namespace, Name string
}

// GroupOf returns the PodGroup that a pod names, or false if it names none.
func GroupOf(p *v1.Pod) (GroupRef, bool) {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil && *g.PodGroupName != "" {
		return GroupRef{KubernetesGroups, p.Namespace, *g.PodGroupName}, true
	}
	if name := p.Labels[labelPodGroup]; name != "" {
		return GroupRef{PluginGroups, p.Namespace, name}, true
	}
	if name := p.Annotations[annotationVolcano]; name != "" && p.Labels[labelKueueGroup] == "" {
		return GroupRef{VolcanoGroups, p.Namespace, name}, true
	}
	return GroupRef{}, false
}

// Group is what a PodGroup says of its pods.
type Group struct {
	// Missing is true if the API server has this kind of PodGroups, but none of this name.
	Missing     bool
	Annotations map[string]string
	// MinCount is the number of pods that are placed together at first, 0 if the pods are placed independently.
	MinCount int
	// Level is the level of the topology of which one domain must hold all pods of the group, "" for none.
	Level ares.Level
	// WithoutGPUs is the number of its pods that use no GPUs. MinCount counts them, but nothing waits for them.
	WithoutGPUs int
	// Problem says why the pods of the group cannot be placed, "" if they can.
	Problem string
}

// TranslateGroup returns what a PodGroup says.
func TranslateGroup(api GroupAPI, o *unstructured.Unstructured) *Group {
	g := &Group{Annotations: o.GetAnnotations()}
	if api != KubernetesGroups {
		g.MinCount = max(number(o, "spec", "minMember"), 1)
		return g
	}
	g.MinCount = number(o, "spec", "schedulingPolicy", "gang", "minCount")
	key := topologyKey(o)
	if key == "" {
		return g
	}
	known := false
	switch g.Level, known = levelOf(key); {
	case !known:
		g.Problem = fmt.Sprintf("PodGroup %s: no level of the topology has the key %q: write %s", o.GetName(), ares.Clip(key), strings.Join(levelKeys(), ", "))
	case g.MinCount == 0:
		g.Problem = fmt.Sprintf("PodGroup %s: only a gang can be kept in one domain: write schedulingPolicy.gang.minCount, or remove schedulingConstraints", o.GetName())
	}
	return g
}

// number returns an integer field of an object, or 0.
func number(o *unstructured.Unstructured, path ...string) int {
	n, found, err := unstructured.NestedInt64(o.Object, path...)
	if err != nil || !found || n < 0 {
		return 0
	}
	return int(n)
}

// topologyKey returns the key of a PodGroup's topology constraint, "" if it has none. The API allows one at most.
func topologyKey(o *unstructured.Unstructured) string {
	list, _, err := unstructured.NestedSlice(o.Object, "spec", "schedulingConstraints", "topology")
	if err != nil || len(list) == 0 {
		return ""
	}
	constraint, isMap := list[0].(map[string]any)
	if !isMap {
		return ""
	}
	key, _, err := unstructured.NestedString(constraint, "key")
	if err != nil {
		return ""
	}
	return key
}

// levelOf returns the level of the topology whose domains the label of a node names.
func levelOf(key string) (ares.Level, bool) {
	for _, p := range places {
		for _, label := range p.labels {
			if label == key {
				return p.level, true
			}
		}
	}
	return ares.LevelNode, key == v1.LabelHostname
}

// levelKeys returns the first label of each level, the narrowest level first.
func levelKeys() []string {
	out := []string{v1.LabelHostname}
	for i := len(places) - 1; i >= 0; i-- {
		out = append(out, places[i].labels[0])
	}
	return out
}

// gangOfGroup returns the gang of a pod that names a PodGroup. The annotation ares.dev/gang-size takes the place of an
// object that does not exist, except for the PodGroups of Kubernetes itself.
func gangOfGroup(p *v1.Pod, ref GroupRef, owner *Owner) (Gang, string) {
	g := owner.Group
	gang := Gang{Key: "podgroup:" + string(ref.API) + "/" + ref.Namespace + "/" + ref.Name, Size: 1, Total: 1}
	field := "minMember"
	if ref.API == KubernetesGroups {
		field = "minCount"
	}
	if g != nil && !g.Missing {
		if g.MinCount == 0 {
			return single(p, owner.Pods), g.Problem
		}
		ended := owner.Pods - owner.Left // pods of its Job that succeeded, for which nothing waits
		gang.Size, gang.Total, gang.Level = max(g.MinCount-g.WithoutGPUs-ended, 1), max(g.MinCount, 1), g.Level
		if ref.API == KubernetesGroups {
			gang.Group = ref
		}
		gang.Source = fmt.Sprintf("PodGroup %s: %s is %d", ref.Name, field, g.MinCount)
		return gang, g.Problem
	}
	if ref.API == KubernetesGroups {
		if g == nil {
			return gang, fmt.Sprintf("PodGroup %s: this API server has no PodGroups: enable the API scheduling.k8s.io/v1beta1, or remove spec.schedulingGroup", ref.Name)
		}
		return gang, fmt.Sprintf("PodGroup %s does not exist in the namespace %s: create it, or remove spec.schedulingGroup", ref.Name, ref.Namespace)
	}
	if p.Annotations[annotationGangSize] == "" {
		return gang, fmt.Sprintf("PodGroup %s does not exist in the namespace %s: create it, or write the number of its pods into the annotation %s of each pod", ref.Name, ref.Namespace, annotationGangSize)
	}
	size, problem := count(p, annotationGangSize)
	gang.Size, gang.Total = size, size
	return gang, problem
}
