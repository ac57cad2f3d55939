package engine

import "math/bits"

// shelf is what is left on a node, in plain units, to reckon with.
type shelf struct {
	whole  [maxGroups]int32 // free devices
	total  int32            // all of these
	warm   int32            // of these, near the limit of heat
	parts  int64            // thousandths of all devices that shares will fill
	cpus   int64
	memory int64
	usable int64 // by the expected mix
}

// warmCost is what using a device near the limit of heat costs: more than any
// fragmentation.
const warmCost = 1 << 40

// stranding is the cost of a placement as people read it: what it adds to the
// capacity the expected jobs cannot use, in thousandths of a device.
func stranding(cost int64) int {
	if cost > warmCost/2 {
		cost -= warmCost
	}
	return int((cost >> tieBits) / mixWhole)
}

// tieBits are the lowest bits of a cost: they tell apart what strands the same.
const tieBits = 10

// stack makes the shelf of an open node: what it has left, and what of that
// the expected mix can use.
func (s *State) stack(n *node) {
	o, p := &s.demand.now, n.profile
	h := shelf{warm: int32(bits.OnesCount64(n.free & n.warm)), cpus: int64(max(p.cpus-n.cpus, 0)), memory: int64(max(n.record.MemoryMB-n.memory, 0))}
	for g, mask := range p.groups {
		if mask != 0 {
			h.whole[g] = int32(bits.OnesCount64(n.free & mask))
			h.total += h.whole[g]
		}
	}
	h.parts = int64(h.total) * int64(o.fills[wholeMilli])
	for m := n.usable &^ n.free; m != 0; m &= m - 1 {
		h.parts += int64(o.fills[max(wholeMilli-n.devices[bits.TrailingZeros64(m)].taken, 0)])
	}
	h.usable = h.use(o.appetites(p))
	n.shelf = h
}

// use is how much of what is left the expected kinds could use, in thousandths
// of a device by their weights: each kind as if it came alone, bounded by
// devices, by CPUs and by memory. What a placement takes of it beyond what it
// holds itself is stranded: the fragmentation gradient of Weng and others
// (USENIX ATC 2023), with CPUs and memory counted as well, so that devices are
// not left beside too few of either.
func (h *shelf) use(kinds []appetite) int64 {
	if h.parts == 0 && h.total == 0 {
		return 0
	}
	var sum int64
	for i := range kinds {
		a := &kinds[i]
		most := h.parts
		if a.gpus > 0 {
			most = h.fitting(a) * wholeMilli
		}
		if a.cpu > 0 {
			most = min(most, h.cpus*a.cpu>>carry)
		}
		if a.memory > 0 {
			most = min(most, h.memory*a.memory>>carry)
		}
		sum += most * a.weight
	}
	return sum
}

// fitting is how many free devices asks of the kind could take.
func (h *shelf) fitting(a *appetite) int64 {
	free := int64(h.whole[0])
	if a.groups != 1 {
		free = 0
		for g, n := range h.whole {
			free += int64(n) * int64(a.groups>>g&1)
		}
	}
	if a.gpus > 1 {
		free -= free % a.gpus
	}
	return free
}

// noFit is the cost of a node that cannot take the want.
const noFit = 1<<63 - 1

// cost is what placing one member of the want on the node would strand: lower
// is better. noFit when it has no room. Who did badly so far costs more.
func (s *State) cost(w *want, n *node) int64 {
	if sp := &s.spare[n.at]; int(sp.cpus) < w.cpus || int(sp.memory) < w.memory || !n.fits(w) {
		return noFit
	}
	o, p := &s.demand.now, n.profile
	h := n.shelf
	h.cpus, h.memory = max(h.cpus-int64(w.cpus), 0), max(h.memory-int64(w.memory), 0)
	if w.devices() {
		h.take(w, n, o)
	}
	took := int64(w.gpus*wholeMilli + w.milli)
	cost := (n.shelf.usable - h.use(o.appetites(p)) - took*mixWhole) << tieBits
	// Then the tightest: fewest free devices left over, fewest CPUs.
	cost += int64(h.total) * 8
	if p.cpus > 0 {
		cost += min(h.cpus*8/int64(p.cpus), 7)
	}
	if w.devices() && h.total < h.warm {
		cost += warmCost
	}
	return cost + n.blame
}

// take removes the devices that the want would get on the node, or the part of
// one.
func (h *shelf) take(w *want, n *node, o *prospect) {
	mask := w.mask(n.profile)
	need := int32(w.gpus)
	if w.milli > 0 {
		set := n.tightest(mask, w.milli)
		if set != 0 {
			left := wholeMilli - n.devices[bits.TrailingZeros64(set)].taken
			h.parts += int64(o.fills[left-w.milli] - o.fills[left])
			return
		}
		h.parts += int64(o.fills[wholeMilli-w.milli])
		need = 1
	}
	h.parts -= int64(need) * int64(o.fills[wholeMilli])
	h.total -= need
	for g := range h.whole {
		if mask&n.profile.groups[g] != 0 {
			some := min(need, h.whole[g])
			h.whole[g] -= some
			need -= some
		}
	}
}
