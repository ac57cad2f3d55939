package watch_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// object reads an object that is written as YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	json, err := yaml.ToJSON([]byte("---\n" + text)) // or braces would be taken for JSON
	if err == nil {
		err = o.UnmarshalJSON(json)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestPodGroupObjects(t *testing.T) {
	native := func(spec string) string {
		return "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: train}, spec: {" + spec + "}}"
	}
	for _, c := range []struct {
		api     watch.GroupAPI
		text    string
		count   int
		level   ares.Level
		problem string
	}{
		{watch.KubernetesGroups, native("schedulingPolicy: {gang: {minCount: 4}}"), 4, "", ""},
		{watch.KubernetesGroups, native("schedulingPolicy: {basic: {}}"), 0, "", ""},
		{watch.KubernetesGroups, native("schedulingPolicy: {gang: {minCount: 4}}, schedulingConstraints: {topology: [{key: topology.scheduler/leaf}]}"), 4, ares.LevelLeaf, ""},
		{watch.KubernetesGroups, native("schedulingPolicy: {gang: {minCount: 4}}, schedulingConstraints: {topology: [{key: network.topology.nvidia.com/spine}]}"), 4, ares.LevelSpine, ""},
		{watch.KubernetesGroups, native("schedulingPolicy: {gang: {minCount: 4}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}"), 4, ares.LevelZone, ""},
		{watch.KubernetesGroups, native("schedulingPolicy: {gang: {minCount: 4}}, schedulingConstraints: {topology: [{key: kubernetes.io/hostname}]}"), 4, ares.LevelNode, ""},
		{watch.KubernetesGroups, native("schedulingPolicy: {gang: {minCount: 4}}, schedulingConstraints: {topology: [{key: rack}]}"), 4, ares.LevelNode, `PodGroup train: no level of the topology has the key "rack": write kubernetes.io/hostname, topology.scheduler/leaf, topology.scheduler/spine, `},
		{watch.KubernetesGroups, native("schedulingPolicy: {basic: {}}, schedulingConstraints: {topology: [{key: topology.scheduler/leaf}]}"), 0, ares.LevelLeaf, "PodGroup train: only a gang can be kept in one domain: write schedulingPolicy.gang.minCount"},
		{watch.PluginGroups, "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, spec: {minMember: 3}}", 3, "", ""},
		{watch.VolcanoGroups, "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {}}", 1, "", ""},
	} {
		got := watch.TranslateGroup(c.api, object(t, c.text))
		if got.MinCount != c.count || got.Level != c.level || !strings.HasPrefix(got.Problem, c.problem) || (c.problem == "") != (got.Problem == "") {
			t.Errorf("%s: %+v, want %d %s %q", c.text, got, c.count, c.level, c.problem)
		}
	}
}

func TestGangOfAPodGroup(t *testing.T) {
	in := func(api watch.GroupAPI) *v1.Pod {
		p := gpuPod("2")
		p.Labels, p.Annotations = map[string]string{}, map[string]string{}
		name := "train"
		switch api {
		case watch.KubernetesGroups:
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		case watch.PluginGroups:
			p.Labels["scheduling.x-k8s.io/pod-group"] = name
		case watch.VolcanoGroups:
			p.Annotations["scheduling.k8s.io/group-name"] = name
		}
		return p
	}
	sized := func(p *v1.Pod, size string) *v1.Pod { p.Annotations["ares.dev/gang-size"] = size; return p }
	for _, c := range []struct {
		name    string
		pod     *v1.Pod
		group   *watch.Group
		size    int
		problem string
	}{
		{"minCount", in(watch.KubernetesGroups), &watch.Group{MinCount: 4, Level: ares.LevelLeaf}, 4, ""},
		{"a pod without GPUs counts", in(watch.KubernetesGroups), &watch.Group{MinCount: 4, WithoutGPUs: 1}, 3, ""},
		{"not a gang", in(watch.KubernetesGroups), &watch.Group{}, 1, ""},
		{"problem", in(watch.KubernetesGroups), &watch.Group{MinCount: 4, Problem: "it is wrong"}, 4, "it is wrong"},
		{"missing", in(watch.KubernetesGroups), &watch.Group{Missing: true}, 1, "PodGroup train does not exist in the namespace team-a: create it, or remove spec.schedulingGroup"},
		{"no such API", in(watch.KubernetesGroups), nil, 1, "PodGroup train: this API server has no PodGroups: enable the API scheduling.k8s.io/v1beta1, or remove spec.schedulingGroup"},
		{"minMember", in(watch.PluginGroups), &watch.Group{MinCount: 4}, 4, ""},
		{"the object wins", sized(in(watch.PluginGroups), "2"), &watch.Group{MinCount: 4}, 4, ""},
		{"annotation", sized(in(watch.PluginGroups), "2"), &watch.Group{Missing: true}, 2, ""},
		{"annotation without the kind", sized(in(watch.VolcanoGroups), "2"), nil, 2, ""},
		{"neither", in(watch.VolcanoGroups), nil, 1, "PodGroup train does not exist in the namespace team-a: create it, or write the number of its pods into the annotation ares.dev/gang-size of each pod"},
		{"wrong annotation", sized(in(watch.PluginGroups), "0"), nil, 1, `ares.dev/gang-size: "0" is not a number of pods: write how many pods the gang has, from 1 to 2048`},
	} {
		got := watch.TranslatePod(c.pod, &watch.Owner{Group: c.group}, nil)
		if got.Gang.Size != c.size || got.Problem != c.problem {
			t.Errorf("%s: size %d and problem %q, want %d and %q", c.name, got.Gang.Size, got.Problem, c.size, c.problem)
		}
		if c.group != nil && got.Problem == "" && ares.Level(got.Spec.Placement().RequiredLevel) != c.group.Level {
			t.Errorf("%s: required level %q, want %q", c.name, got.Spec.Placement().RequiredLevel, c.group.Level)
		}
	}
	// A pod that replaces the last of a Job does not wait for those that succeeded.
	last := watch.TranslatePod(in(watch.KubernetesGroups), &watch.Owner{Pods: 4, Left: 1, IsGang: true, Group: &watch.Group{MinCount: 4}}, nil)
	if last.Gang.Size != 1 || last.Gang.Total != 4 {
		t.Errorf("gang with one pod left: %+v", last.Gang)
	}
	// The annotations of the group are the last that count.
	group := &watch.Group{MinCount: 2, Annotations: map[string]string{"topology.scheduler/placement-strategy": "consolidated", "topology.scheduler/latency-sensitive": "true"}}
	owner := &watch.Owner{Group: group, Annotations: map[string]string{"topology.scheduler/placement-strategy": "distributed"}}
	if got := watch.TranslatePod(in(watch.KubernetesGroups), owner, nil).Spec.Placement(); got.Strategy != "distributed" || !got.LatencySensitive {
		t.Errorf("placement: %+v", got)
	}
	if group.Annotations["topology.scheduler/placement-strategy"] != "consolidated" {
		t.Error("the annotations of the group were changed")
	}
}

// The GPUs that gpu-count gives may be those of one pod, of the Job, or of the PodGroup.
func TestGPUCountOfAGroup(t *testing.T) {
	p, name := gpuPod("2"), "train"
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	for count, valid := range map[string]bool{"2": true, "8": true, "12": true, "10": false} {
		p.Annotations = map[string]string{"topology.scheduler/gpu-count": count}
		got := watch.TranslatePod(p, &watch.Owner{Pods: 6, Left: 6, IsGang: true, Totals: []int{12}, Group: &watch.Group{MinCount: 4}}, nil)
		if (got.Problem == "") != valid {
			t.Errorf("gpu-count %s: problem %q", count, got.Problem)
		}
	}
}
