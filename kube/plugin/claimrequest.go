package plugin

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

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
	out.Type = f.table.deviceType()
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
	for _, r := range f.users[claimKey(c.Namespace, c.Name)] {
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

// consumer returns the pod for which a claim is reserved if it is the only one, else nil.
func (f *feed) consumer(c *resourceapi.ResourceClaim) *v1.Pod {
	if len(c.Status.ReservedFor) != 1 || c.Status.ReservedFor[0].APIGroup != "" || c.Status.ReservedFor[0].Resource != "pods" {
		return nil
	}
	r := c.Status.ReservedFor[0]
	return f.pod(planner.Ref{UID: string(r.UID), Namespace: c.Namespace, Name: r.Name})
}

func allocated(c *resourceapi.ResourceClaim) []string {
	if c == nil {
		return nil
	}
	return watch.AllocatedDevices(c)
}
