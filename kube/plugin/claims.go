package plugin

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// claimFeed is the part of the feed for GPUs that pods get by ResourceClaims. Events of pods, claims, slices and classes
// all change what a pod asks for, and informers deliver them in any order. So every event reads the newest objects from
// the informers again. Invariant: mu is held from reading a pod or claim until the planner knows it, so that an older
// copy never follows a newer one.
//
// The devices of a claim belong to the pod for which the claim is reserved if this is the only one and of this scheduler.
// Otherwise the claim itself holds them, as a pod that is never preempted.
type claimFeed struct {
	*feed
	table *deviceTable
	// activate lets the scheduler take up a pod that the planner held back and does not plan any more.
	activate func(planner.Ref)

	pods    map[string]map[string]planner.Ref // claim → the pods that use it, by UID
	used    map[string][]string               // UID of a pod → its claims
	planned map[string]bool                   // UIDs of the pods that the planner knows because of their claims
	holders map[string]holder                 // by claim: those that the planner knows
	unknown map[string]bool                   // claims that are allocated, and none of their devices is known as a GPU
}

// holder is a claim that holds devices itself.
type holder struct {
	uid     string
	node    string
	devices []int
}

func newClaimFeed(f *feed, activate func(planner.Ref)) *claimFeed {
	return &claimFeed{
		feed: f, table: f.table, activate: activate,
		pods: map[string]map[string]planner.Ref{}, used: map[string][]string{}, planned: map[string]bool{}, holders: map[string]holder{}, unknown: map[string]bool{},
	}
}

// register registers the handlers of claims, slices and classes.
func (f *claimFeed) register() error {
	resource := f.factory.Resource().V1()
	for _, h := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{resource.DeviceClasses().Informer(), handle(
			func(c *resourceapi.DeviceClass) { f.classChanged(c.Name, c) },
			func(c *resourceapi.DeviceClass) { f.classChanged(c.Name, nil) })},
		{resource.ResourceSlices().Informer(), handle(
			func(s *resourceapi.ResourceSlice) { f.sliceChanged(s, true) },
			func(s *resourceapi.ResourceSlice) { f.sliceChanged(s, false) })},
		{resource.ResourceClaims().Informer(), handle(f.claimChanged, f.claimChanged)},
	} {
		r, err := h.informer.AddEventHandler(h.handler)
		if err != nil {
			return err
		}
		f.handlers = append(f.handlers, r.HasSynced)
	}
	return nil
}

func claimKey(namespace, name string) string { return namespace + "/" + name }

// claim returns the informer's copy of a claim, or nil if there is none.
func (f *feed) claim(namespace, name string) *resourceapi.ResourceClaim {
	c, err := f.factory.Resource().V1().ResourceClaims().Lister().ResourceClaims(namespace).Get(name)
	if err != nil {
		return nil
	}
	return c
}

// claimNames returns the names of the claims that a pod uses. It reports whether all of them are known: the claims of
// templates are created after the pod.
func claimNames(pod *v1.Pod) (names []string, known bool) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, false
		}
		if name != nil {
			names = append(names, *name)
		}
	}
	return names, true
}

// ownClaims returns the claims of a pod whose devices belong to no other pod, and false if a claim does not exist yet.
func (f *feed) ownClaims(pod *v1.Pod) (list []*resourceapi.ResourceClaim, known bool) {
	names, known := claimNames(pod)
	if !known {
		return nil, false
	}
	for _, name := range names {
		c := f.claim(pod.Namespace, name)
		if c == nil {
			return nil, false
		}
		if _, others := watch.ReservedFor(c, pod); c.Status.Allocation == nil || !others {
			list = append(list, c)
		}
	}
	return list, true
}

// usesGPUs reports whether the planner decides about a pod: it asks for GPUs in its limits or by claims.
func (f *feed) usesGPUs(pod *v1.Pod) bool {
	if watch.UsesGPUs(pod) {
		return true
	}
	if len(pod.Spec.ResourceClaims) == 0 || pod.Spec.SchedulerName != f.scheduler {
		return false
	}
	own, _ := f.ownClaims(pod)
	for _, c := range own {
		for _, r := range watch.DeviceRequests(c) {
			if f.table.wantsGPU(&r) {
				return true
			}
		}
	}
	return false
}

