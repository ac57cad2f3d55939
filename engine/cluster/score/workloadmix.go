package score

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

const (
	// mixTotal is the sum of the weights of all kinds in a mix, except for rounding errors.
	mixTotal = 4096
	// observedWeight is the weight of one requested member in the workload mix. The default mix has a total weight of
	// 2000, so it has as much weight as about 31 requested members.
	observedWeight = 64
	// maxMixKinds is the maximum number of kinds in a mix. The mix retains the kinds that request the most
	// devices in total. The number of kinds is limited because each kind adds to the time for computing the cost
	// of a node.
	maxMixKinds = 16
	// minMixWeight is the smallest weight that a kind in a mix can have.
	minMixWeight = mixTotal / 1024
)

// WorkloadMix is the expected workload. A WorkloadMix consists of kinds of requests and their weights. The field
// Fills predicts how much of a device's free capacity will be used by shares. The field Prices says which models are
// scarce.
type WorkloadMix struct {
	ID     int // unique, from 1 on
	Kinds  []mixKind
	Prices []int64                       // by model index, relative to fullPrice; nil if no model is scarce. See modelPrices
	rates  shareRates                    // how often each size of share is requested
	Fills  [cluster.WholeMilli + 1]int32 // index: free thousandths of a device; value: how many of them requests are expected to fill
}

// mixKind is a kind of request in a mix. The weight of a kind is relative to mixTotal.
type mixKind struct {
	Kind    demandKind
	example *cluster.Request // a request of the kind, nil for one of a configured mix
	weight  int
}

// A mixDemand describes one kind of request in a mix: its weight, and what it needs on nodes of one type.
type mixDemand struct {
	weight int64
	gpus   int64 // whole devices, 0 for shares
	groups uint8 // set of device groups that fit
	cpu    int64 // thousandths of a device that one CPU serves, shifted by carryBits; 0 if the kind needs no CPUs
	memory int64 // the same for one MB of memory
}

// carryBits is the number of binary fraction digits in mixDemand.cpu and mixDemand.memory.
const carryBits = 20

// typeDemands holds a mixDemand for each kind of request in a mix, for nodes of one type. It also holds the prices of
// the devices of these nodes.
type typeDemands struct {
	mixID   int // ID of the mix for which the demands were computed
	demands []mixDemand
	scarce  bool                     // some price is not 0
	prices  [cluster.MaxGroups]int64 // by device group, relative to fullPrice
}

// demandsOn returns the demands of those kinds of requests that fit on nodes of the given type, and the prices of the
// devices of these nodes. The result for a node type is computed once for each mix.
func (sc *Scorer) demandsOn(p *cluster.NodeType) *typeDemands {
	for len(sc.types) <= p.ID {
		sc.types = append(sc.types, typeDemands{})
	}
	m, d := &sc.Demand.Mix, &sc.types[p.ID]
	if d.mixID == m.ID {
		return d
	}
	d.mixID, d.demands = m.ID, d.demands[:0]
	d.setPrices(p, m.Prices)
	for i := range m.Kinds {
		e := &m.Kinds[i]
		a := mixDemand{weight: int64(e.weight), gpus: int64(e.Kind.GPUs), groups: servedGroups(p, e.example)}
		if a.groups == 0 {
			continue // nodes of this type can never serve the kind
		}
		if e.example != nil {
			a.cpu, a.memory = unitsPerDevice(1, e.Kind.cpus), unitsPerDevice(1, e.Kind.memory)
		} else {
			share := int64(e.Kind.percent)
			a.cpu = unitsPerDevice(100*len(p.Devices), int64(p.MilliCPUs/1000)*share)
			a.memory = unitsPerDevice(100*len(p.Devices), int64(p.Memory)*share)
		}
		d.demands = append(d.demands, a)
	}
	return d
}

