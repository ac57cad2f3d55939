package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Applier applies objects as `kubectl apply --server-side` does.
type Applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// NewApplier returns an applier with the rights of an administrator.
func (c *Cluster) NewApplier() (*Applier, error) {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	return &Applier{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}, nil
}

// Resource returns the client for an object's kind and namespace. An object without a namespace that needs one gets the
// default namespace.
func (a *Applier) Resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource), nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	return a.client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}

// Apply applies all objects of the files that match a pattern below the root of the repository. It tries all of them, and
// returns the errors of those that the API server rejects.
func (a *Applier) Apply(ctx context.Context, pattern string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no file matches %s", pattern)
	}
	var failed []error
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return err
		}
		for _, o := range objects {
			r, err := a.Resource(o)
			if err == nil {
				_, err = r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubetest", Force: true})
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %s %s: %w", file, o.GetKind(), o.GetName(), err))
			}
		}
	}
	return errors.Join(failed...)
}

// readObjects reads the objects of a YAML file.
func readObjects(file string) (out []*unstructured.Unstructured, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		case len(o.Object) > 0:
			out = append(out, o)
		}
	}
}
