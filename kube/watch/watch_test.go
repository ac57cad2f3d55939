package watch_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func gpuPod(gpus string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "team-a", UID: "u1"},
		Spec: v1.PodSpec{SchedulerName: "topology-aware-scheduler", Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Limits: list("nvidia.com/gpu", gpus), Requests: list("cpu", "11500m", "memory", "100Mi")},
		}}},
	}
}

func TestNodeRecord(t *testing.T) {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{
			"topology.kubernetes.io/zone": "z1", "topology.scheduler/leaf": "leaf-1", "nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "81920",
			"leaf": "not this one",
		}},
		Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoExecute}, {Key: "p", Effect: v1.TaintEffectPreferNoSchedule}}},
		Status: v1.NodeStatus{
			Allocatable: list("nvidia.com/gpu", "8", "cpu", "95900m", "memory", "1Ti"),
			Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	got := watch.Node(n, watch.Resources{CPUMilli: 950, Memory: 1 << 30})
	if len(got.Devices) != 8 || got.Devices[7].Index != 7 || got.Devices[7].Model != "H100" || got.Devices[7].MemoryMB != 81920 {
		t.Errorf("devices: %+v", got.Devices)
	}
	if got.MilliCPUs() != 94_950 || got.MemoryMB != 1<<20-1024 {
		t.Errorf("%d thousandths of a CPU and %d MB are left, want 94950 and %d", got.MilliCPUs(), got.MemoryMB, 1<<20-1024)
	}
	if got.Labels["leaf"] != "leaf-1" || got.Labels["zone"] != "z1" || got.Labels["spine"] != "" {
		t.Errorf("labels: %v", got.Labels)
	}
	if want := []ares.Taint{{Key: "k", Value: "v", Effect: ares.NoSchedule}, {Key: "p", Effect: ares.PreferNoSchedule}}; !reflect.DeepEqual(got.Taints, want) {
		t.Errorf("taints: %v, want %v", got.Taints, want)
	}
	if !watch.IsReady(n) || !watch.HasGPUs(n) {
		t.Error("the node is ready and has GPUs")
	}
	n.Status.Conditions = nil
	if watch.IsReady(n) {
		t.Error("a node that never reported is ready")
	}
}

func TestRequestsOfAPod(t *testing.T) {
	p := gpuPod("2")
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Resources: v1.ResourceRequirements{Requests: list("cpu", "500m")}})
	always := v1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []v1.Container{
		{RestartPolicy: &always, Resources: v1.ResourceRequirements{Requests: list("cpu", "1")}},
		{Resources: v1.ResourceRequirements{Requests: list("cpu", "20")}},
	}
	if got := watch.Uses(p); got.CPUMilli != 21_000 { // the second init container beside the sidecar
		t.Errorf("%d thousandths of a CPU, want 21000", got.CPUMilli)
	}
	p.Spec.InitContainers[1].Resources.Requests = list("cpu", "1")
	if got := watch.Uses(p); got.CPUMilli != 13_000 { // all containers beside the sidecar
		t.Errorf("%d thousandths of a CPU, want 13000", got.CPUMilli)
	}
	if !watch.UsesGPUs(p) || watch.UsesGPUs(&v1.Pod{}) {
		t.Error("UsesGPUs is wrong")
	}
}

