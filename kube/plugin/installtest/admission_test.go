package installtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ares-scheduler/ares/kube/annotations"
	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// A workload is an object for the admission policies.
type workload struct {
	kind      string // Job if empty
	own       string // annotations as "gpu-count=8 placement-strategy=balanced"
	template  string // annotations of the pod template
	limit     int    // GPU limit of the first container
	other     string // another resource with a limit of 1 in the first container
	pods      int    // parallelism or replicas, 1 if 0
	scheduler string
	pod       map[string]any // more fields of the pod's spec
	meta      map[string]any // more fields of the metadata
}

func (w workload) object() *unstructured.Unstructured {
	container := map[string]any{"name": "first", "image": "x"}
	limits := map[string]any{}
	if w.limit > 0 {
		limits["nvidia.com/gpu"] = fmt.Sprint(w.limit)
	}
	if w.other != "" {
		limits[w.other] = "1"
	}
	if len(limits) > 0 {
		container["resources"] = map[string]any{"limits": limits}
	}
	spec := map[string]any{
		"schedulerName": "topology-aware-scheduler",
		"containers":    []any{container, map[string]any{"name": "second", "image": "x"}},
	}
	if w.scheduler != "" {
		spec["schedulerName"] = w.scheduler
	}
	for key, value := range w.pod {
		spec[key] = value
	}
	metadata := map[string]any{"name": "case", "annotations": parseAnnotations(w.own)}
	for key, value := range w.meta {
		metadata[key] = value
	}
	template := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "case"}, "annotations": parseAnnotations(w.template)}, "spec": spec}
	selector := map[string]any{"matchLabels": map[string]any{"app": "case"}}
	pods := int64(max(w.pods, 1))
	o := map[string]any{"apiVersion": "apps/v1", "kind": w.kind, "metadata": metadata}
	switch w.kind {
	case "Pod":
		o["apiVersion"], o["spec"] = "v1", spec
	case "Deployment":
		o["spec"] = map[string]any{"replicas": pods, "selector": selector, "template": template}
	case "StatefulSet":
		o["spec"] = map[string]any{"replicas": pods, "selector": selector, "template": template, "serviceName": "case"}
	default:
		spec["restartPolicy"] = "Never"
		o["apiVersion"], o["kind"], o["spec"] = "batch/v1", "Job", map[string]any{"parallelism": pods, "template": template}
	}
	return &unstructured.Unstructured{Object: o}
}

func parseAnnotations(text string) map[string]any {
	out := map[string]any{}
	for _, pair := range strings.Fields(text) {
		key, value, _ := strings.Cut(pair, "=")
		out[annotations.Prefix+key] = value
	}
	return out
}

