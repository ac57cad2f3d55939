package score

import (
	"cmp"

	"github.com/ares-scheduler/ares/engine/cluster"
)

const (
	// mixTotal is what the weights of a mix add up to.
	mixTotal = 4096
	// observedWeight is what one ask weighs beside the default mix, whose thousand
	// counts twice: as much as 31 asks.
	observedWeight = 64
	// maxMixKinds is how many kinds of asks are told apart: those that ask for the
	// most devices, all together. A look at a node takes time for each.
	maxMixKinds = 16
	// minMixWeight is what a kind weighs at least to be told apart.
	minMixWeight = mixTotal / 1024
	// rareShift is how much less often than anything else, as a power of two, a
	// device is supposed to have no visitor any more.
	rareShift = 8
)

// WorkloadMix is the mix that is expected: kinds of asks, and what becomes of
// devices of which a part is taken.
type WorkloadMix struct {
	ID    int // tells it from every other, from 1
	Kinds []mixKind
	Fills [cluster.WholeMilli + 1]int32 // by what is left of a device: what shares and whole devices will fill of it
}

// mixKind is a kind of ask with its weight in mixWhole.
type mixKind struct {
	Kind    demandKind
	example *cluster.Request // nil for one of a Mix
	weight  int
}

// mixDemand is an expected kind held against the machines of one profile.
type mixDemand struct {
	weight int64
	gpus   int64 // whole devices, 0 for shares
	groups uint8 // of devices that fit
	cpu    int64 // thousandths of a device that one CPU carries, shifted by carry; 0 for any number
	memory int64 // the same of one MB
}

// carryBits is the precision of what a CPU carries.
const carryBits = 20

// typeDemands is the mix as nodes of one type can serve it.
type typeDemands struct {
	mix     int // the mix that it is of
	demands []mixDemand
}

// demandsOn are the expected kinds as machines of the profile can serve them.
// They are worked out once for each prospect.
func (sc *Scorer) demandsOn(p *cluster.NodeType) []mixDemand {
	for len(sc.types) <= p.ID {
		sc.types = append(sc.types, typeDemands{})
	}
	o, d := &sc.Demand.Mix, &sc.types[p.ID]
	if d.mix == o.ID {
		return d.demands
	}
	d.mix, d.demands = o.ID, d.demands[:0]
	for i := range o.Kinds {
		e := &o.Kinds[i]
		a := mixDemand{weight: int64(e.weight), gpus: int64(e.Kind.GPUs), groups: servedGroups(p, e.example)}
		if a.groups == 0 {
			continue // never for this machine: it has nothing to keep for it
		}
		if e.example != nil {
			a.cpu, a.memory = unitsPerDevice(1, e.Kind.cpus), unitsPerDevice(1, e.Kind.memory)
		} else {
			share := int64(e.Kind.percent)
			a.cpu = unitsPerDevice(100*len(p.Devices), int64(p.CPUs)*share)
			a.memory = unitsPerDevice(100*len(p.Devices), int64(p.Memory)*share)
		}
		d.demands = append(d.demands, a)
	}
	return d.demands
}

// unitsPerDevice is what one unit carries, in thousandths of a device shifted, when so
// many devices take so many units.
func unitsPerDevice(devices int, units int64) int64 {
	if units <= 0 {
		return 0
	}
	return max(int64(devices)*cluster.WholeMilli<<carryBits/units, 1)
}

// servedGroups is the groups of devices that suit the want, all for none.
func servedGroups(p *cluster.NodeType, like *cluster.Request) (groups uint8) {
	for g, mask := range p.Groups {
		if mask != 0 && (like == nil || like.DeviceMask(p)&mask != 0) {
			groups |= 1 << g
		}
	}
	return groups
}

// computeFills works out what becomes of a device with so much left, for every
// amount. Visitors come as often as kinds were asked for, each that fits is
// taken in, and now and then nobody comes any more.
//
// That is why 190 thousandths beside a job of 810 count for little where
// nobody asks for less than 200, and why 530 count for 470 and not for all.
func (o *WorkloadMix) computeFills(rates *[cluster.WholeMilli + 1]int64) {
	const precision = 8
	var sizes []int
	var total int64
	for size, rate := range rates {
		if rate > 0 {
			sizes = append(sizes, size)
			total += rate
		}
	}
	never := max(total>>rareShift, 1)
	var fine [cluster.WholeMilli + 1]int64
	for left := 1; left <= cluster.WholeMilli; left++ {
		come, sum := never, int64(0)
		for _, size := range sizes {
			if size > left {
				break
			}
			come += rates[size]
			sum += rates[size] * (int64(size)<<precision + fine[left-size])
		}
		fine[left] = sum / come
		o.Fills[left] = int32(fine[left] >> precision)
	}
}

// byDevicesAsked puts first what asks for the most devices, so that a few that
// ask for whole machines are not lost among many small ones.
func byDevicesAsked(a, b mixKind) int {
	return cmp.Or(cmp.Compare(b.weight*max(b.Kind.GPUs, 1), a.weight*max(a.Kind.GPUs, 1)), a.Kind.compare(b.Kind))
}
