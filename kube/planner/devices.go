package planner

import (
	"cmp"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// With a device plugin, the kubelet chooses the devices of a pod, and says their IDs only when the pod runs. The engine knows
// the devices of a node by indexes. Which index a device has does not matter, as long as it keeps it: so a device that is
// seen for the first time gets an index of the plan of its pod. Later, the kubelet may give this device to a pod whose plan
// has another index. Then the pod's seat is corrected, so that no pod is planned on devices that another one uses.
//
// Invariant: two pods whose devices are known never have the same index.

// Correction says that the kubelet gave a pod other devices than planned.
type Correction struct {
	Pod           Ref
	Node          string
	Planned, Real []int    // indexes
	Devices       []string // the IDs of the real ones
}

// isKnown reports whether the kubelet said which devices the pod uses. A claim says it before the pod runs.
func (o *pod) isKnown() bool {
	return o.Node != "" && o.GPUs > 0 && len(o.Devices) == o.GPUs && !o.ByClaim
}

// noteDevices remembers that the seat of a pod may have to be corrected.
func (p *Planner) noteDevices(o *pod) {
	if !o.isKnown() {
		return
	}
	if p.unread == nil {
		p.unread = map[*pod]bool{}
	}
	p.unread[o] = true
}

// readDevices corrects the seats of the pods whose devices became known. A pod stays in p.unread while the kubelet says that
// another pod uses one of its devices: that pod has ended, and its end is not seen yet.
func (p *Planner) readDevices() (corrected []Correction) {
	if len(p.unread) == 0 {
		return nil
	}
	for _, o := range slices.SortedFunc(maps.Keys(p.unread), func(a, b *pod) int { return cmp.Compare(a.UID, b.UID) }) {
		if p.pods[o.UID] != o || !o.isKnown() {
			delete(p.unread, o)
			continue
		}
		before, _ := o.indexesOn(o.Node)
		if !p.correct(o) {
			continue
		}
		delete(p.unread, o)
		if after, _ := o.indexesOn(o.Node); !slices.Equal(before, after) {
			corrected = append(corrected, Correction{Ref{o.UID, o.Namespace, o.Name}, o.Node, before, after, o.Devices})
		}
	}
	return corrected
}

// indexesOn returns the indexes of a pod's devices on a node, sorted. It reports whether the pod has a seat there.
func (o *pod) indexesOn(name string) ([]int, bool) {
	if o.unit == nil {
		return nil, false
	}
	s := o.unit.seat(o.rank)
	if s == nil || s.State.Free() || s.Node != name {
		return nil, false
	}
	return slices.Sorted(slices.Values(indexes(s))), true
}

// correct gives a pod the seat with its real devices. A pod that was planned on one of them gets another index in exchange. It
// returns false if this is not possible yet.
func (p *Planner) correct(o *pod) bool {
	n := p.nodes[o.Node]
	own, seated := o.indexesOn(o.Node)
	if !seated || n == nil || n.record == nil {
		return false
	}
	want := make([]int, 0, len(o.Devices))
	for _, id := range o.Devices {
		index, ok := p.learn(n, id, own)
		if !ok {
			return false
		}
		want = append(want, index)
	}
	slices.Sort(want)
	if slices.Equal(want, own) {
		return true
	}
	exchanges, ok := p.exchanges(n, o, own, want)
	if !ok {
		return false
	}
	for _, e := range exchanges {
		list, _ := e.pod.indexesOn(o.Node)
		p.reseat(n, e.pod, append(slices.DeleteFunc(list, func(index int) bool { return index == e.from }), e.to))
		e.pod.moved = true
	}
	p.reseat(n, o, want)
	return true
}

// learn returns the index of a device. A device without an index gets one that no other device has: of the pod's own, or
// else a free one, or else any. If all have one, the device replaced another one, which no pod uses.
func (p *Planner) learn(n *node, id string, own []int) (int, bool) {
	count := len(n.record.Devices)
	if index, ok := n.ids[id]; ok && index < count {
		return index, true
	}
	if n.ids == nil {
		n.ids = map[string]int{}
	}
	named := make([]string, count)
	for other, index := range n.ids {
		if index < count {
			named[index] = other
		}
	}
	order := slices.DeleteFunc(slices.Clone(own), func(index int) bool { return index >= count })
	for index := range count {
		if n.taken[index] == "" {
			order = append(order, index)
		}
	}
	for index := range count {
		order = append(order, index)
	}
	for _, index := range order {
		if named[index] == "" {
			n.ids[id] = index
			return index, true
		}
	}
	for _, index := range order {
		if !p.isUsed(n, named[index]) {
			delete(n.ids, named[index])
			n.ids[id] = index
			return index, true
		}
	}
	return 0, false
}

// isUsed reports whether a pod of the node uses the device.
func (p *Planner) isUsed(n *node, id string) bool {
	for _, o := range p.pods {
		if o.Node == n.record.ID && o.isKnown() && slices.Contains(o.Devices, id) {
			return true
		}
	}
	return false
}

// An exchange moves a pod from one index to another.
type exchange struct {
	pod      *pod
	from, to int
}

// exchanges returns the moves of other pods by which a pod gets the wanted indexes. It returns false if another pod uses one
// of the same devices or has exactly the planned ones, or if no index is left for another pod.
func (p *Planner) exchanges(n *node, o *pod, own, want []int) (out []exchange, possible bool) {
	count := len(n.record.Devices)
	left := slices.DeleteFunc(slices.Clone(own), func(index int) bool { return index >= count || slices.Contains(want, index) })
	for index := range count {
		if n.taken[index] == "" && !slices.Contains(want, index) {
			left = append(left, index)
		}
	}
	for _, index := range want {
		other := p.pods[n.taken[index]]
		if other == nil || other == o {
			continue
		}
		shared := slices.ContainsFunc(o.Devices, func(id string) bool { return n.ids[id] == index && slices.Contains(other.Devices, id) })
		if shared && other.isKnown() || other.ByClaim || len(left) == 0 {
			return nil, false
		}
		out = append(out, exchange{other, index, left[0]})
		left = left[1:]
	}
	return out, true
}

// reseat changes the devices of a pod that has a seat on the node.
func (p *Planner) reseat(n *node, o *pod, list []int) {
	slices.Sort(list)
	old := o.unit.seat(o.rank).Seat
	shares := make([]ares.Share, len(list)) // the engine has the old slice too
	for i, index := range list {
		shares[i] = ares.Share{Device: n.record.Devices[index].ID, Index: index, Milli: 1000}
	}
	p.free(old, o.UID)
	p.changeRun(o.unit, func(r *ares.Run) { r.Last().Seats[o.seatIndex()].Shares = shares })
	p.take(o.unit.seat(o.rank).Seat, o.UID)
}
