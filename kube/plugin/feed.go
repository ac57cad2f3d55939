package plugin

import (
	"reflect"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/annotations"
	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// A feed passes what informers see to the planner.
type feed struct {
	factory   informers.SharedInformerFactory
	planner   *planner.Planner
	scheduler string
	wake      func()
	handlers  []cache.InformerSynced
	table     *deviceTable
	claiming  sync.Mutex // of claims; it is taken before mu
	claims    *claimFeed
	objects   *objects

	mu    sync.Mutex
	nodes map[string]*nodeUse
	pods  map[string]podUse             // by UID: all bound pods that use no GPU
	owned map[string]map[string]*v1.Pod // owner's UID → the pods that wait and use GPUs, by UID
	// members has the pods that name an object of an optional kind.
	members map[objectKey]*members
}

// nodeUse is a node with what the pods without GPUs use of it.
type nodeUse struct {
	node            *v1.Node
	used            watch.Resources
	sent            *ares.Node // the record that the planner has
	ready, cordoned bool
}

type podUse struct {
	node string
	uses watch.Resources
}

func newFeed(factory informers.SharedInformerFactory, to *planner.Planner, scheduler string, wake func(), activate func(planner.Ref)) (*feed, error) {
	f := &feed{
		factory: factory, planner: to, scheduler: scheduler, wake: wake, table: newDeviceTable(),
		nodes: map[string]*nodeUse{}, pods: map[string]podUse{}, owned: map[string]map[string]*v1.Pod{},
		members: map[objectKey]*members{},
	}
	f.claims = newClaimFeed(f, activate)
	for _, h := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{factory.Core().V1().Nodes().Informer(), handle(f.setNode, f.deleteNode)},
		{factory.Core().V1().Pods().Informer(), handle(f.setPod, f.deletePod)},
		{factory.Batch().V1().Jobs().Informer(), handle(f.jobChanged, nil)},
		{factory.Apps().V1().StatefulSets().Informer(), handle(func(o *appsv1.StatefulSet) { f.ownerChanged(o.UID) }, nil)},
		{factory.Apps().V1().ReplicaSets().Informer(), handle(func(o *appsv1.ReplicaSet) { f.ownerChanged(o.UID) }, nil)},
		{factory.Apps().V1().Deployments().Informer(), handle(f.deploymentChanged, nil)},
		{factory.Core().V1().Namespaces().Informer(), handle[*v1.Namespace](nil, nil)},
	} {
		r, err := h.informer.AddEventHandler(h.handler)
		if err != nil {
			return nil, err
		}
		f.handlers = append(f.handlers, r.HasSynced)
	}
	return f, f.claims.register()
}

// handle adapts two functions to the handler of an informer.
func handle[T any](set, remove func(T)) cache.ResourceEventHandler {
	h := cache.ResourceEventHandlerFuncs{}
	if set != nil {
		h.AddFunc = func(o any) {
			if t, ok := o.(T); ok {
				set(t)
			}
		}
		h.UpdateFunc = func(_, o any) {
			if t, ok := o.(T); ok {
				set(t)
			}
		}
	}
	if remove != nil {
		h.DeleteFunc = func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if t, ok := o.(T); ok {
				remove(t)
			}
		}
	}
	return h
}

// synced reports whether the planner knows everything that existed when the informers started.
func (f *feed) synced() bool {
	for _, has := range f.handlers {
		if !has() {
			return false
		}
	}
	return f.objects.synced()
}

func (f *feed) setNode(n *v1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.use(n.Name)
	u.node = n
	f.send(u)
}

func (f *feed) deleteNode(n *v1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u := f.nodes[n.Name]; u != nil {
		u.node, u.sent = nil, nil
	}
	f.planner.DeleteNode(n.Name)
	f.wake()
}

func (f *feed) use(name string) *nodeUse {
	if f.nodes[name] == nil {
		f.nodes[name] = &nodeUse{}
	}
	return f.nodes[name]
}

// send passes a node to the planner if it has GPUs and if something that matters has changed.
func (f *feed) send(u *nodeUse) {
	if u.node == nil {
		return
	}
	if !watch.HasGPUs(u.node) && !f.table.has(u.node.Name) && u.sent == nil {
		return
	}
	record, ready, cordoned := watch.Node(u.node, u.used), watch.IsReady(u.node), u.node.Spec.Unschedulable
	f.table.use(record)
	if u.sent != nil && ready == u.ready && cordoned == u.cordoned && reflect.DeepEqual(record, u.sent) {
		return
	}
	u.sent, u.ready, u.cordoned = record, ready, cordoned
	f.planner.SetNode(record, ready, cordoned)
	f.wake()
}

