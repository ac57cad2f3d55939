package plugin

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ares-scheduler/ares/kube/watch"
)

// An apiKind is a kind of object that not every cluster has.
type apiKind struct {
	group    string
	versions []string // the first one that the API server has is read
	resource string
}

// These kinds say which pods belong together. The versions of one kind have the same fields, as far as they are read.
var (
	kubernetesGroups  = &apiKind{string(watch.KubernetesGroups), []string{"v1beta1", "v1alpha3", "v1alpha2"}, "podgroups"}
	pluginGroups      = &apiKind{string(watch.PluginGroups), []string{"v1alpha1"}, "podgroups"}
	volcanoGroups     = &apiKind{string(watch.VolcanoGroups), []string{"v1beta1"}, "podgroups"}
	jobSets           = &apiKind{"jobset.x-k8s.io", []string{"v1alpha2"}, "jobsets"}
	leaderWorkerSets  = &apiKind{"leaderworkerset.x-k8s.io", []string{"v1"}, "leaderworkersets"}
	optionalKinds     = []*apiKind{kubernetesGroups, pluginGroups, volcanoGroups, jobSets, leaderWorkerSets}
	groupKinds        = map[watch.GroupAPI]*apiKind{watch.KubernetesGroups: kubernetesGroups, watch.PluginGroups: pluginGroups, watch.VolcanoGroups: volcanoGroups}
	discoverEvery     = time.Minute // a kind may be installed later
	discoverAfterFail = time.Second
)

// objects has the objects of the optional kinds that the API server has. A kind without an informer costs nothing.
type objects struct {
	discovery discovery.ServerResourcesInterface
	client    dynamic.Interface
	// changed is called for every object that is added, changed or deleted.
	changed func(*apiKind, *unstructured.Unstructured)

	mu         sync.RWMutex
	stores     map[*apiKind]cache.Store
	resources  map[*apiKind]schema.GroupVersionResource
	handlers   []cache.InformerSynced
	discovered bool // the API server has answered for each kind
}

func newObjects(d discovery.ServerResourcesInterface, client dynamic.Interface, changed func(*apiKind, *unstructured.Unstructured)) *objects {
	return &objects{discovery: d, client: client, changed: changed, stores: map[*apiKind]cache.Store{}, resources: map[*apiKind]schema.GroupVersionResource{}}
}

// run looks for the kinds and starts their informers, until the context ends.
func (o *objects) run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("ares")
	for {
		wait := discoverEvery
		if err := o.discover(ctx); err != nil {
			logger.Error(err, "Cannot find out which kinds of PodGroups, JobSets and LeaderWorkerSets the API server has; trying again")
			wait = discoverAfterFail
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// discover starts the informers of the kinds that the API server has and that have none yet.
func (o *objects) discover(ctx context.Context) error {
	for _, k := range optionalKinds {
		o.mu.RLock()
		_, started := o.stores[k]
		o.mu.RUnlock()
		if started {
			continue
		}
		version, err := o.version(k)
		if err != nil {
			return err
		}
		if version == "" {
			continue
		}
		if err := o.start(ctx, k, version); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.discovered = true
	return nil
}

// version returns the version in which the API server has a kind, "" if it has none.
func (o *objects) version(k *apiKind) (string, error) {
	for _, version := range k.versions {
		list, err := o.discovery.ServerResourcesForGroupVersion(k.group + "/" + version)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("discover %s/%s: %w", k.group, version, err)
		}
		for i := range list.APIResources {
			if list.APIResources[i].Name == k.resource {
				return version, nil
			}
		}
	}
	return "", nil
}

// start starts the informer of a kind.
func (o *objects) start(ctx context.Context, k *apiKind, version string) error {
	resource := schema.GroupVersionResource{Group: k.group, Version: version, Resource: k.resource}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(o.client, 0)
	informer := factory.ForResource(resource).Informer()
	if err := informer.SetTransform(trim(k != kubernetesGroups)); err != nil {
		return err
	}
	changed := func(u *unstructured.Unstructured) { o.changed(k, u) }
	registration, err := informer.AddEventHandler(exceptStatus{handle(changed, changed)})
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.stores[k], o.resources[k] = informer.GetStore(), resource
	o.handlers = append(o.handlers, registration.HasSynced)
	o.mu.Unlock()
	factory.Start(ctx.Done())
	klog.FromContext(ctx).WithName("ares").Info("Reads an optional kind", "kind", resource.String())
	return nil
}

// exceptStatus leaves out updates that change neither the specification nor the annotations of an object. Controllers write
// the status often, and it changes nothing for the pods. The generation does not tell, because a PodGroup of Kubernetes has none.
type exceptStatus struct{ cache.ResourceEventHandler }

// OnUpdate passes an update on.
func (h exceptStatus) OnUpdate(before, after any) {
	a, isA := before.(*unstructured.Unstructured)
	b, isB := after.(*unstructured.Unstructured)
	if isA && isB && a.GetUID() == b.GetUID() && reflect.DeepEqual(a.Object["spec"], b.Object["spec"]) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) {
		return
	}
	h.ResourceEventHandler.OnUpdate(before, after)
}

// trim returns a function that drops what nobody reads, to save memory.
func trim(status bool) cache.TransformFunc {
	return func(o any) (any, error) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			u.SetManagedFields(nil)
			if status {
				unstructured.RemoveNestedField(u.Object, "status")
			}
		}
		return o, nil
	}
}

// synced reports whether every object is known that existed at the start.
func (o *objects) synced() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, has := range o.handlers {
		if !has() {
			return false
		}
	}
	return o.discovered
}

// get returns an object, or nil if there is none. It reports whether the API server has the kind.
func (o *objects) get(k *apiKind, namespace, name string) (u *unstructured.Unstructured, served bool) {
	o.mu.RLock()
	store := o.stores[k]
	o.mu.RUnlock()
	if store == nil {
		return nil, false
	}
	found, exists, err := store.GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil, true
	}
	u, _ = found.(*unstructured.Unstructured)
	return u, true
}

// resource returns the resource of a kind that the API server has.
func (o *objects) resource(k *apiKind) schema.GroupVersionResource {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.resources[k]
}
