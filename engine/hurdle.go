package engine

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// hurdle is the first thing that rules a node out, in the order they are told.
type hurdle int

const (
	noSession hurdle = iota
	isCordoned
	isUnfit
	otherLabels
	otherRegion
	tainted
	otherKind
	otherModel
	smallDevices
	overQuota
	unhealthy
	tooSmall
	busyDevices
	busyCPUs
	busyMemory
	noNUMA
	fullSeats
	badCompany
	scattered
	allClear
	hurdles
)

// kind is the kind of blocker: what is busy may come free.
func (h hurdle) kind() string {
	switch {
	case h == badCompany:
		return kindNear
	case h == overQuota:
		return kindQuota
	case h >= busyDevices:
		return kindCapacity
	}
	return kindNodes
}

// hurdle is the first thing that rules the node out for one member. asked is
// the want before models were left out for lack of quota.
func (n *node) hurdle(w, asked *want) hurdle {
	switch {
	case n.session == nil:
		return noSession
	case n.cordon != nil:
		return isCordoned
	case n.record.Unfit != "":
		return isUnfit
	case !n.labelled(w):
		return otherLabels
	case !n.within(w):
		return otherRegion
	case !n.tolerated(w):
		return tainted
	}
	if w.devices() {
		if h := n.deviceHurdle(w, asked); h != allClear {
			return h
		}
	}
	switch {
	case n.profile.cpus < w.cpus || n.record.MemoryMB < w.memory:
		return tooSmall
	case n.seats >= MaxSeats:
		return fullSeats
	case n.profile.cpus-n.cpus < w.cpus:
		return busyCPUs
	case n.record.MemoryMB-n.memory < w.memory:
		return busyMemory
	case n.room(w) == 0:
		return noNUMA
	}
	return allClear
}

// tolerated says whether the node has no taint that keeps the want off.
func (n *node) tolerated(w *want) bool {
	for _, t := range n.record.Taints {
		if t.Effect != ares.PreferNoSchedule && !w.tolerates(t) {
			return false
		}
	}
	return true
}

// freeFor is how many devices of the right kind nobody holds.
func (n *node) freeFor(w *want) int { return bits.OnesCount64(w.mask(n.profile) & n.free) }

// deviceHurdle follows the devices through what is asked of them, and stops
// where too few are left.
func (n *node) deviceHurdle(w, asked *want) hurdle {
	need := max(w.gpus, 1)
	mask := w.mask(n.profile)
	switch {
	case bits.OnesCount64(mask) < need:
		return n.profile.hurdle(w, asked, need)
	case bits.OnesCount64(mask&n.usable) < need:
		return unhealthy
	case w.gpus > 0 && bits.OnesCount64(mask&n.free) < need, w.milli > 0 && n.parts(mask, w.milli) == 0:
		return busyDevices
	}
	return allClear
}

// hurdle says in what respect the profile has too few devices.
func (p *profile) hurdle(w, asked *want, need int) hurdle {
	var kind, model, memory, quota int
	for i := range p.devices {
		d := &p.devices[i]
		if d.kind != w.kind || d.mig != w.mig {
			continue
		}
		kind++
		if !w.likes(d.model) {
			continue
		}
		model++
		if d.memory < w.deviceMemory {
			continue
		}
		memory++
		if asked.mask(p)&(1<<i) != 0 {
			quota++
		}
	}
	switch {
	case kind == 0:
		return otherKind
	case kind < need:
		return tooSmall
	case model < need:
		return otherModel
	case memory < need:
		return smallDevices
	case quota >= need:
		return overQuota
	}
	return tooSmall
}