// request returns what the claims of a pod ask for, and the nodes whose devices got another model because of it. It
// reports whether the claims ask for GPUs.
func (f *claimFeed) request(pod *v1.Pod) (out watch.Claims, changed []string, uses bool) {
	own, known := f.ownClaims(pod)
	if !known || pod.Spec.SchedulerName != f.scheduler {
		return out, nil, false
	}
	var first *watch.DeviceRequest
	var match, ids []string
	for _, c := range own {
		for _, r := range watch.DeviceRequests(c) {
			if !f.table.wantsGPU(&r) {
				continue
			}
			out.GPUs += r.Count
			match = append(match, r.Match...)
			switch {
			case r.Problem != "":
				out.Problem = fmt.Sprintf("%s: %s", r.RequestText(), r.Problem)
			case first == nil:
				first = &r
			case first.Class != r.Class || !slices.Equal(first.Selectors, r.Selectors):
				out.Problem = fmt.Sprintf("%s differs from %s: all GPUs of a pod must have the same class and selectors", r.RequestText(), first.RequestText())
			}
			if other := f.before(pod, c); other != "" {
				out.Problem = fmt.Sprintf("waits until the claim %q is allocated for the pod %s, which uses it too", c.Name, other)
			}
		}
		ids = append(ids, watch.AllocatedDevices(c)...)
	}
	if out.GPUs == 0 {
		return out, nil, false
	}
	if out.Problem == "" {
		slices.Sort(match)
		first.Match = slices.Compact(match)
		if out.Models, changed, _ = f.table.selection(first); len(out.Models) == 0 {
			out.Problem = "no GPU of the cluster satisfies " + first.RequestText()
		}
	}
	if node, indexes := f.table.find(ids); node != "" && node == pod.Spec.NodeName {
		out.Devices = indexes
	}
	return out, changed, true
}

// before returns the name of a pod that gets a claim before another one, "" if there is none. Of several pods that wait
// with the same claim, only the oldest is planned. The others follow it once the claim is allocated.
func (f *claimFeed) before(pod *v1.Pod, c *resourceapi.ResourceClaim) string {
	if c.Status.Allocation != nil || pod.Spec.NodeName != "" {
		return ""
	}
	for _, r := range f.pods[claimKey(c.Namespace, c.Name)] {
		other := f.pod(r)
		if other == nil || other.UID == pod.UID || other.Spec.SchedulerName != f.scheduler || watch.Ended(other) {
			continue
		}
		if t := other.CreationTimestamp; t.Before(&pod.CreationTimestamp) || t.Equal(&pod.CreationTimestamp) && other.UID < pod.UID {
			return other.Name
		}
	}
	return ""
}

// podChanged passes a pod with claims to the planner.
func (f *claimFeed) podChanged(r planner.Ref) {
	f.claiming.Lock()
	defer f.claiming.Unlock()
	pod := f.pod(r)
	var names []string
	if pod != nil && !watch.Ended(pod) {
		names, _ = claimNames(pod)
	}
	f.track(r, names)
	for _, name := range names {
		f.hold(r.Namespace, name)
	}
	if pod == nil {
		f.planner.DeletePod(r.UID, time.Now())
		f.wake()
		delete(f.planned, r.UID)
		return
	}
	f.update(pod)
}

// track records which claims a pod uses. The other pods of a claim that it does not use any more may have waited for it.
func (f *claimFeed) track(r planner.Ref, names []string) {
	var keys []string
	for _, n := range names {
		keys = append(keys, claimKey(r.Namespace, n))
	}
	before := f.used[r.UID]
	delete(f.used, r.UID)
	if len(keys) > 0 {
		f.used[r.UID] = keys
	}
	for _, key := range keys {
		if f.pods[key] == nil {
			f.pods[key] = map[string]planner.Ref{}
		}
		f.pods[key][r.UID] = r
	}
	for _, key := range before {
		if slices.Contains(keys, key) {
			continue
		}
		delete(f.pods[key], r.UID)
		f.updateAll(f.pods[key])
		if len(f.pods[key]) == 0 {
			delete(f.pods, key)
		}
	}
}

// update passes what a pod with claims asks for to the planner.
func (f *claimFeed) update(pod *v1.Pod) {
	uid := string(pod.UID)
	claims, changed, uses := f.request(pod)
	if !uses {
		if f.planned[uid] {
			delete(f.planned, uid)
			f.planner.DeletePod(uid, time.Now())
			f.wake()
			f.activate(planner.Ref{UID: uid, Namespace: pod.Namespace, Name: pod.Name})
		}
		if watch.UsesGPUs(pod) {
			f.plan(pod, watch.TranslatePod)
		} else {
			f.count(pod, !watch.Ended(pod) && pod.Spec.NodeName != "")
		}
		return
	}
	f.count(pod, false)
	f.planned[uid] = true
	f.plan(pod, func(p *v1.Pod, owner *watch.Owner, labels map[string]string) *watch.Pod {
		return watch.TranslateClaimPod(p, owner, labels, claims)
	})
	if len(changed) > 0 {
		f.resend(changed)
		f.updateWaiting()
	}
}