func (f *feed) setPod(pod *v1.Pod) {
	f.remember(pod, !watch.Ended(pod))
	switch {
	case len(pod.Spec.ResourceClaims) > 0:
		f.claims.podChanged(refOf(pod))
	case watch.UsesGPUs(pod) && !(f.isOthers(pod) && pod.Status.ExtendedResourceClaimStatus != nil):
		f.plan(pod, watch.TranslatePod)
	default: // also a pod of another scheduler whose limits became a claim: the claim holds the devices
		f.count(pod, !watch.Ended(pod) && pod.Spec.NodeName != "")
	}
}

func (f *feed) isOthers(pod *v1.Pod) bool { return pod.Spec.SchedulerName != f.scheduler }

func refOf(pod *v1.Pod) planner.Ref {
	return planner.Ref{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
}

// plan passes a pod that uses GPUs to the planner.
func (f *feed) plan(pod *v1.Pod, translate func(*v1.Pod, *watch.Owner, map[string]string) *watch.Pod) {
	if pod.Spec.NodeName == "" && pod.Spec.SchedulerName != f.scheduler {
		return // another scheduler has not decided about it
	}
	owner := metav1.GetControllerOf(pod)
	workload, known := f.owner(pod, owner)
	if owner != nil {
		f.mu.Lock()
		if f.owned[string(owner.UID)] == nil {
			f.owned[string(owner.UID)] = map[string]*v1.Pod{}
		}
		if pod.Spec.NodeName == "" || !known {
			f.owned[string(owner.UID)][string(pod.UID)] = pod
		} else {
			f.removeOwned(string(owner.UID), pod)
		}
		f.mu.Unlock()
	}
	// The event of the workload calls this again; until then nobody knows whether the pod is one of a gang. A bound pod uses
	// its devices in any case.
	if !known && pod.Spec.NodeName == "" {
		return
	}
	seen := translate(pod, f.withGroup(pod, workload), f.namespaceLabels(pod.Namespace))
	f.table.resolve(seen)
	f.planner.SetPod(seen, time.Now())
	f.wake()
}

func (f *feed) removeOwned(owner string, pod *v1.Pod) {
	delete(f.owned[owner], string(pod.UID))
	if len(f.owned[owner]) == 0 {
		delete(f.owned, owner)
	}
}

func (f *feed) deletePod(pod *v1.Pod) {
	f.remember(pod, false)
	if !watch.UsesGPUs(pod) {
		f.count(pod, false)
		if len(pod.Spec.ResourceClaims) == 0 {
			return
		}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		f.mu.Lock()
		f.removeOwned(string(owner.UID), pod)
		f.mu.Unlock()
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		f.claims.podChanged(refOf(pod))
		return
	}
	f.planner.DeletePod(string(pod.UID), time.Now())
	f.wake()
}

// count adds what a pod without GPUs uses to its node, or takes it away.
func (f *feed) count(pod *v1.Pod, present bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uid := string(pod.UID)
	before, counted := f.pods[uid]
	after := podUse{pod.Spec.NodeName, watch.Uses(pod)}
	if counted == present && (!present || before == after) {
		return
	}
	if counted {
		u := f.use(before.node)
		u.used = u.used.Sub(before.uses)
		delete(f.pods, uid)
		f.send(u)
	}
	if present {
		u := f.use(after.node)
		u.used = u.used.Add(after.uses)
		f.pods[uid] = after
		f.send(u)
	}
}

// owner returns the workload that created a pod, or nil if there is none or none of a kind that matters here. It reports
// whether the answer is final: the event of a pod may come before that of its workload.
func (f *feed) owner(pod *v1.Pod, ref *metav1.OwnerReference) (workload *watch.Owner, known bool) {
	if set, final := f.leaderWorkerSet(pod); set != nil || !final && ref != nil {
		return set, final
	}
	if ref == nil {
		return nil, true
	}
	switch ref.Kind {
	case "Job":
		o, err := f.factory.Batch().V1().Jobs().Lister().Jobs(pod.Namespace).Get(ref.Name)
		if err != nil || o.UID != ref.UID {
			return nil, false
		}
		set, final := f.jobSet(o)
		return f.jobOwner(o, set), final
	case "StatefulSet":
		o, err := f.factory.Apps().V1().StatefulSets().Lister().StatefulSets(pod.Namespace).Get(ref.Name)
		if err != nil || o.UID != ref.UID {
			return nil, false
		}
		return watch.ReplicasOwner(o, o.Spec.Replicas), true
	case "ReplicaSet":
		set, err := f.factory.Apps().V1().ReplicaSets().Lister().ReplicaSets(pod.Namespace).Get(ref.Name)
		if err != nil || set.UID != ref.UID {
			return nil, false
		}
		up := metav1.GetControllerOf(set)
		if up == nil || up.Kind != "Deployment" {
			return watch.ReplicasOwner(set, set.Spec.Replicas), true
		}
		o, err := f.factory.Apps().V1().Deployments().Lister().Deployments(pod.Namespace).Get(up.Name)
		if err != nil || o.UID != up.UID {
			return nil, false
		}
		return watch.ReplicasOwner(o, o.Spec.Replicas), true
	}
	return nil, true
}

// jobOwner returns the workload of a Job: the Job itself, or its JobSet.
func (f *feed) jobOwner(j *batchv1.Job, set *watch.JobSet) *watch.Owner {
	siblings, err := f.factory.Batch().V1().Jobs().Lister().Jobs(j.Namespace).List(watch.SameJobSet(j))
	if err != nil {
		siblings = nil // the selector is made of labels that the API server accepted
	}
	return watch.JobSetOwner(j, siblings, set)
}

// jobChanged translates the waiting pods of a Job again, and those of the other Jobs of its JobSet.
func (f *feed) jobChanged(j *batchv1.Job) {
	f.ownerChanged(j.UID)
	if !watch.InJobSet(j) {
		return
	}
	siblings, err := f.factory.Batch().V1().Jobs().Lister().Jobs(j.Namespace).List(watch.SameJobSet(j))
	if err != nil {
		return // as above
	}
	for _, other := range siblings {
		if other.UID != j.UID {
			f.ownerChanged(other.UID)
		}
	}
}

// ownerChanged translates the waiting pods of a workload again.
func (f *feed) ownerChanged(uid types.UID) {
	f.mu.Lock()
	var list []*v1.Pod
	for _, pod := range f.owned[string(uid)] {
		list = append(list, pod)
	}
	f.mu.Unlock()
	for _, pod := range list {
		f.setPod(pod)
	}
}

func (f *feed) deploymentChanged(d *appsv1.Deployment) {
	f.mu.Lock()
	var list []*v1.Pod
	for _, pods := range f.owned {
		for _, pod := range pods {
			if pod.Namespace == d.Namespace {
				list = append(list, pod)
			}
		}
	}
	f.mu.Unlock()
	for _, pod := range list {
		ref := metav1.GetControllerOf(pod)
		if set, err := f.factory.Apps().V1().ReplicaSets().Lister().ReplicaSets(pod.Namespace).Get(ref.Name); err == nil && metav1.IsControlledBy(set, d) {
			f.setPod(pod)
		}
	}
}

func (f *feed) namespaceLabels(name string) map[string]string {
	if ns, err := f.factory.Core().V1().Namespaces().Lister().Get(name); err == nil {
		return ns.Labels
	}
	return nil
}

// pod returns the informer's copy of a pod, or nil if there is none with this UID.
func (f *feed) pod(r planner.Ref) *v1.Pod {
	pod, err := f.factory.Core().V1().Pods().Lister().Pods(r.Namespace).Get(r.Name)
	if err != nil || string(pod.UID) != r.UID {
		return nil
	}
	return pod
}

// lacksLimits reports whether a pod without GPUs has an annotation that asks for some, or a Job whose pods are all alike has. In
// a JobSet or a LeaderWorkerSet some pods may use no GPUs.
func (f *feed) lacksLimits(pod *v1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return false
	}
	if _, asks := pod.Annotations[annotations.GPUCount]; asks {
		return true
	}
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "Job" {
		return false
	}
	job, err := f.factory.Batch().V1().Jobs().Lister().Jobs(pod.Namespace).Get(ref.Name)
	if err != nil || job.UID != ref.UID || watch.InJobSet(job) {
		return false
	}
	_, asks := job.Annotations[annotations.GPUCount]
	return asks
}
