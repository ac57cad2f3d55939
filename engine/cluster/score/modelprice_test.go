package score

import (
	"fmt"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// priceFixture is a scorer for a cluster with ten nodes of model "a", two of model "b" and two of model "c". Every node has
// 8 devices.
func priceFixture(t *testing.T) *Scorer {
	t.Helper()
	models := []string{}
	cfg := config.Default()
	c := cluster.New(&cfg, func(model string) int {
		if !slices.Contains(models, model) {
			models = append(models, model)
		}
		return slices.Index(models, model)
	})
	for i, model := range []string{"a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "b", "b", "c", "c"} {
		id := fmt.Sprintf("n%02d", i)
		n := &ares.Node{ID: id, CPUs: 64, MemoryMB: 1 << 19}
		for k := range 8 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(k), Index: k, Model: model, MemoryMB: 1 << 15, Healthy: true})
		}
		node := c.Node(id)
		node.Session = &ares.Session{}
		c.ApplyNodeRecord(node, n)
		c.MarkDirty(node)
	}
	c.RefreshIndex()
	return New(&cfg, c)
}

// The method `ask` counts jobs that request one device each.
func (sc *Scorer) ask(jobs int, models string, milli int) *cluster.Request {
	spec := ares.Spec{GPUs: 1, GPUModel: models}
	if milli > 0 {
		spec.GPUs, spec.GPUMilli = 0, milli
	}
	r := cluster.RequestOf(&ares.Job{Spec: spec})
	sc.CountDemand(&DemandAsk{Request: r, Members: jobs})
	return r
}

// TestModelPrices checks the prices of models: a model is scarce if the jobs that name it would need most of its devices.
func TestModelPrices(t *testing.T) {
	type ask struct {
		jobs   int
		models string
	}
	for name, c := range map[string]struct {
		asks []ask
		want []int64 // of a, b and c; nil if there are no prices
	}{
		"no job names a model":                      {[]ask{{4096, ""}}, nil},
		"all jobs name all models":                  {[]ask{{4096, "a|b|c"}}, nil},
		"few jobs name a model":                     {[]ask{{4096, ""}, {64, "b"}}, nil},
		"more jobs than devices":                    {[]ask{{4096, ""}, {1024, "b"}}, []int64{0, 16, 0}},
		"a ninth of the jobs, a seventh of devices": {[]ask{{4096, ""}, {512, "b"}}, []int64{0, 9, 0}},
		"one of two models that together suffice":   {[]ask{{4096, ""}, {768, "b"}, {128, "b|c"}}, []int64{0, 16, 0}},
		"two models that are short together":        {[]ask{{4096, ""}, {2048, "b|c"}}, []int64{0, 16, 16}},
		"unknown models":                            {[]ask{{4096, ""}, {1024, "d"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sc := priceFixture(t)
			for _, a := range c.asks {
				sc.ask(a.jobs, a.models, 0)
			}
			sc.RefreshMix()
			if got := sc.Demand.Mix.Prices; !slices.Equal(got, c.want) {
				t.Errorf("prices %v, want %v", got, c.want)
			}
		})
	}
}

// TestScarceModelIsSpared checks that a job that accepts every model does not use a scarce one, and that a job that names
// the scarce model still gets it. It also checks that scarcity does not count as stranded capacity.
func TestScarceModelIsSpared(t *testing.T) {
	sc := priceFixture(t)
	any, typed, share := sc.ask(4096, "", 0), sc.ask(1024, "b", 0), sc.ask(64, "", 500)
	sc.RefreshMix()
	sc.SyncLayout()
	all := cluster.Set{}
	all.Resize(len(sc.cluster.Nodes))
	for i := range sc.cluster.Nodes {
		all.Add(i)
	}
	modelOf := func(r *cluster.Request) string {
		return sc.BestNode(r, &all, 0, len(sc.cluster.Nodes)).Record.Devices[0].Model
	}
	if a, b, c := modelOf(any), modelOf(typed), modelOf(share); a == "b" || b != "b" || c == "b" {
		t.Errorf("any model: %s, model b: %s, a share of any model: %s", a, b, c)
	}
	n := sc.cluster.Nodes[10]
	if cost := sc.ScarcityCost(any, n); StrandedMilli(cost) != cluster.WholeMilli {
		t.Errorf("a device of the scarce model costs %d thousandths", StrandedMilli(cost))
	}
	if cost := sc.ScarcityCost(share, n); StrandedMilli(cost) != 500 {
		t.Errorf("half a device of the scarce model costs %d thousandths", StrandedMilli(cost))
	}
	if cost := sc.ScarcityCost(any, sc.cluster.Nodes[0]); cost != 0 {
		t.Errorf("a device of another model costs %d", cost)
	}
}

// TestPricesFollowSupply checks that prices are computed again when nodes come or go, without new jobs.
func TestPricesFollowSupply(t *testing.T) {
	sc := priceFixture(t)
	sc.ask(4096, "", 0)
	sc.ask(512, "b", 0)
	sc.RefreshMix()
	before := slices.Clone(sc.Demand.Mix.Prices)
	for _, id := range []string{"n11"} {
		n := sc.cluster.Node(id)
		n.Session = nil
		sc.cluster.MarkDirty(n)
		sc.cluster.Stale.Capacity = true
	}
	sc.cluster.RefreshIndex()
	if changed := sc.RefreshMix(); !changed || len(before) < 2 || sc.Demand.Mix.Prices[1] <= before[1] {
		t.Errorf("prices %v, after half of model b went away %v", before, sc.Demand.Mix.Prices)
	}
	if sc.RefreshMix() {
		t.Error("the mix changed again without a reason")
	}
}
