package sim

import (
	"math"
	"reflect"
	"testing"
)

// TestSynthetic checks that the same seed generates the same jobs. The jobs must request the configured load.
func TestSynthetic(t *testing.T) {
	t.Parallel()
	d := Synthetic{Jobs: 50_000, GPUs: 800, Load: 0.9, Seed: 7}
	a, b := d.Trace(), d.Trace()
	if !reflect.DeepEqual(a, b) {
		t.Error("two draws of one seed differ")
	}
	d.Seed++
	if reflect.DeepEqual(a, d.Trace()) {
		t.Error("two seeds draw the same")
	}
	work, first := 0.0, 0
	for i := range a.Arrivals {
		j := &a.Arrivals[i]
		if i > 0 && j.At < a.Arrivals[i-1].At || j.Runs < leastRun || j.Line != i+1 {
			t.Fatalf("job %d is %+v", i, j)
		}
		work += float64(j.Spec.Members*j.Spec.GPUs) * j.Runs.Seconds()
		if j.Spec.Tenant == "tenant-00" {
			first++
		}
	}
	span := a.Arrivals[len(a.Arrivals)-1].At.Seconds()
	if load := work / span / 800; math.Abs(load-0.9) > 0.05 {
		t.Errorf("the jobs ask for %.3f of the fleet", load)
	}
	if share := float64(first) / 50_000; math.Abs(share-0.2222) > 0.01 { // the inverse of the sum of 1/n up to 50
		t.Errorf("the busiest tenant has %.3f of the jobs", share)
	}
}
