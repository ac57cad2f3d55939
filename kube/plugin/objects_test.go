package plugin

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
)

// kinds is the discovery of an API server: group/version → resource. An error takes the place of all answers.
type kinds struct {
	discovery.ServerResourcesInterface
	served map[string]string
	err    error
}

// ServerResourcesForGroupVersion returns the resources of a version.
func (k *kinds) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	if k.err != nil {
		return nil, k.err
	}
	resource, has := k.served[version]
	if !has {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: resource}}}, nil
}

// TestOptionalKinds: a kind that the API server does not have is not read, and one that comes later is.
func TestOptionalKinds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	set := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"ready": int64(1)}}}
	set.SetAPIVersion("jobset.x-k8s.io/v1alpha2")
	set.SetKind("JobSet")
	set.SetNamespace("team-a")
	set.SetName("train")
	resource := schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "JobSetList"}, set)
	server := &kinds{err: errors.New("connection refused")}
	seen := make(chan string, 10)
	o := newObjects(server, client, func(k *apiKind, u *unstructured.Unstructured) { seen <- k.resource + "/" + u.GetName() })

	if err := o.discover(ctx); err == nil || o.synced() {
		t.Errorf("an API server that does not answer counts as one without these kinds: %v", err)
	}
	server.err, server.served = nil, map[string]string{"scheduling.k8s.io/v1beta1": "workloads"}
	if err := o.discover(ctx); err != nil || !o.synced() {
		t.Errorf("an API server without these kinds is not enough: %v", err)
	}
	if _, served := o.get(jobSets, "team-a", "train"); served {
		t.Error("there are JobSets before their kind exists")
	}
	server.served[resource.GroupVersion().String()] = resource.Resource
	if err := o.discover(ctx); err != nil {
		t.Fatal(err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), o.synced) {
		t.Fatal("the JobSets are not read")
	}
	if got := <-seen; got != "jobsets/train" {
		t.Errorf("the event is for %s", got)
	}
	u, served := o.get(jobSets, "team-a", "train")
	if !served || u == nil || u.Object["status"] != nil {
		t.Errorf("the JobSet is %v, and the kind exists: %t; want it without its status", u, served)
	}
	if missing, served := o.get(jobSets, "team-a", "other"); missing != nil || !served {
		t.Errorf("a JobSet that does not exist: %v %t", missing, served)
	}
}
