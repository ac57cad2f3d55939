package kubetest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// crds are the kinds that CreateGroupKinds creates.
//
//go:embed crds.yaml
var crds []byte

// WithPodGroups are the options of a cluster that has PodGroups of Kubernetes itself, which are off by default. An API server
// before 1.37 has none of this version, and gets the options unchanged.
func WithPodGroups(o Options) Options {
	if minor, err := minorVersion(); err == nil && minor < 37 {
		return o
	}
	o.FeatureGates = map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true}
	o.APIServerArgs = append(o.APIServerArgs, "--runtime-config=scheduling.k8s.io/v1beta1=true")
	return o
}

// CreateGroupKinds creates the kinds PodGroup of the scheduler plugins and of Volcano, JobSet and LeaderWorkerSet, and
// waits until the API server has them. StartWorkloads runs the controllers of the last two.
func (c *Cluster) CreateGroupKinds(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	kinds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(crds), 4096); ; {
		crd := &unstructured.Unstructured{}
		if err := decoder.Decode(crd); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("crds.yaml: %w", err)
		}
		if _, err := kinds.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return err
		}
		err := Await(ctx, time.Minute, 50*time.Millisecond, func(ctx context.Context) error {
			now, err := kinds.Get(ctx, crd.GetName(), metav1.GetOptions{})
			if err == nil && !isEstablished(now) {
				err = fmt.Errorf("the API server does not serve %s yet", crd.GetName())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
}

func isEstablished(crd *unstructured.Unstructured) bool {
	list, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}
