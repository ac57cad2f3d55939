package plugin

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// claimFeed is the part of the feed for GPUs that pods get by ResourceClaims. Events of pods, claims, slices and classes
// all change what a pod asks for, and informers deliver them in any order. So every event reads the newest objects from
// the informers again. Invariant: feed.claiming is held from reading a pod or claim until the planner knows it, so that an older
// copy never follows a newer one. It is held during a decision too, so that devices pass from a pod to a claim, or back,
// between two decisions.
//
// The devices of a claim belong to the pod for which the claim is reserved if this is the only one and of this scheduler.
// Otherwise the claim itself holds them, as a pod that is never preempted.
type claimFeed struct {
	*feed
	// activate lets the scheduler take up a pod that the planner held back and does not plan any more.
	activate func(planner.Ref)

	users   map[string]map[string]planner.Ref // claim → the pods that use it, by UID
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
		feed: f, activate: activate,
		users: map[string]map[string]planner.Ref{}, used: map[string][]string{}, planned: map[string]bool{}, holders: map[string]holder{}, unknown: map[string]bool{},
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

// podChanged passes a pod with claims to the planner.
func (f *claimFeed) podChanged(r planner.Ref) {
	f.claiming.Lock()
	defer f.claiming.Unlock()
	f.refresh(r)
}

// refresh reads a pod again. A pod that ended keeps its seat until its claims are released, because its devices cannot be
// allocated to others before.
func (f *claimFeed) refresh(r planner.Ref) {
	pod := f.pod(r)
	if (pod == nil || watch.Ended(pod)) && f.planned[r.UID] && f.isHolding(r.UID) {
		return // the event of the claim calls this again
	}
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

// isHolding reports whether a claim is still allocated and reserved for a pod.
func (f *claimFeed) isHolding(uid string) bool {
	for _, key := range f.used[uid] {
		namespace, name, _ := cutLast(key, "/")
		c := f.claim(namespace, name)
		if c == nil || c.Status.Allocation == nil {
			continue
		}
		if slices.ContainsFunc(c.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return string(r.UID) == uid }) {
			return true
		}
	}
	return false
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
		if f.users[key] == nil {
			f.users[key] = map[string]planner.Ref{}
		}
		f.users[key][r.UID] = r
	}
	for _, key := range before {
		if slices.Contains(keys, key) {
			continue
		}
		delete(f.users[key], r.UID)
		f.refreshAll(f.users[key])
		if len(f.users[key]) == 0 {
			delete(f.users, key)
		}
	}
}

// update tells the planner what a pod with claims asks for.
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

func (f *claimFeed) refreshAll(users map[string]planner.Ref) {
	for _, r := range maps.Clone(users) {
		f.refresh(r)
	}
}

// updateWaiting translates all pods with claims that are not bound again, because the models of devices changed.
func (f *claimFeed) updateWaiting() {
	for _, users := range f.users {
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
	f.refreshAll(f.users[claimKey(c.Namespace, c.Name)])
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

// isPodsOwn reports whether a claim is reserved for exactly one pod, and the planner plans this pod or will do so.
func (f *claimFeed) isPodsOwn(c *resourceapi.ResourceClaim) bool {
	if len(c.Status.ReservedFor) == 1 && f.planned[string(c.Status.ReservedFor[0].UID)] {
		return true // also if the pod is gone
	}
	pod := f.consumer(c)
	return pod != nil && pod.Spec.SchedulerName == f.scheduler
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
		f.refreshAll(f.users[key])
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
		f.refreshAll(f.users[claimKey(c.Namespace, c.Name)])
	}
}
