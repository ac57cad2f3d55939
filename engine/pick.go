package engine

import (
	"math/bits"

	"github.com/ares-scheduler/ares/engine/topology/links"
)

// pickDevices chooses the devices of one member, and the NUMA node it is bound to, -1
// for none. The node has room for it.
func (n *node) pickDevices(w *request) (set uint64, numa int) {
	if w.numa == numaNone || len(n.typ.numa) == 0 {
		set, _ = n.chooseDevices(w, w.deviceMask(n.typ), 0)
		return set, -1
	}
	if w.numa == numaRequired || !w.needsDevices() {
		if set, numa = n.pickWithinNUMA(w); numa >= 0 {
			return set, numa
		}
	}
	var home uint64
	for k := range n.typ.numa {
		if n.roomInNUMA(w, k) > 0 {
			home |= n.typ.near[k]
		}
	}
	set, _ = n.chooseDevices(w, w.deviceMask(n.typ), home)
	for k := range n.typ.numa {
		if set != 0 && set&^n.typ.near[k] == 0 && n.roomInNUMA(w, k) > 0 {
			return set, k
		}
	}
	return set, -1
}

// pickWithinNUMA chooses the NUMA node whose devices are linked best, then the one
// with the least room left.
func (n *node) pickWithinNUMA(w *request) (set uint64, numa int) {
	numa = -1
	var best links.Choice
	for k := range n.typ.numa {
		room := n.roomInNUMA(w, k)
		if room == 0 {
			continue
		}
		s, c := n.chooseDevices(w, w.deviceMask(n.typ)&n.typ.near[k], 0)
		c.RemainingValue = -room
		if numa < 0 || betterLinks(c, best) {
			set, numa, best = s, k, c
		}
	}
	return set, numa
}

func betterLinks(a, b links.Choice) bool {
	if a.BottleneckMBps != b.BottleneckMBps {
		return a.BottleneckMBps > b.BottleneckMBps
	}
	if a.TotalMBps != b.TotalMBps {
		return a.TotalMBps > b.TotalMBps
	}
	return a.RemainingValue > b.RemainingValue
}

// chooseDevices picks devices out of a mask: for a share the one with the least left
// that is enough, and whole devices by their links. Warm ones come last.
func (n *node) chooseDevices(w *request, mask, home uint64) (uint64, links.Choice) {
	if !w.needsDevices() {
		return 0, links.Choice{}
	}
	for _, m := range [2]uint64{mask &^ n.warm, mask} {
		if w.milli > 0 {
			if set := n.tightestShare(m, w.milli); set != 0 {
				return set, links.Choice{}
			}
		}
		if c, ok := n.typ.links.Best(m&n.free, home, max(w.gpus, 1)); ok {
			return c.Devices, c
		}
	}
	panic("engine: node " + n.id + " has no room for what it was given")
}

// tightestShare is the partly taken device of the mask with the least left that is
// enough, empty when there is none.
func (n *node) tightestShare(mask uint64, milli int) (set uint64) {
	least := WholeMilli
	for m := mask & n.usable &^ n.free; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if left := WholeMilli - n.devices[i].taken; left >= milli && left < least {
			set, least = 1<<i, left
		}
	}
	return set
}
