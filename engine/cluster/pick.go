package cluster

import (
	"math/bits"

	"github.com/ares-scheduler/ares/engine/topology/links"
)

// PickDevices chooses the devices of one member. PickDevices also returns the index of the NUMA node that the member
// is bound to, or -1 if the member is not bound. The member must fit on the node.
func (n *Node) PickDevices(w *Request) (set uint64, numa int) {
	if w.NUMA == NUMANone || len(n.Type.numa) == 0 {
		set, _ = n.ChooseDevices(w, w.DeviceMask(n.Type), 0)
		return set, -1
	}
	if w.NUMA == NUMARequired || !w.NeedsDevices() {
		if set, numa = n.pickWithinNUMA(w); numa >= 0 {
			return set, numa
		}
	}
	var home uint64
	for k := range n.Type.numa {
		if n.roomInNUMA(w, k) > 0 {
			home |= n.Type.Near[k]
		}
	}
	set, _ = n.ChooseDevices(w, w.DeviceMask(n.Type), home)
	for k := range n.Type.numa {
		if set != 0 && set&^n.Type.Near[k] == 0 && n.roomInNUMA(w, k) > 0 {
			return set, k
		}
	}
	return set, -1
}

// pickWithinNUMA chooses devices within one NUMA node. It prefers the NUMA node with the best links. On a tie, it
// prefers the NUMA node with the least free capacity. The result `numa` is -1 if the member fits in no NUMA node.
func (n *Node) pickWithinNUMA(w *Request) (set uint64, numa int) {
	numa = -1
	var best links.Choice
	for k := range n.Type.numa {
		room := n.roomInNUMA(w, k)
		if room == 0 {
			continue
		}
		s, c := n.ChooseDevices(w, w.DeviceMask(n.Type)&n.Type.Near[k], 0)
		c.RemainingValue = -room
		if numa < 0 || betterLinks(c, best) {
			set, numa, best = s, k, c
		}
	}
	return set, numa
}

// betterLinks reports whether choice a is better than choice b. It compares the bottleneck bandwidths first,
// then the total bandwidths, then the value of the devices that would remain free.
func betterLinks(a, b links.Choice) bool {
	if a.BottleneckMBps != b.BottleneckMBps {
		return a.BottleneckMBps > b.BottleneckMBps
	}
	if a.TotalMBps != b.TotalMBps {
		return a.TotalMBps > b.TotalMBps
	}
	return a.RemainingValue > b.RemainingValue
}

// ChooseDevices chooses devices for one member from the devices in a mask. For a share, ChooseDevices chooses the
// device with the least free capacity among the devices that have enough. For whole devices, ChooseDevices chooses
// the devices with the best links, and prefers the devices in the mask named `home`. ChooseDevices uses warm
// devices only if the other devices are not enough. The caller must ensure that the member fits on the devices in
// the mask.
func (n *Node) ChooseDevices(w *Request, mask, home uint64) (uint64, links.Choice) {
	if !w.NeedsDevices() {
		return 0, links.Choice{}
	}
	for _, m := range [2]uint64{mask &^ n.Warm, mask} {
		if w.Milli > 0 {
			if set := n.TightestShare(m, w.Milli); set != 0 {
				return set, links.Choice{}
			}
		}
		if c, ok := n.Type.Links.Best(m&n.Free, home, max(w.GPUs, 1)); ok {
			return c.Devices, c
		}
	}
	panic("engine: node " + n.ID + " has no room for what it was given")
}

// TightestShare looks for a partly allocated device that has enough free capacity for a share. It returns the mask
// of the device with the least free capacity among these. The result is 0 if there is no such device.
func (n *Node) TightestShare(mask uint64, milli int) (set uint64) {
	least := WholeMilli
	for m := mask & n.Usable &^ n.Free; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if left := WholeMilli - n.Devices[i].Taken; left >= milli && left < least {
			set, least = 1<<i, left
		}
	}
	return set
}