func TestTranslatePod(t *testing.T) {
	p := gpuPod("4")
	p.Annotations = map[string]string{"topology.scheduler/placement-strategy": "consolidated"}
	p.Spec.NodeSelector = map[string]string{"pool": "a"}
	p.Spec.Tolerations = []v1.Toleration{
		{Operator: v1.TolerationOpExists},
		{Key: "a", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
		{Key: "b", Value: "c"},
	}
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "gen", Operator: v1.NodeSelectorOpGt, Values: []string{"3"}}},
			MatchFields:      []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}},
		}},
	}}}
	owner := &watch.Owner{UID: "job", Annotations: map[string]string{"topology.scheduler/gpu-count": "16"}, Pods: 4, Left: 4, IsGang: true}
	got := watch.TranslatePod(p, owner, map[string]string{"ares.dev/tenant": "research"})
	if got.Problem != "" {
		t.Fatal(got.Problem)
	}
	if got.Gang != (watch.Gang{Key: "owner:job", Size: 4, Total: 4}) {
		t.Errorf("gang: %+v", got.Gang)
	}
	where := got.Spec.Placement()
	if got.Spec.Tenant != "research" || got.GPUs != 4 || where.Strategy != "consolidated" {
		t.Errorf("spec: %+v", got.Spec)
	}
	if want := []string{"*", "a:NoSchedule", "b=c"}; !reflect.DeepEqual(where.Tolerations, want) {
		t.Errorf("tolerations: %v, want %v", where.Tolerations, want)
	}
	if want := (ares.NodeRequirements{{Key: "gen", Operator: ">=", Values: []string{"4"}}, {Key: "node.name", Operator: "In", Values: []string{"n1"}}}); !reflect.DeepEqual(where.NodeRequirements, want) {
		t.Errorf("requirements: %v, want %v", where.NodeRequirements, want)
	}
	owner.Annotations["topology.scheduler/gpu-count"] = "7"
	if bad := watch.TranslatePod(p, owner, nil); !strings.Contains(bad.Problem, "gpu-count") || bad.Spec.Tenant != "team-a" {
		t.Errorf("problem %q, tenant %q", bad.Problem, bad.Spec.Tenant)
	}
}

func TestReplicasAreSpread(t *testing.T) {
	p := gpuPod("1")
	p.Annotations = map[string]string{"topology.scheduler/latency-sensitive": "true"}
	got := watch.TranslatePod(p, &watch.Owner{UID: "d1", Pods: 3, Left: 3}, nil)
	if want := []string{"ares.dev/owner=d1"}; !reflect.DeepEqual(got.Spec.Placement().PreferredAntiAffinity, want) || got.Spec.Labels["ares.dev/owner"] != "d1" {
		t.Errorf("anti-affinity %v, labels %v", got.Spec.Placement().PreferredAntiAffinity, got.Spec.Labels)
	}
	if got.Gang.Size != 1 {
		t.Errorf("replicas of a Deployment are a gang of %d", got.Gang.Size)
	}
}

func TestPriorities(t *testing.T) {
	last := -1
	for _, c := range []struct {
		priority int32
		class    ares.Class
	}{{-5, ares.Low}, {0, ares.Normal}, {999, ares.Normal}, {1000, ares.High}, {999_999, ares.High}, {1_000_000, ares.Critical}, {2_000_000_000, ares.Critical}} {
		p := gpuPod("1")
		p.Spec.Priority = &c.priority
		got := watch.TranslatePod(p, nil, nil).Spec
		if got.PriorityClass != c.class || *got.Priority <= last || *got.Priority > ares.MaxPriority {
			t.Errorf("priority %d: %s %d after %d, want %s", c.priority, got.PriorityClass, *got.Priority, last, c.class)
		}
		last = *got.Priority
	}
}

func TestBoundPod(t *testing.T) {
	p := gpuPod("2")
	text, ok := watch.FormatGang([]watch.PlannedPod{{Pod: "p", UID: "u1", Node: "n1", Devices: []int{0, 1}}})
	if !ok {
		t.Fatal("a plan of one pod is too long")
	}
	p.Annotations = map[string]string{watch.AnnotationFence: "7", watch.AnnotationDevices: watch.FormatDevices([]int{0, 1}), watch.AnnotationGang: text}
	if got := watch.TranslatePod(p, nil, nil).Plan; got.Fence != 0 {
		t.Errorf("a pod that is not bound has the plan %+v", got)
	}
	p.Spec.NodeName = "n1"
	got := watch.TranslatePod(p, nil, nil).Plan
	if got.Fence != 7 || !reflect.DeepEqual(got.Devices, []int{0, 1}) || len(got.Gang) != 1 || got.Gang[0].Node != "n1" {
		t.Errorf("plan: %+v", got)
	}
	p.Annotations[watch.AnnotationFence] = "-1"
	p.Annotations[watch.AnnotationGang] = "{"
	if got := watch.TranslatePod(p, nil, nil).Plan; got.Fence != 0 || got.Gang != nil {
		t.Errorf("a plan that Ares did not write is taken: %+v", got)
	}
	if _, ok := watch.FormatGang(make([]watch.PlannedPod, 10_000)); ok {
		t.Error("the plan of a huge gang fits into an annotation")
	}
}

