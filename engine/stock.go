package engine

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxParts is how many partly taken devices of a node are told apart when
// nodes are compared.
const maxParts = 16

// stock is what a node has left, as far as the choice between nodes goes. It is
// a value to compare: nodes with the same stock are as good as each other.
type stock struct {
	profile int32
	warm    uint8 // free devices that are near the limit of heat
	whole   [maxGroups]uint8
	parts   [maxParts]uint16 // group and free thousandths of partly taken devices, largest first
	cpus    int32            // in grains
	memory  int32            // in grains
}

// grains is how finely CPUs and memory are told apart: by so many steps of a
// machine's whole. Devices are told apart by partGrain thousandths.
const (
	grains    = 16
	partGrain = 50
)

func part(group, milli int) uint16 { return uint16(group<<10 | milli) }

func partOf(p uint16) (group, milli int) { return int(p >> 10), int(p & 1023) }

// stockOf is what the node has left.
func (s *State) stockOf(n *node) stock {
	k := stock{profile: int32(n.profile.id), warm: uint8(bits.OnesCount64(n.free & n.warm))}
	for g, mask := range n.profile.groups {
		k.whole[g] = uint8(bits.OnesCount64(n.free & mask))
	}
	parts := 0
	for m := n.usable &^ n.free; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		left := wholeMilli - n.devices[i].taken
		if !s.cfg.Exact {
			left -= left % partGrain
		}
		if left > 0 && parts < maxParts {
			k.parts[parts] = part(n.profile.devices[i].group, left)
			parts++
		}
	}
	slices.SortFunc(k.parts[:parts], func(a, b uint16) int { return cmp.Compare(b, a) })
	k.cpus, k.memory = int32(max(n.profile.cpus-n.cpus, 0)), int32(max(n.record.MemoryMB-n.memory, 0))
	if !s.cfg.Exact {
		k.cpus, k.memory = grain(k.cpus, n.profile.cpus), grain(k.memory, n.profile.memory)
	}
	return k
}

func grain(left int32, of int) int32 {
	if of == 0 {
		return 0
	}
	return int32(min(int(left)*grains/of, grains))
}

// compare orders stocks by content, so that no choice depends on when each was
// first seen.
func (k *stock) compare(o *stock) int {
	return cmp.Or(cmp.Compare(k.profile, o.profile), slices.Compare(k.whole[:], o.whole[:]), slices.Compare(k.parts[:], o.parts[:]),
		cmp.Compare(k.cpus, o.cpus), cmp.Compare(k.memory, o.memory), cmp.Compare(k.warm, o.warm))
}

// shelf is a stock unpacked for reckoning: what is left in plain units, and of
// CPUs and memory the most that may be left.
type shelf struct {
	profile            *profile
	whole              [maxGroups]int
	parts              []uint16
	cpus, mostCPUs     int
	memory, mostMemory int
	warm               int
}

func (s *State) shelfOf(k *stock) shelf {
	p := s.profiles.all[k.profile]
	h := shelf{profile: p, warm: int(k.warm), cpus: int(k.cpus), mostCPUs: int(k.cpus), memory: int(k.memory), mostMemory: int(k.memory)}
	for g, n := range k.whole {
		h.whole[g] = int(n)
	}
	parts := slices.Index(k.parts[:], 0)
	if parts < 0 {
		parts = maxParts
	}
	h.parts = k.parts[:parts]
	if !s.cfg.Exact {
		h.cpus, h.mostCPUs = int(k.cpus)*p.cpus/grains, (int(k.cpus)+1)*p.cpus/grains
		h.memory, h.mostMemory = int(k.memory)*p.memory/grains, (int(k.memory)+1)*p.memory/grains+p.memory/32
	}
	return h
}

// slack is how much more a partly taken device may have than its stock says.
func (s *State) slack() int {
	if s.cfg.Exact {
		return 0
	}
	return partGrain - 1
}
