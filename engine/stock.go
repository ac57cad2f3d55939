package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// stock is roughly what a node has left, as far as the choice between nodes
// goes. It is a value to compare: nodes of one stock are as good as each other
// at first sight.
type stock struct {
	profile int32
	whole   [maxGroups]uint8 // free devices
	cpus    uint8            // in grains of the machine's whole
	memory  uint8            // in grains of the machine's whole
	warm    uint8            // free devices that are near the limit of heat
}

// grains is how finely CPUs and memory are told apart.
const grains = 16

// stockOf is what the node has left.
func stockOf(n *node) stock {
	k := stock{
		profile: int32(n.profile.id), warm: uint8(bits.OnesCount64(n.free & n.warm)),
		cpus: grain(n.profile.cpus-n.cpus, n.profile.cpus), memory: grain(n.record.MemoryMB-n.memory, n.profile.memory),
	}
	for g, mask := range n.profile.groups {
		if mask != 0 {
			k.whole[g] = uint8(bits.OnesCount64(n.free & mask))
		}
	}
	return k
}

func grain(left, of int) uint8 {
	if of == 0 || left <= 0 {
		return 0
	}
	return uint8(min(left*grains/of, grains))
}

// compare orders stocks of one profile by content, so that no choice depends on
// when each was first seen.
func (k *stock) compare(o *stock) int {
	return cmp.Or(slices.Compare(k.whole[:], o.whole[:]), cmp.Compare(k.cpus, o.cpus), cmp.Compare(k.memory, o.memory), cmp.Compare(k.warm, o.warm))
}

// shelf is what is left somewhere, in plain units, to reckon with.
type shelf struct {
	profile *profile
	whole   [maxGroups]int
	parts   [MaxDevices]int // thousandths left of partly taken devices
	count   int             // of parts
	cpus    int
	memory  int
	warm    int
}

// fill makes the shelf of a stock: free devices, and of CPUs and memory the
// middle of the grain. Parts of devices have an index of their own.
func (h *shelf) fill(p *profile, k *stock) {
	h.profile, h.warm, h.count = p, int(k.warm), 0
	for g, n := range k.whole {
		h.whole[g] = int(n)
	}
	h.cpus, h.memory = (2*int(k.cpus)+1)*p.cpus/(2*grains), (2*int(k.memory)+1)*p.memory/(2*grains)
}

// most is the most CPUs and memory a node of the stock may have left.
func (k *stock) most(p *profile) (cpus, memory int) {
	return upTo(k.cpus, p.cpus), upTo(k.memory, p.memory)
}

// least is what every node of the stock has left of CPUs and memory.
func (k *stock) least(p *profile) (cpus, memory int) {
	return (int(k.cpus)*p.cpus + grains - 1) / grains, (int(k.memory)*p.memory + grains - 1) / grains
}

// upTo is the most that is still in a grain.
func upTo(g uint8, of int) int {
	if g == grains {
		return math.MaxInt
	}
	return ((int(g)+1)*of - 1) / grains
}

// fillFrom makes the shelf of one node, exactly.
func (h *shelf) fillFrom(n *node) {
	h.profile, h.warm, h.count = n.profile, bits.OnesCount64(n.free&n.warm), 0
	for g, mask := range n.profile.groups {
		h.whole[g] = bits.OnesCount64(n.free & mask)
	}
	for m := n.usable &^ n.free; m != 0; m &= m - 1 {
		if left := wholeMilli - n.devices[bits.TrailingZeros64(m)].taken; left > 0 {
			h.parts[h.count] = left
			h.count++
		}
	}
	h.cpus, h.memory = n.profile.cpus-n.cpus, n.record.MemoryMB-n.memory
}