// A request needs some units of a resource, such as CPUs, for its devices. unitsPerDevice returns the part of a
// device that corresponds to one unit. The result is in thousandths of a device, shifted left by carryBits.
func unitsPerDevice(devices int, units int64) int64 {
	if units <= 0 {
		return 0
	}
	return max(int64(devices)*cluster.WholeMilli<<carryBits/units, 1)
}

// servedGroups returns the set of device groups that a request can use. For a nil request, servedGroups returns all
// device groups of the node type.
func servedGroups(p *cluster.NodeType, like *cluster.Request) (groups uint8) {
	for g, mask := range p.Groups {
		if mask != 0 && (like == nil || like.DeviceMask(p)&mask != 0) {
			groups |= 1 << g
		}
	}
	return groups
}

// byDevicesAsked sorts kinds by the total number of requested devices, in descending order. So a few requests for
// whole nodes rank higher than many small ones.
func byDevicesAsked(a, b mixKind) int {
	return cmp.Or(cmp.Compare(b.weight*max(b.Kind.GPUs, 1), a.weight*max(a.Kind.GPUs, 1)), a.Kind.compare(b.Kind))
}

// RefreshMix updates the workload mix and reports whether it changed. A mix that is set in the configuration never
// changes.
func (sc *Scorer) RefreshMix() bool {
	d := &sc.Demand
	if len(sc.cfg.Mix) > 0 {
		if d.Mix.ID == 0 {
			d.Mix = blendMix(sc.cfg.Mix, nil)
			d.Mix.computeFills()
			d.Mix.ID = sc.newMixID()
			return true
		}
		return false
	}
	_, supplied := sc.cluster.Supply()
	if !d.stale && d.Mix.ID > 0 && sc.supplySeen == supplied {
		return false
	}
	d.stale, sc.supplySeen = false, supplied
	next := blendMix(config.DefaultMix(), d)
	if next.rates == d.Mix.rates {
		next.Fills = d.Mix.Fills
	} else {
		next.computeFills()
	}
	next.Prices = sc.modelPrices()
	if next.Fills == d.Mix.Fills && slices.Equal(next.Prices, d.Mix.Prices) && slices.EqualFunc(next.Kinds, d.Mix.Kinds, func(a, b mixKind) bool {
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

// blendMix combines a configured or default mix with the demand that was counted. If d is nil, blendMix returns the
// configured mix alone. The caller computes the fields Fills and Prices.
func blendMix(mix []config.Mix, d *demandTracker) WorkloadMix {
	var out WorkloadMix
	for _, m := range mix {
		weight := 2 * m.Weight
		out.Kinds = append(out.Kinds, mixKind{Kind: demandKind{GPUs: m.GPUs, percent: m.CPUs}, weight: weight})
		switch {
		case m.Milli > 0:
			out.rates[min(m.Milli, cluster.WholeMilli)] += int64(weight)
		case m.GPUs == 1:
			out.rates[cluster.WholeMilli] += int64(weight)
		}
	}
	if d != nil {
		out.Kinds = append(out.Kinds, d.frequentKinds()...)
		for size, count := range d.Shares {
			out.rates[size] += int64(roughCount(count)) * observedWeight
		}
	}
	total := 0
	for i := range out.Kinds {
		total += out.Kinds[i].weight
	}
	for i := range out.Kinds {
		out.Kinds[i].weight = out.Kinds[i].weight * mixTotal / max(total, 1)
	}
	out.Kinds = slices.DeleteFunc(out.Kinds, func(e mixKind) bool { return e.weight < minMixWeight })
	return out
}

// frequentKinds returns the kinds that request the most devices in total, sorted by kind.
func (d *demandTracker) frequentKinds() []mixKind {
	all := make([]mixKind, 0, len(d.Kinds))
	for _, k := range d.Kinds { // order-free: sorted right below
		all = append(all, mixKind{k.key, k.example, roughCount(k.Count) * observedWeight})
	}
	slices.SortFunc(all, byDevicesAsked)
	all = all[:min(len(all), maxMixKinds)]
	slices.SortFunc(all, func(a, b mixKind) int { return a.Kind.compare(b.Kind) })
	return all
}
