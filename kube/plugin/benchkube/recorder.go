package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// recorder watches the pods of a cluster and notes when each was seen with a node.
type recorder struct {
	mu    sync.Mutex
	pods  map[types.UID]*record
	bound int
	first time.Time // of the bindings
	last  time.Time
}

// record is what is known of a pod.
type record struct {
	name, node string
	gpus       int
	created    time.Time // when it was first seen
	bound      time.Time // zero until it has a node
	gone       bool      // it is being deleted or was deleted
}

// watch follows the pods until ctx ends. It returns when it has seen the pods that exist.
func watch(ctx context.Context, c *kubetest.Cluster) (*recorder, error) {
	r := &recorder{pods: map[types.UID]*record{}}
	// The benchmark shares its cores with what it measures, so it reads the cheaper encoding.
	config := rest.CopyConfig(c.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	handler, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.see(o, false) },
		UpdateFunc: func(_, o any) { r.see(o, false) },
		DeleteFunc: func(o any) { r.see(o, true) },
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return nil, errors.New("the pods could not be listed")
	}
	return r, nil
}

func (r *recorder) see(object any, deleted bool) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.pods[pod.UID]
	if known == nil {
		known = &record{name: pod.Name, gpus: gpusOf(pod), created: now}
		r.pods[pod.UID] = known
	}
	known.gone = deleted || pod.DeletionTimestamp != nil
	if pod.Spec.NodeName == "" || known.node != "" {
		return
	}
	known.node, known.bound = pod.Spec.NodeName, now
	r.bound++
	if r.first.IsZero() {
		r.first = now
	}
	r.last = now
}

// count returns how many pods were bound, and when the latest was.
func (r *recorder) count() (bound int, last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bound, r.last
}

// records returns a copy of what is known of every pod.
func (r *recorder) records() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]record, 0, len(r.pods))
	for _, known := range r.pods {
		all = append(all, *known)
	}
	return all
}

// members returns what is known of the pods of a Job.
func (r *recorder) members(job string) []record {
	return slices.DeleteFunc(r.records(), func(pod record) bool { return !strings.HasPrefix(pod.name, job+"-") })
}
