package sim

import (
	"math"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// TestFairnessByHand simulates a tenant that has the whole machine for 100 seconds. From the tenth second on, another
// tenant waits for the machine.
func TestFairnessByHand(t *testing.T) {
	t.Parallel()
	w := NewWorld(&Fleet{Machines: []Machine{{Name: "m", Count: 1, GPUs: 4, CPUs: 8, MemoryMB: 1000}}}, Policy{Engine: config.Default()})
	w.MeasureFairness()
	if err := w.Run(&Trace{Arrivals: []Arrival{
		{At: 0, Runs: 100 * time.Second, Spec: ares.Spec{Tenant: "a", GPUs: 4}},
		{At: 10 * time.Second, Runs: 50 * time.Second, Spec: ares.Spec{Tenant: "b", GPUs: 4}},
	}}, 0, nil); err != nil {
		t.Fatal(err)
	}
	f := w.Fairness()
	if f.Tenants != 2 || f.Moments != 4 || f.Jain != (Index{0.5, 0.5, 10}) || f.Attained != (Index{0.5, 0.5, 10}) {
		t.Errorf("measured %+v", f)
	}
	if f.Gap != 50 || f.GapAt != 10 || f.GapTenant != "b" || f.GapMean != 50 {
		t.Errorf("the largest gap is %v at %v of %s, on average %v", f.Gap, f.GapAt, f.GapTenant, f.GapMean)
	}
	// The first tenant has jobs for 100 s. For the first 10 s it is alone, and then the other tenant has jobs too.
	want := []FairTenant{{"a", 1, 100, 100, 55, 0}, {"b", 1, 140, 100 * 50.0 / 140, (90*50 + 50*100) / 140.0, 50}}
	for i, tenant := range want {
		if got := f.ByTenant[i]; got.Name != tenant.Name || math.Abs(got.Fair-tenant.Fair) > 1e-9 || math.Abs(got.Share-tenant.Share) > 1e-9 || got.Gap != tenant.Gap || got.Seconds != tenant.Seconds {
			t.Errorf("%+v, want %+v", got, tenant)
		}
	}
	if p := f.Series; len(p) != 150 || p[9].Jain != 1 || p[10].Jain != 0.5 || p[99].Gap != 50 || p[100].Gap != 0 {
		t.Errorf("the series has %d points: %+v", len(p), p)
	}
}

// TestSeriesIsBounded checks that a long simulation has wide buckets and loses no data.
func TestSeriesIsBounded(t *testing.T) {
	t.Parallel()
	var s bucketSeries
	for i := range 100_000 {
		s.add(&fairnessSample{jain: 0.5, attained: 1, gap: float64(i % 7)}, 10*float64(i), 10)
	}
	if len(s.points) > maxBuckets || len(s.points) < maxBuckets/4 {
		t.Errorf("there are %d points", len(s.points))
	}
	secs := 0.0
	for _, p := range s.points {
		secs += p.secs
	}
	if math.Abs(secs-1e6) > 1e-3 {
		t.Errorf("of a million seconds %v are kept", secs)
	}
	for _, p := range s.report() {
		if math.Abs(p.Jain-0.5) > 1e-9 || p.Gap != 6 {
			t.Fatalf("a stretch has %+v", p)
		}
	}
}
