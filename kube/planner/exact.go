package planner

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// A ResourceClaim says exactly which devices a pod uses. What is allocated wins over what is planned.

// exactSeat returns the seat of a pod that gets its GPUs by claims. Of other devices it gets none. If the devices are
// allocated to it, the plans of pods that are not bound are withdrawn.
func (p *Planner) exactSeat(o *pod, name string, wanted []int) ares.Seat {
	n := p.node(name)
	seat := ares.Seat{Node: name, CPUs: o.Spec.CPUs, CPUMilli: int(o.Spec.CPUMilli), Memory: o.Spec.MemoryMB, NUMA: -1}
	for _, index := range wanted {
		if n.record == nil || index >= len(n.record.Devices) || len(seat.Shares) == o.GPUs {
			continue
		}
		if holder := p.pods[n.taken[index]]; o.Exact && holder != nil && holder != o && holder.Node == "" && holder.unit != nil {
			p.withdraw(holder)
		}
		if _, taken := n.taken[index]; !taken {
			n.taken[index] = o.UID
			seat.Shares = append(seat.Shares, ares.Share{Device: n.record.Devices[index].ID, Index: index, Milli: 1000})
		}
	}
	return seat
}

// withdraw takes back the plan of a pod that is not bound. If a pod of its gang is bound, only this pod is planned again.
func (p *Planner) withdraw(o *pod) {
	p.release(o, nil)
	if o.unit != nil {
		o.unit = nil
		p.changed[o.gang] = true
		p.withdrawn = append(p.withdrawn, Ref{o.UID, o.Namespace, o.Name})
	}
}

// hasDevices reports whether a seat has the devices with these indexes, in any order.
func hasDevices(s *ares.SeatStatus, list []int) bool {
	return slices.Equal(slices.Sorted(slices.Values(list)), slices.Sorted(slices.Values(indexes(s))))
}

// reconsider takes a unit that waits back if the pod or its owner says something else now than when the unit was made.
func (p *Planner) reconsider(known *pod, seen *watch.Pod) {
	if u := known.unit; u != nil && u.fence == 0 && (seen.Problem != known.Problem || seen.Gang != known.Gang || !sameRequest(&known.Spec, &seen.Spec)) {
		p.startAgain(u)
	}
}

// protection says why a pod of another scheduler, or a claim, is never preempted.
func protection(o *pod) string {
	if o.ByClaim {
		return "the ResourceClaim " + o.FullName() + " holds the devices"
	}
	return "the pod " + o.FullName() + " belongs to the scheduler " + o.Scheduler
}
