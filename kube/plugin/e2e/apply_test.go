package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// applyFile creates or replaces all objects of a file, as kubectl apply would.
func applyFile(ctx context.Context, path string) error {
	objects, err := readObjects(path)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := apply(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// readObjects returns the objects of a YAML file.
func readObjects(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(o); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		case o.Object != nil:
			list = append(list, o)
		}
	}
}

// applyText creates or replaces an object that is written as JSON.
func applyText(ctx context.Context, text string) error {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		return err
	}
	return apply(ctx, o)
}

// resources returns the client of an object's kind.
func resources(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapper, err := mapper()
	if err != nil {
		return nil, err
	}
	kind := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
	}
	return client.Resource(mapping.Resource), nil
}

func apply(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := resources(o)
	if err == nil {
		_, err = client.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
	}
	return err
}

// mapper knows the kinds of the API server.
var mapper = sync.OnceValues(func() (meta.RESTMapper, error) {
	groups, err := restmapper.GetAPIGroupResources(cluster.Client.Discovery())
	if err != nil {
		return nil, err
	}
	return restmapper.NewDiscoveryRESTMapper(groups), nil
})
