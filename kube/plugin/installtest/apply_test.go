package installtest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// An applier applies objects as `kubectl apply --server-side` does.
type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(t *testing.T, c *kubetest.Cluster) *applier {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &applier{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}
}

// The method `resource` returns the client for an object's kind and namespace.
func (a *applier) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != "namespace" {
		return a.client.Resource(mapping.Resource), nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	return a.client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}

// The method `create` creates an object, or only asks the API server whether it would.
func (a *applier) create(t *testing.T, o *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	t.Helper()
	r, err := a.resource(o)
	if err != nil {
		t.Fatal(err)
	}
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return r.Create(t.Context(), o, options)
}

// The method `apply` applies all objects of the files that match a pattern below the root of the repository.
func (a *applier) apply(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../..", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		for _, o := range read(t, file) {
			r, err := a.resource(o)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if _, err := r.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "installtest", Force: true}); err != nil {
				t.Errorf("%s: %s %s: %v", file, o.GetKind(), o.GetName(), err)
			}
		}
	}
}

// The function `read` reads the objects of a YAML file.
func read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		switch {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatalf("%s: %v", file, err)
		case len(o.Object) > 0:
			out = append(out, o)
		}
	}
}

// patience is how long the API server and the controllers may take on a busy machine.
const patience = 2 * time.Minute
