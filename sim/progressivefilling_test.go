package sim

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestJainByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{nil, 1},
		{[]float64{0, 0}, 1},
		{[]float64{3}, 1},
		{[]float64{2, 2, 2}, 1},
		{[]float64{1, 0, 0, 0}, 0.25},
		{[]float64{1, 3}, 16.0 / 20},
		{[]float64{1, 2, 3}, 36.0 / 42},
	} {
		if got := jain(c.of); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Jain's index of %v is %v, got %v", c.of, c.want, got)
		}
	}
}

func TestProgressiveFillingByHand(t *testing.T) {
	t.Parallel()
	gpus := func(n int64, weight float64) demand { return demand{resources{n, 0, 0}, weight, 1} }
	for name, c := range map[string]struct {
		capacity resources
		demands  []demand
		want     []float64
	}{
		"nobody":                   {resources{10, 0, 0}, nil, nil},
		"one wants less":           {resources{10, 0, 0}, []demand{gpus(2, 1), gpus(9, 1), gpus(9, 1)}, []float64{0.2, 0.4, 0.4}},
		"all are content":          {resources{10, 0, 0}, []demand{gpus(2, 1), gpus(3, 1)}, []float64{0.2, 0.3}},
		"weights":                  {resources{12, 0, 0}, []demand{gpus(12, 1), gpus(12, 3)}, []float64{0.25, 0.75}},
		"weights and a small want": {resources{12, 0, 0}, []demand{gpus(12, 1), gpus(3, 3)}, []float64{0.75, 0.25}},
		"nothing wanted":           {resources{12, 0, 0}, []demand{gpus(0, 1), gpus(30, 1)}, []float64{0, 1}},
		"a limit":                  {resources{10, 0, 0}, []demand{{resources{8, 0, 0}, 1, 0.25}, gpus(10, 1)}, []float64{0.2, 0.8}},
		// This is the example of the paper on dominant resource fairness, with 9 cores and 18 GB.
		// One tenant runs tasks with 1 core and 4 GB each, and the other tenant runs tasks with 3
		// cores and 1 GB each.
		"two resources": {resources{0, 9, 18}, []demand{{resources{0, 100, 400}, 1, 1}, {resources{0, 300, 100}, 1, 1}}, []float64{2.0 / 3, 2.0 / 3}},
		// The first two tenants use up the GPUs. The third tenant needs only cores, so its share
		// keeps rising.
		"one resource runs dry": {resources{10, 10, 0}, []demand{gpus(10, 1), gpus(10, 1), {resources{0, 10, 0}, 1, 1}}, []float64{0.5, 0.5, 1}},
	} {
		got := progressiveFilling(c.demands, c.capacity)
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	}
}

// TestProgressiveFillingIsMaxMin checks that no resource is assigned beyond its capacity. Every tenant
// with less than its maximum share must have a bottleneck.
func TestProgressiveFillingIsMaxMin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity, demands := drawDemands(t, 0)
		shares := progressiveFilling(demands, capacity)
		var used [3]float64
		for i, d := range demands {
			full := dominant(d.wanted, capacity)
			if shares[i] > full*d.maxFraction+1e-9 {
				t.Fatalf("tenant %d has %v of at most %v", i, shares[i], full*d.maxFraction)
			}
			for r := range used {
				if full > 0 {
					used[r] += shares[i] / full * float64(d.wanted[r])
				}
			}
		}
		for r := range used {
			if used[r] > float64(capacity[r])+1e-6 {
				t.Fatalf("%v of %v is given", used, capacity)
			}
		}
		for i, d := range demands {
			if full := dominant(d.wanted, capacity); shares[i] < full*d.maxFraction-1e-9 && !bottleneck(demands, shares, used, capacity, i) {
				t.Fatalf("tenant %d could have more than %v: %+v, %v", i, shares[i], demands, shares)
			}
		}
	})
}

// This function reports whether a tenant has a bottleneck. A tenant's bottleneck is an exhausted resource
// that the tenant needs. No other tenant that needs this resource may have a larger weighted share.
func bottleneck(demands []demand, shares []float64, used [3]float64, capacity resources, i int) bool {
	for r := range used {
		if demands[i].wanted[r] == 0 || capacity[r] == 0 || used[r] < float64(capacity[r])-1e-6 {
			continue
		}
		most := true
		for k := range demands {
			most = most && (demands[k].wanted[r] == 0 || shares[k]/demands[k].weight <= shares[i]/demands[i].weight+1e-9)
		}
		if most {
			return true
		}
	}
	return false
}

// TestProgressiveFillingAgainstSmallSteps divides the cluster in another way, in many small steps,
// and compares the results. Each step goes to the tenant with the smallest weighted share among the
// tenants that can still use it. The result depends on which demands still fit in the last steps.
// The test therefore uses no very small demands or capacities.
func TestProgressiveFillingAgainstSmallSteps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity, demands := drawDemands(t, 5)
		const crumb = 1.0 / 4000 // size of a step: a fraction of the fleet, as a weighted dominant share
		got, want := progressiveFilling(demands, capacity), crumbs(demands, capacity, crumb)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 0.02 {
				t.Fatalf("tenant %d: %v, crumb by crumb %v, of %+v in %v", i, got, want, demands, capacity)
			}
		}
	})
}

func crumbs(demands []demand, capacity resources, crumb float64) []float64 {
	shares := make([]float64, len(demands))
	var used [3]float64
	for {
		best := -1
		for i, d := range demands {
			full := dominant(d.wanted, capacity)
			next := shares[i] + crumb*d.weight
			fits := full > 0 && next <= full*d.maxFraction
			for r := range used {
				fits = fits && (d.wanted[r] == 0 || used[r]+crumb*d.weight/full*float64(d.wanted[r]) <= float64(capacity[r]))
			}
			if fits && (best < 0 || shares[i]/d.weight < shares[best]/demands[best].weight) {
				best = i
			}
		}
		if best < 0 {
			return shares
		}
		d := demands[best]
		shares[best] += crumb * d.weight
		for r := range used {
			used[r] += crumb * d.weight / dominant(d.wanted, capacity) * float64(d.wanted[r])
		}
	}
}

func drawDemands(t *rapid.T, least int64) (resources, []demand) {
	some := func(most int64, label string) int64 {
		if n := rapid.Int64Range(0, most).Draw(t, label); n > least {
			return n
		}
		return 0
	}
	capacity := resources{rapid.Int64Range(1+least, 20).Draw(t, "gpus"), some(20, "cores"), 0}
	demands := make([]demand, rapid.IntRange(1, 4).Draw(t, "tenants"))
	for i := range demands {
		wants := resources{some(30, "wants"), 0, 0}
		if capacity[1] > 0 {
			wants[1] = some(30, "wants cores")
		}
		demands[i] = demand{wants, float64(rapid.IntRange(1, 3).Draw(t, "weight")), rapid.SampledFrom([]float64{1, 1, 0.5}).Draw(t, "most")}
	}
	return capacity, demands
}