func (f *claimFeed) updateAll(users map[string]planner.Ref) {
	for _, r := range users {
		if pod := f.pod(r); pod != nil {
			f.update(pod)
		}
	}
}

// updateWaiting translates all pods with claims that are not bound again, because the models of devices changed.
func (f *claimFeed) updateWaiting() {
	for _, users := range f.pods {
		for _, r := range users {
			if pod := f.pod(r); pod != nil && pod.Spec.NodeName == "" {
				f.update(pod)
			}
		}
	}
}

// resend passes nodes to the planner whose devices changed.
func (f *claimFeed) resend(names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.send(f.use(name))
	}
}

func (f *claimFeed) claimChanged(c *resourceapi.ResourceClaim) {
	f.claiming.Lock()
	defer f.claiming.Unlock()
	f.hold(c.Namespace, c.Name)
	f.updateAll(f.pods[claimKey(c.Namespace, c.Name)])
}

// hold makes a claim the holder of its devices, or ends that.
func (f *claimFeed) hold(namespace, name string) {
	key := claimKey(namespace, name)
	want, c := holder{}, f.claim(namespace, name)
	delete(f.unknown, key)
	if ids := allocated(c); len(ids) > 0 {
		node, indexes := f.table.find(ids)
		switch {
		case len(indexes) == 0:
			f.unknown[key] = true
		case !f.isPodsOwn(c):
			want = holder{watch.HolderUID(c), node, indexes}
		}
	}
	have := f.holders[key]
	if have.uid == want.uid && have.node == want.node && slices.Equal(have.devices, want.devices) {
		return
	}
	if have.uid != "" {
		f.planner.DeletePod(have.uid, time.Now())
		delete(f.holders, key)
	}
	if want.uid != "" {
		f.holders[key] = want
		f.planner.SetPod(watch.ClaimHolder(c, want.node, want.devices), time.Now())
	}
	f.wake()
}

func allocated(c *resourceapi.ResourceClaim) []string {
	if c == nil {
		return nil
	}
	return watch.AllocatedDevices(c)
}

// isPodsOwn reports whether a claim is reserved for exactly one pod, and this pod is of this scheduler.
func (f *claimFeed) isPodsOwn(c *resourceapi.ResourceClaim) bool {
	pod := f.consumer(c)
	return pod != nil && pod.Spec.SchedulerName == f.scheduler
}

// consumer returns the pod for which a claim is reserved if it is the only one, else nil.
func (f *feed) consumer(c *resourceapi.ResourceClaim) *v1.Pod {
	if len(c.Status.ReservedFor) != 1 || c.Status.ReservedFor[0].APIGroup != "" || c.Status.ReservedFor[0].Resource != "pods" {
		return nil
	}
	r := c.Status.ReservedFor[0]
	return f.pod(planner.Ref{UID: string(r.UID), Namespace: c.Namespace, Name: r.Name})
}

func (f *claimFeed) sliceChanged(s *resourceapi.ResourceSlice, present bool) {
	f.claiming.Lock()
	defer f.claiming.Unlock()
	changed, newKinds := f.table.setSlice(s, present)
	if !changed {
		return
	}
	f.resend([]string{*s.Spec.NodeName})
	for key := range maps.Clone(f.unknown) {
		namespace, name, _ := cutLast(key, "/")
		f.hold(namespace, name)
		f.updateAll(f.pods[key])
	}
	if newKinds {
		f.updateWaiting()
	}
}

func (f *claimFeed) classChanged(name string, c *resourceapi.DeviceClass) {
	f.claiming.Lock()
	defer f.claiming.Unlock()
	f.resend(f.table.setClass(name, c))
	list, err := f.factory.Resource().V1().ResourceClaims().Lister().List(labels.Everything())
	if err != nil {
		return // a list from the informer does not fail
	}
	for _, c := range list {
		f.hold(c.Namespace, c.Name)
		f.updateAll(f.pods[claimKey(c.Namespace, c.Name)])
	}
}
