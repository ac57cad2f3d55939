package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

const dir = "../../deploy/charts/ares"

// The function `objects` decodes rendered templates as strictly as the API server: unknown and repeated fields are
// errors.
func objects(t *testing.T, templates map[string]string) []runtime.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	for name, text := range templates {
		for _, document := range strings.Split(text, "\n---\n") {
			o, _, err := decoder.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			out = append(out, o)
		}
	}
	return out
}

func rendered(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	templates, err := render(dir, values, "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	return templates
}

func TestRoles(t *testing.T) {
	roles := 0
	for _, o := range objects(t, rendered(t, nil)) {
		var rules []rbacv1.PolicyRule
		switch r := o.(type) {
		case *rbacv1.ClusterRole:
			rules = r.Rules
		case *rbacv1.Role:
			rules = r.Rules
		default:
			continue
		}
		roles++
		for _, rule := range rules {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
				if slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") }) {
					t.Errorf("a rule has a wildcard: %v", rule)
				}
			}
			for _, resource := range []string{"secrets", "configmaps"} {
				if slices.Contains(rule.Resources, resource) && len(rule.ResourceNames) == 0 {
					t.Errorf("a rule allows all %s: %v", resource, rule)
				}
			}
		}
	}
	if roles != 3 {
		t.Errorf("%d roles, want 3", roles)
	}
}

// TestPodSecurity checks the fields that the Pod Security Standard "restricted" requires.
func TestPodSecurity(t *testing.T) {
	found := false
	for _, o := range objects(t, rendered(t, nil)) {
		d, ok := o.(*appsv1.Deployment)
		if !ok {
			continue
		}
		found = true
		spec := d.Spec.Template.Spec
		if s := spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("the pod's security context is %+v", spec.SecurityContext)
		}
		if spec.HostNetwork || spec.HostPID || spec.HostIPC || len(spec.Volumes) > 0 {
			t.Error("the pod uses the host, or volumes")
		}
		for _, c := range spec.Containers {
			s := c.SecurityContext
			if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
				s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("the security context of container %s is %+v", c.Name, s)
			}
		}
		if d.Spec.Template.Labels["app"] != "topology-scheduler" || d.Namespace != "kube-system" || *d.Spec.Replicas != 2 {
			t.Errorf("labels %v, namespace %s, %d replicas", d.Spec.Template.Labels, d.Namespace, *d.Spec.Replicas)
		}
	}
	if !found {
		t.Error("there is no Deployment")
	}
}

func TestValues(t *testing.T) {
	templates := rendered(t, map[string]any{
		"schedulerName": "gpu", "replicas": 3, "logLevel": 0,
		"image":            map[string]any{"repository": "registry.example.com/ares", "tag": "1.0", "pullPolicy": "Always"},
		"imagePullSecrets": []any{map[string]any{"name": "registry"}},
		"nodeSelector":     map[string]any{"a": "b"},
		"tolerations":      []any{},
		"admission":        map[string]any{"setLimits": false},
		"config":           map[string]any{"topologyConstraints": map[string]any{"maxNodesPerLeaf": 8}},
	})
	objects(t, templates)
	if _, ok := templates["set-gpu-limits.yaml"]; ok {
		t.Error("admission.setLimits: false still renders the policies")
	}
	for name, want := range map[string][]string{
		"deployment.yaml": {
			"image: registry.example.com/ares:1.0\n", "imagePullPolicy: Always\n", "replicas: 3\n", "--scheduler-name=gpu\n", "--v=0\n", "- name: registry\n", "a: b\n",
		},
		"validate-annotations.yaml": {`schedulerName == "gpu"`},
		"configmap.yaml":            {"maxNodesPerLeaf: 8\n", "maxGPUsPerLeaf: 32\n"},
	} {
		for _, text := range want {
			if !strings.Contains(templates[name], text) {
				t.Errorf("%s lacks %q", name, text)
			}
		}
		if strings.Contains(templates[name], "topology-aware-scheduler") {
			t.Errorf("%s has a default although a value replaces it", name)
		}
	}
	if templates := rendered(t, map[string]any{"admission": map[string]any{"validate": false}}); templates["validate-annotations.yaml"] != "" {
		t.Error("admission.validate: false still renders the policies")
	}
}

func TestWrongValuesAreRejected(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"replica":         {"replica": 3},
		"/replicas":       {"replicas": 0},
		"repo":            {"image": map[string]any{"repo": "x"}},
		"/logLevel":       {"logLevel": "high"},
		"maxGpusPerLeaf":  {"config": map[string]any{"topologyConstraints": map[string]any{"maxGpusPerLeaf": 8}}},
		"/config":         {"config": map[string]any{"scoringWeights": map[string]any{"topologyAlignment": -1}}},
		"add up to 1.2:":  {"config": map[string]any{"scoringWeights": map[string]any{"topologyAlignment": 0.5}}},
		"/schedulerName":  {"schedulerName": `a"b`},
		"/admission":      {"admission": map[string]any{"validate": "yes"}},
		"/image/pullPoli": {"image": map[string]any{"pullPolicy": "Sometimes"}},
	} {
		if _, err := render(dir, values, "kube-system"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", values, err, want)
		}
	}
	if _, err := render(dir, nil, "default"); err == nil || !strings.Contains(err.Error(), "add --namespace kube-system") {
		t.Errorf("another namespace: got %v", err)
	}
}

// TestCheck changes a copy of deploy and expects that --check notices it.
func TestCheck(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "deploy/charts"), os.DirFS("../../deploy/charts")); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		err := run(root, true)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("check: %v, want %q", err, want)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "deploy", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check("deploy/rbac.yaml differs from the chart: run make chart")
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	check("")
	write("service.yaml", header+"changed")
	check("deploy/service.yaml differs from the chart")
	write("old.yaml", header)
	check("deploy/old.yaml is no longer in the chart: run make chart")
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	check("")
	write("compose.yaml", "services: {}\n")
	check("deploy/compose.yaml is not from the chart, but kubectl would apply it")
	if err := run(root, false); err == nil {
		t.Error("writing does not complain about a foreign file")
	}
}