// The function `gpuLimits` returns the GPU limits of each container, as "4 0".
func gpuLimits(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	path := []string{"spec", "template", "spec", "containers"}
	if o.GetKind() == "Pod" {
		path = []string{"spec", "containers"}
	}
	containers, _, err := unstructured.NestedSlice(o.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range containers {
		limit, found, _ := unstructured.NestedString(c.(map[string]any), "resources", "limits", "nvidia.com/gpu")
		if !found {
			limit = "0"
		}
		out = append(out, limit)
	}
	return strings.Join(out, " ")
}

func testAdmission(t *testing.T, c *kubetest.Cluster, a *applier) {
	// The API server reads new policies a little later.
	err := kubetest.Await(t.Context(), patience, 100*time.Millisecond, func(context.Context) error {
		for _, kind := range []string{"Pod", "Job", "Deployment"} {
			if _, err := a.create(t, workload{kind: kind, own: "gpu-count=0"}.object(), true); err == nil {
				return errors.New("the policy for " + kind + " is not active")
			}
			if o, err := a.create(t, workload{kind: kind, own: "gpu-count=1"}.object(), true); err != nil || gpuLimits(t, o) != "1 0" {
				return fmt.Errorf("the policy that sets limits for %s is not active: %w", kind, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		workload
		limits string // of the accepted object
		wrong  string // in the message of a rejected object
	}{
		{name: "total with limits", workload: workload{own: "gpu-count=16", limit: 4, pods: 4}, limits: "4 0"},
		{name: "one pod's with limits", workload: workload{own: "gpu-count=4", limit: 4, pods: 4}, limits: "4 0"},
		{name: "total without limits", workload: workload{own: "gpu-count=16", pods: 4}, limits: "4 0"},
		{name: "other limits stay", workload: workload{own: "gpu-count=8", other: "cpu"}, limits: "8 0"},
		{name: "the template's annotation wins", workload: workload{own: "gpu-count=abc", template: "gpu-count=8", pods: 2}, limits: "4 0"},
		{name: "no annotation", workload: workload{pods: 2}, limits: "0 0"},
		{name: "another scheduler", workload: workload{own: "gpu-count=8", scheduler: "default-scheduler"}, limits: "0 0"},
		{name: "a part of a GPU", workload: workload{own: "gpu-count=8", other: "nvidia.com/mig-1g.5gb"}, limits: "0 0"},
		{name: "a claim", workload: workload{own: "gpu-count=8", pod: map[string]any{"resourceClaims": []any{map[string]any{"name": "c", "resourceClaimName": "c"}}}}, limits: "0 0"},
		{name: "all annotations", workload: workload{own: "gpu-count=8 preferred-domain=leaf-1 network-bandwidth=100Gb latency-sensitive=true placement-strategy=consolidated"}, limits: "8 0"},
		{name: "a Deployment's replica", workload: workload{kind: "Deployment", own: "gpu-count=4", pods: 3}, limits: "4 0"},
		{name: "a Deployment's total", workload: workload{kind: "Deployment", own: "gpu-count=8", limit: 4, pods: 2}, limits: "4 0"},
		{name: "a StatefulSet's replica", workload: workload{kind: "StatefulSet", own: "gpu-count=4", pods: 3}, limits: "4 0"},
		{name: "a pod", workload: workload{kind: "Pod", own: "gpu-count=2"}, limits: "2 0"},

		{name: "zero", workload: workload{own: "gpu-count=0"}, wrong: `topology.scheduler/gpu-count: "0" is not a number of GPUs: write a whole number from 1 to 16384, such as "8"`},
		{name: "no number", workload: workload{own: "gpu-count=abc"}, wrong: `"abc" is not a number of GPUs`},
		{name: "too many", workload: workload{own: "gpu-count=16385"}, wrong: `"16385" is not a number of GPUs`},
		{name: "wrong in the template", workload: workload{own: "gpu-count=8", template: "gpu-count=x"}, wrong: `"x" is not a number of GPUs`},
		{name: "wrong for another scheduler too", workload: workload{own: "gpu-count=x", scheduler: "default-scheduler"}, wrong: `"x" is not a number of GPUs`},
		{name: "indivisible", workload: workload{own: "gpu-count=10", pods: 4}, wrong: "topology.scheduler/gpu-count: 10 GPUs cannot be divided among 4 pods: write a multiple of 4, or set the limit nvidia.com/gpu of one pod"},
		{name: "against the limits", workload: workload{own: "gpu-count=8", limit: 4, pods: 4}, wrong: `"8" agrees neither with the GPU limits of one pod, which are 4, nor with those of all 4 pods: write "4" or "16", or change the limits`},
		{name: "against the limits of one pod", workload: workload{kind: "Pod", own: "gpu-count=8", limit: 4}, wrong: `"8" differs from the GPU limits of the pod, which are 4: write "4", or change the limits`},
		{name: "a Deployment against its limits", workload: workload{kind: "Deployment", own: "gpu-count=8", limit: 4, pods: 3}, wrong: "agrees neither"},
		{name: "strategy", workload: workload{own: "placement-strategy=spread"}, wrong: `topology.scheduler/placement-strategy: "spread" is not a strategy: write consolidated, distributed or balanced`},
		{name: "bandwidth", workload: workload{kind: "StatefulSet", own: "network-bandwidth=100"}, wrong: `topology.scheduler/network-bandwidth: "100" is not a bandwidth: write a whole number of gigabits per second with the unit Gb, such as "100Gb"`},
		{name: "latency", workload: workload{kind: "Deployment", own: "latency-sensitive=yes"}, wrong: `topology.scheduler/latency-sensitive: "yes" is neither true nor false: write "true" or "false"`},
		{name: "domain", workload: workload{own: "preferred-domain="}, wrong: `topology.scheduler/preferred-domain: "" is not the name of a domain`},
		{name: "unknown", workload: workload{kind: "Pod", own: "gpu-cuont=8"}, wrong: "topology.scheduler/gpu-cuont: there is no such annotation: write one of topology.scheduler/gpu-count, "},
		{name: "unknown in the template", workload: workload{template: "gpus=8"}, wrong: "topology.scheduler/gpus: there is no such annotation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := a.create(t, c.object(), true)
			switch {
			case c.wrong == "" && err != nil:
				t.Error(err)
			case c.wrong == "" && gpuLimits(t, o) != c.limits:
				t.Errorf("the GPU limits are %q, want %q", gpuLimits(t, o), c.limits)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("got %v, want %s", err, c.wrong)
			}
		})
	}
	t.Run("groups", func(t *testing.T) { testGroupAnnotations(t, a) })
	t.Run("same rules as in Go", func(t *testing.T) { testSameRules(t, a) })
}

// testGroupAnnotations: the annotations of objects that stand for several pods are checked too.
func testGroupAnnotations(t *testing.T, a *applier) {
	template := map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "first", "image": "x"}}}}
	for _, o := range []map[string]any{
		{"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}}},
		{"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": map[string]any{"minMember": int64(2)}},
		{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": map[string]any{"minMember": int64(2)}},
		{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": map[string]any{"replicatedJobs": []any{map[string]any{"name": "a", "template": map[string]any{"spec": map[string]any{"template": template}}}}}},
		{"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": map[string]any{"leaderWorkerTemplate": map[string]any{"workerTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "first", "image": "x"}}}}}}},
	} {
		u := &unstructured.Unstructured{Object: o}
		u.SetName("case")
		for strategy, valid := range map[string]bool{"consolidated": true, "close": false} {
			u.SetAnnotations(map[string]string{annotations.Strategy: strategy, annotations.GPUCount: "7"})
			err := kubetest.Await(t.Context(), patience, 100*time.Millisecond, func(context.Context) error { // policies take effect a little later
				_, err := a.create(t, u.DeepCopy(), true)
				if (err == nil) != valid || !valid && !strings.Contains(err.Error(), `"close" is not a strategy: write consolidated, distributed or balanced`) {
					return fmt.Errorf("the API server says: %v", err)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s with the strategy %s: %v", u.GroupVersionKind(), strategy, err)
			}
		}
	}
}

// testSameRules compares the policies with the Go package that the scheduler uses.
func testSameRules(t *testing.T, a *applier) {
	for key, values := range map[string][]string{
		annotations.GPUCount:         {"", "0", "00", "1", "01", "+1", "-1", "1.0", "1e3", "9", "16384", "16385", "99999", "100000", " 1", "1 ", "x"},
		annotations.PreferredDomain:  {"", "a", "-a", "a-", "A.b_c-1", "a b", "ä", strings.Repeat("a", 63), strings.Repeat("a", 64)},
		annotations.NetworkBandwidth: {"", "1", "Gb", "1Gb", "1Gbps", "1gb", "0Gb", "01Gb", "100000Gb", "100001Gb", "99999Gbps", "1Gbpsps", "1 Gb", "1.5Gb", "-1Gb"},
		annotations.LatencySensitive: {"", "true", "false", "True", "1"},
		annotations.Strategy:         {"", "balanced", "consolidated", "distributed", "Balanced"},
		annotations.Prefix + "other": {"", "x"},
	} {
		for _, value := range values {
			w := workload{kind: "Pod"}
			o := w.object()
			o.SetAnnotations(map[string]string{key: value})
			_, err := a.create(t, o, true)
			_, want := annotations.Parse(o.GetAnnotations(), nil)
			if (err == nil) != (want == nil) {
				t.Errorf("%s=%q: the policy says %v, the scheduler %v", key, value, err, want)
			}
		}
	}
}
