package score

import (
	"cmp"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// These constants turn the pressure on a model into the price of its devices. The pressure is the part of a model's
// devices that jobs would use that cannot run on all models, if the jobs of the mix filled the cluster exactly.
const (
	// fullPrice is the price of a model whose devices will all be needed by jobs that name it. If another job takes
	// such a device, a job that needs this device does not find one. So the price is as high as the cost of
	// one stranded device.
	fullPrice = 16
	// fullPressure is the unit of pressure. A model with this pressure, or more, has the full price.
	fullPressure = 1024
	// lowPressure is the pressure up to which a device is free of charge. The arrival of jobs is random, so a model is
	// spared before its pressure is full. The value was chosen on variants of the openb trace; see
	// docs/reference/performance.md.
	lowPressure = fullPressure * 3 / 8
)

// modelDemand is the demand of requests with the same requirements on devices.
type modelDemand struct {
	key         string // as in demandKind
	accelerator string
	models      []int // models that the requests accept
	milli       int64 // requested thousandths of devices
	supply      int64 // devices of the accepted models
}

// modelPrices returns the price of each model, by model index, or nil if all prices are 0. A job that accepts every model
// should not take a device of a model that other jobs name, while other models have free devices. Fragmentation alone
// does not show this: it considers one node, and not how many devices of its model the cluster has.
//
// The prices depend on the rounded demand and on the number of devices of each model. They do not depend on which devices
// are free, because then every placement could change the score of every node.
func (sc *Scorer) modelPrices() []int64 {
	supply, _ := sc.cluster.Supply()
	restricted := sc.restrictedDemand(supply)
	if len(restricted) == 0 {
		return nil
	}
	load := make([]int64, len(supply))
	for i := range restricted {
		restricted[i].spread(supply, load)
	}
	prices, scarce := make([]int64, len(supply)), false
	for m := range prices {
		if supply[m].Devices == 0 {
			continue
		}
		pressure := load[m] * fullPressure / (int64(supply[m].Devices) * cluster.WholeMilli)
		prices[m] = fullPrice * (min(max(pressure, lowPressure), fullPressure) - lowPressure) / (fullPressure - lowPressure)
		scarce = scarce || prices[m] > 0
	}
	if !scarce {
		return nil
	}
	return prices
}

// restrictedDemand returns the demand of the requests that do not accept every model of their accelerator type. The demand
// is scaled: the demand for all devices of an accelerator type equals their number. The result is sorted, and demand with
// the fewest accepted devices comes first.
func (sc *Scorer) restrictedDemand(supply []cluster.ModelSupply) []modelDemand {
	byKey, asked := map[string]*modelDemand{}, map[string]int64{ares.DefaultAccelerator: defaultMixMilli()}
	for _, k := range sc.Demand.Kinds { // order-free: sums
		r := k.example
		if r.MIG != "" {
			continue
		}
		milli := int64(roughCount(k.Count)) * int64(r.GPUs*cluster.WholeMilli+r.Milli)
		asked[r.Accelerator()] += milli
		d := byKey[k.key.device]
		if d == nil {
			d = &modelDemand{key: k.key.device, accelerator: r.Accelerator(), models: sc.cluster.ModelsOf(r)}
			d.models = slices.DeleteFunc(slices.Clone(d.models), func(m int) bool { return supply[m].Devices == 0 })
			byKey[d.key] = d
		}
		d.milli += milli
	}
	devices, models := map[string]int64{}, map[string]int{}
	for _, s := range supply {
		if s.Devices > 0 {
			devices[s.Accelerator] += int64(s.Devices)
			models[s.Accelerator]++
		}
	}
	var out []modelDemand
	for _, d := range byKey { // order-free: sorted right below
		if n := len(d.models); n == 0 || n >= models[d.accelerator] || asked[d.accelerator] == 0 {
			continue
		}
		for _, m := range d.models {
			d.supply += int64(supply[m].Devices)
		}
		d.milli = d.milli * devices[d.accelerator] / max(asked[d.accelerator]/cluster.WholeMilli, 1)
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b modelDemand) int { return cmp.Or(cmp.Compare(a.supply, b.supply), cmp.Compare(a.key, b.key)) })
	return out
}

// defaultMixMilli returns the requested thousandths of devices of the default mix, at its weight in the workload mix.
func defaultMixMilli() (milli int64) {
	for _, m := range config.DefaultMix() {
		milli += int64(2 * m.Weight * max(m.GPUs*cluster.WholeMilli, m.Milli))
	}
	return milli / observedWeight
}

// The method `spread` adds the demand to the load of the accepted models. Most of it goes to the models with the lowest
// pressure, so that the pressure on the accepted models becomes as equal as possible.
func (d *modelDemand) spread(supply []cluster.ModelSupply, load []int64) {
	slices.SortFunc(d.models, func(a, b int) int {
		return cmp.Or(cmp.Compare(load[a]*int64(supply[b].Devices), load[b]*int64(supply[a].Devices)), cmp.Compare(a, b))
	})
	var devices, sum int64 // of the models that get a part of the demand
	n := 0
	for n < len(d.models) {
		m := d.models[n]
		if n > 0 && load[m]*devices >= (sum+d.milli)*int64(supply[m].Devices) {
			break // even with all of the demand, the pressure on the models before it stays lower
		}
		devices, sum = devices+int64(supply[m].Devices), sum+load[m]
		n++
	}
	for _, m := range d.models[:n] {
		load[m] = (sum + d.milli) * int64(supply[m].Devices) / devices
	}
}

// setPrices sets the prices of the devices of a node type.
func (t *typeDemands) setPrices(p *cluster.NodeType, byModel []int64) {
	t.scarce, t.prices = false, [cluster.MaxGroups]int64{}
	for i := range p.Devices {
		m := p.Devices[i].ModelIndex
		if m >= len(byModel) || byModel[m] == 0 {
			continue
		}
		for g, mask := range p.Groups {
			if mask>>i&1 != 0 {
				t.prices[g], t.scarce = byModel[m], true
			}
		}
	}
}

// scarcityCost returns the part of the cost of placing one member that results from the price of the devices.
func (t *typeDemands) scarcityCost(r *cluster.Request, p *cluster.NodeType) int64 {
	if !t.scarce {
		return 0
	}
	mask := r.DeviceMask(p)
	for g, group := range p.Groups {
		if group&mask != 0 { // members take devices of the first group that they can use
			return t.prices[g] * int64(r.GPUs*cluster.WholeMilli+r.Milli) * (mixTotal / fullPrice) << tieBits
		}
	}
	return 0
}

// ScarcityCost returns the part of FragmentationCost that results from the scarcity of the node's models. It is no
// fragmentation, so it is not shown to users as stranded capacity.
func (sc *Scorer) ScarcityCost(r *cluster.Request, n *cluster.Node) int64 {
	return sc.demandsOn(n.Type).scarcityCost(r, n.Type)
}
