package plugin

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// An objectKey names an object of an optional kind.
type objectKey struct {
	kind *apiKind
	name types.NamespacedName
}

// members are the pods that name an object of an optional kind.
type members struct {
	withGPUs    map[types.UID]planner.Ref
	withoutGPUs map[types.UID]bool
}

// keysOf returns the objects of optional kinds that a pod names itself. A JobSet is named by the Job of a pod.
func keysOf(pod *v1.Pod) []objectKey {
	var out []objectKey
	if ref, has := watch.GroupOf(pod); has {
		out = append(out, objectKey{groupKinds[ref.API], types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}})
	}
	if name := watch.LeaderWorkerSetOf(pod); name != "" {
		out = append(out, objectKey{leaderWorkerSets, types.NamespacedName{Namespace: pod.Namespace, Name: name}})
	}
	return out
}

// remember notes a pod under the objects that it names, so that it is translated again when one of them changes. If the
// number of a group's pods without GPUs changes, its pods are translated again, because that number counts.
func (f *feed) remember(pod *v1.Pod, exists bool) {
	keys := keysOf(pod)
	if len(keys) == 0 {
		return
	}
	usesGPUs := watch.MayUseGPUs(pod)
	var again []planner.Ref
	f.mu.Lock()
	for _, key := range keys {
		m := f.members[key]
		if m == nil {
			m = &members{map[types.UID]planner.Ref{}, map[types.UID]bool{}}
			f.members[key] = m
		}
		before := len(m.withoutGPUs)
		delete(m.withGPUs, pod.UID)
		delete(m.withoutGPUs, pod.UID)
		switch {
		case exists && usesGPUs:
			m.withGPUs[pod.UID] = planner.Ref{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
		case exists && !usesGPUs:
			m.withoutGPUs[pod.UID] = true
		}
		if len(m.withoutGPUs) != before {
			again = slices.AppendSeq(again, maps.Values(m.withGPUs))
		}
		if len(m.withGPUs)+len(m.withoutGPUs) == 0 {
			delete(f.members, key)
		}
	}
	f.mu.Unlock()
	f.refresh(again)
}

// refresh translates pods again.
func (f *feed) refresh(list []planner.Ref) {
	for _, ref := range list {
		if pod := f.pod(ref); pod != nil {
			f.setPod(pod)
		}
	}
}

// objectChanged translates the pods again that an object of an optional kind concerns.
func (f *feed) objectChanged(k *apiKind, o *unstructured.Unstructured) {
	if k == jobSets {
		jobs, err := f.factory.Batch().V1().Jobs().Lister().Jobs(o.GetNamespace()).List(watch.JobsOfSet(string(o.GetUID())))
		if err != nil {
			return // the selector is made of a UID
		}
		for _, j := range jobs {
			f.ownerChanged(j.UID)
		}
		return
	}
	f.mu.Lock()
	var list []planner.Ref
	if m := f.members[objectKey{k, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}]; m != nil {
		list = slices.Collect(maps.Values(m.withGPUs))
	}
	f.mu.Unlock()
	f.refresh(list)
}

// withGroup adds the pod's PodGroup to its workload. The workload may be nil.
func (f *feed) withGroup(pod *v1.Pod, workload *watch.Owner) *watch.Owner {
	ref, has := watch.GroupOf(pod)
	if !has {
		return workload
	}
	kind := groupKinds[ref.API]
	object, served := f.objects.get(kind, ref.Namespace, ref.Name)
	if !served {
		return workload
	}
	group := &watch.Group{Missing: true}
	if object != nil {
		group = watch.TranslateGroup(ref.API, object)
		f.mu.Lock()
		if m := f.members[objectKey{kind, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}]; m != nil {
			group.WithoutGPUs = len(m.withoutGPUs)
		}
		f.mu.Unlock()
	}
	out := &watch.Owner{}
	if workload != nil {
		*out = *workload
	}
	out.Group = group
	return out
}

// leaderWorkerSet returns the LeaderWorkerSet of a pod as its workload, or nil if it has none. It reports whether the answer
// is final.
func (f *feed) leaderWorkerSet(pod *v1.Pod) (workload *watch.Owner, known bool) {
	name := watch.LeaderWorkerSetOf(pod)
	if name == "" {
		return nil, true
	}
	object, served := f.objects.get(leaderWorkerSets, pod.Namespace, name)
	if object == nil {
		return nil, !served
	}
	set, err := watch.TranslateLeaderWorkerSet(object)
	if err != nil {
		klog.ErrorS(err, "A LeaderWorkerSet cannot be read; only the annotations of its pods count")
		return nil, true
	}
	return watch.LeaderWorkerSetOwner(pod, set), true
}

// jobSet returns the JobSet of a Job, or nil if it has none. It reports whether the answer is final.
func (f *feed) jobSet(j *batchv1.Job) (set *watch.JobSet, known bool) {
	ref := metav1.GetControllerOf(j)
	if ref == nil || ref.Kind != "JobSet" || !watch.InJobSet(j) {
		return nil, true
	}
	object, served := f.objects.get(jobSets, j.Namespace, ref.Name)
	if object == nil || object.GetUID() != ref.UID {
		return nil, !served
	}
	set, err := watch.TranslateJobSet(object)
	if err != nil {
		klog.ErrorS(err, "A JobSet cannot be read; only the labels of its Jobs count")
		return nil, true
	}
	return set, true
}
