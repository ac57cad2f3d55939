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
		// The example of the paper on dominant resource fairness: 9 cores, 18 GB;
		// one runs tasks of 1 core and 4 GB, the other of 3 cores and 1 GB.
		"two resources": {resources{0, 9, 18}, []demand{{resources{0, 100, 400}, 1, 1}, {resources{0, 300, 100}, 1, 1}}, []float64{2.0 / 3, 2.0 / 3}},
		// The GPUs are used up by the first two; the third goes on with cores alone.
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

// TestProgressiveFillingIsMaxMin checks the definition of a fair division:
// nothing is given twice, and a tenant with less than it may have needs an
// exhausted resource of which no tenant has a larger weighted share.
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

// bottleneck says whether a tenant needs an exhausted resource of which no
// tenant has a larger weighted share.
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

// TestProgressiveFillingAgainstSmallSteps divides the fleet in small steps,
// each for the tenant with the smallest weighted share that can still take one.
// The last steps depend on what happens to fit, so demands and fleets are of
// similar size.
func TestProgressiveFillingAgainstSmallSteps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity, demands := drawDemands(t, 5)
		const crumb = 1.0 / 4000 // of the fleet, in dominant share by weight
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
