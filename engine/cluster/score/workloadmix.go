package score

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

const (
	// MixTotal is the sum of the weights of a mix, up to rounding.
	MixTotal = 4096
	// observedWeight is the weight of one requested member next to the default mix,
	// whose weights sum to 1000 and count twice: as much as 31 members.
	observedWeight = 64
	// maxMixKinds limits the kinds of a mix to those that request the most devices in
	// total, because the cost of a node takes time for each kind.
	maxMixKinds = 16
	// minMixWeight is the smallest weight of a kind in a mix.
	minMixWeight = MixTotal / 1024
	// rareShift is how much rarer than any request, as a power of two, ComputeFills
	// assumes that no further request comes.
	rareShift = 8
)

// WorkloadMix is the expected workload: kinds of requests with weights, and how far
// shares will fill a device that is partly allocated.
type WorkloadMix struct {
	ID    int // unique, from 1 on
	Kinds []mixKind
	Fills [cluster.WholeMilli + 1]int32 // by thousandths left of a device: how many of them requests are expected to fill
}

// mixKind is a kind of request with its weight out of MixTotal.
type mixKind struct {
	Kind    demandKind
	example *cluster.Request // a request of the kind, nil for one of a configured mix
	weight  int
}

// mixDemand is a kind of the mix in terms of nodes of one type.
type mixDemand struct {
	weight int64
	gpus   int64 // whole devices, 0 for shares
	groups uint8 // set of device groups that fit
	cpu    int64 // thousandths of a device that one CPU serves, shifted by carryBits; 0 when it needs no CPUs
	memory int64 // the same for one MB of memory
}

// carryBits is the binary precision of mixDemand.cpu and mixDemand.memory.
const carryBits = 20

// typeDemands is the mix in terms of nodes of one type.
type typeDemands struct {
	mixID   int // of the mix that the demands are of
	demands []mixDemand
}

// demandsOn returns the kinds of the mix that nodes of a type can serve. They are
// computed once for each mix.
func (sc *Scorer) demandsOn(p *cluster.NodeType) []mixDemand {
	for len(sc.types) <= p.ID {
		sc.types = append(sc.types, typeDemands{})
	}
	m, d := &sc.Demand.Mix, &sc.types[p.ID]
	if d.mixID == m.ID {
		return d.demands
	}
	d.mixID, d.demands = m.ID, d.demands[:0]
	for i := range m.Kinds {
		e := &m.Kinds[i]
		a := mixDemand{weight: int64(e.weight), gpus: int64(e.Kind.GPUs), groups: servedGroups(p, e.example)}
		if a.groups == 0 {
			continue // nodes of this type can never serve it
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

// unitsPerDevice returns how much of a device one unit serves, in thousandths shifted
// by carryBits, when so many devices need so many units.
func unitsPerDevice(devices int, units int64) int64 {
	if units <= 0 {
		return 0
	}
	return max(int64(devices)*cluster.WholeMilli<<carryBits/units, 1)
}

// servedGroups returns the set of device groups that a request can use; all groups for
// nil.
func servedGroups(p *cluster.NodeType, like *cluster.Request) (groups uint8) {
	for g, mask := range p.Groups {
		if mask != 0 && (like == nil || like.DeviceMask(p)&mask != 0) {
			groups |= 1 << g
		}
	}
	return groups
}

// ComputeFills computes Fills. Requests come at the given rates, each that fits is
// placed on the device, and rarely no further request comes.
//
// So 190 thousandths next to a job of 810 count for little where no job requests less
// than 200, and 530 can count for 470 and not for all.
func (m *WorkloadMix) ComputeFills(rates *[cluster.WholeMilli + 1]int64) {
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
		m.Fills[left] = int32(fine[left] >> precision)
	}
}

// byDevicesAsked sorts kinds by requested devices, most first, so that a few requests
// for whole nodes are not lost among many small ones.
func byDevicesAsked(a, b mixKind) int {
	return cmp.Or(cmp.Compare(b.weight*max(b.Kind.GPUs, 1), a.weight*max(a.Kind.GPUs, 1)), a.Kind.compare(b.Kind))
}

// RefreshMix updates the mix and reports whether it changed. A configured mix never
// changes.
func (sc *Scorer) RefreshMix() bool {
	d := &sc.Demand
	if len(sc.cfg.Mix) > 0 {
		if d.Mix.ID == 0 {
			d.Mix = blendMix(sc.cfg.Mix, nil)
			d.Mix.ID = sc.newMixID()
			return true
		}
		return false
	}
	if !d.stale && d.Mix.ID > 0 {
		return false
	}
	d.stale = false
	next := blendMix(config.DefaultMix(), d)
	if next.Fills == d.Mix.Fills && slices.EqualFunc(next.Kinds, d.Mix.Kinds, func(a, b mixKind) bool {
		return a.Kind == b.Kind && a.weight == b.weight
	}) {
		return false
	}
	next.ID = sc.newMixID()
	d.Mix = next
	return true
}

// newMixID returns an ID that no other mix has.
func (sc *Scorer) newMixID() int {
	sc.MixCount++
	return sc.MixCount
}

// blendMix returns the mix of a configured or default mix and the counted demand; d is
// nil for the configured mix alone.
func blendMix(mix []config.Mix, d *demandTracker) WorkloadMix {
	var out WorkloadMix
	var rates [cluster.WholeMilli + 1]int64
	for _, m := range mix {
		weight := 2 * m.Weight
		out.Kinds = append(out.Kinds, mixKind{Kind: demandKind{GPUs: m.GPUs, percent: m.CPUs}, weight: weight})
		switch {
		case m.Milli > 0:
			rates[min(m.Milli, cluster.WholeMilli)] += int64(weight)
		case m.GPUs == 1:
			rates[cluster.WholeMilli] += int64(weight)
		}
	}
	if d != nil {
		out.Kinds = append(out.Kinds, d.frequentKinds()...)
		for size, count := range d.Shares {
			rates[size] += int64(RoughCount(count)) * observedWeight
		}
	}
	total := 0
	for i := range out.Kinds {
		total += out.Kinds[i].weight
	}
	for i := range out.Kinds {
		out.Kinds[i].weight = out.Kinds[i].weight * MixTotal / max(total, 1)
	}
	out.Kinds = slices.DeleteFunc(out.Kinds, func(e mixKind) bool { return e.weight < minMixWeight })
	out.ComputeFills(&rates)
	return out
}

// frequentKinds returns the kinds that request the most devices, sorted by kind.
func (d *demandTracker) frequentKinds() []mixKind {
	all := make([]mixKind, 0, len(d.Kinds))
	for _, k := range d.Kinds { // order-free: sorted right below
		all = append(all, mixKind{k.key, k.example, RoughCount(k.Count) * observedWeight})
	}
	slices.SortFunc(all, byDevicesAsked)
	all = all[:min(len(all), maxMixKinds)]
	slices.SortFunc(all, func(a, b mixKind) int { return a.Kind.compare(b.Kind) })
	return all
}