func TestGangOfAJob(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: types.UID("j1")}}
	if o := watch.JobOwner(j); o.Pods != 1 {
		t.Errorf("%d pods, want 1", o.Pods)
	}
	j.Spec.Parallelism, j.Spec.Completions = new(int32(8)), new(int32(6))
	if o := watch.JobOwner(j); o.Pods != 6 || o.Left != 6 || !o.IsGang {
		t.Errorf("%+v, want a gang of 6 pods", o)
	}
	// A pod of a half-bound gang may succeed while no scheduler runs. The rest must not wait for it.
	j.Status.Succeeded = 5
	if o := watch.JobOwner(j); o.Pods != 6 || o.Left != 1 {
		t.Errorf("%+v, want one of 6 pods left", o)
	}
	if got := watch.TranslatePod(gpuPod("1"), watch.JobOwner(j), nil).Gang; got != (watch.Gang{Key: "owner:j1", Size: 1, Total: 6}) {
		t.Errorf("gang with one pod left: %+v", got)
	}
	p := gpuPod("1")
	p.Labels = map[string]string{"leaderworkerset.sigs.k8s.io/group-key": "abc"}
	p.Annotations = map[string]string{"leaderworkerset.sigs.k8s.io/size": "3"}
	if got := watch.TranslatePod(p, nil, nil).Gang; got != (watch.Gang{Key: "lws:team-a/abc", Size: 3, Total: 3}) {
		t.Errorf("gang of a LeaderWorkerSet: %+v", got)
	}
}

// TestResults checks how the end of a pod is read: a program that fails, a node that fails and a pod that is stopped are
// different things.
func TestResults(t *testing.T) {
	began := metav1.NewTime(time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC))
	ended := metav1.NewTime(began.Add(time.Hour))
	condition := func(reason string) []v1.PodCondition {
		return []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason}}
	}
	for name, c := range map[string]struct {
		phase   v1.PodPhase
		reason  string
		target  []v1.PodCondition
		deleted bool
		want    ares.Outcome
	}{
		"runs":               {phase: v1.PodRunning},
		"succeeded":          {phase: v1.PodSucceeded, want: ares.OutcomeSucceeded},
		"failed":             {phase: v1.PodFailed, want: ares.OutcomeFailed},
		"over its deadline":  {phase: v1.PodFailed, reason: "DeadlineExceeded", want: ares.OutcomeTimeout},
		"no devices":         {phase: v1.PodFailed, reason: "UnexpectedAdmissionError", want: ares.OutcomeLost},
		"its node is silent": {phase: v1.PodFailed, target: condition("DeletionByTaintManager"), deleted: true, want: ares.OutcomeLost},
		"evicted":            {phase: v1.PodFailed, target: condition("EvictionByEvictionAPI"), deleted: true, want: ares.OutcomeStopped},
		"deleted":            {phase: v1.PodFailed, deleted: true, want: ares.OutcomeStopped},
	} {
		p := gpuPod("1")
		p.Status = v1.PodStatus{Phase: c.phase, Reason: c.reason, Conditions: c.target, ContainerStatuses: []v1.ContainerStatus{{
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, StartedAt: began, FinishedAt: ended}},
		}}}
		if c.deleted {
			p.DeletionTimestamp = &ended
		}
		got := watch.TranslatePod(p, nil, nil)
		switch {
		case c.want == "":
			if got.Result != nil {
				t.Errorf("%s: the result is %+v, want none", name, got.Result)
			}
		case got.Result == nil || got.Result.Outcome != c.want || got.Result.ExitCode != 3 || !got.Result.EndedAt.Equal(ended.Time):
			t.Errorf("%s: the result is %+v, want %s", name, got.Result, c.want)
		}
		if !got.Started.Equal(began.Time) {
			t.Errorf("%s: it started at %s", name, got.Started)
		}
	}
}
