package forecast

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// ended observes runs whose length follows their forecast with the given correlation of the logarithms.
func ended(f *Forecaster, random *rand.Rand, runs int, correlation float64) {
	for range runs {
		x := random.NormFloat64()
		y := correlation*x + math.Sqrt(1-correlation*correlation)*random.NormFloat64()
		length := func(v float64) time.Duration { return time.Duration(math.Exp(v) * float64(2*time.Hour)) }
		f.Observe(Run{Features: Features{Tenant: "t", User: "u", Name: "job"}, Took: length(y), Outcome: Ended, Predicted: Forecast{P50: length(x), P90: length(x)}})
	}
}

func doubt(f *Forecaster) int { return f.Predict(Features{Tenant: "t", User: "u", Name: "job"}).Doubt }

// Forecasts are in doubt until ended runs show that they tell short jobs from long ones, and again when they stop to do so.
func TestDoubt(t *testing.T) {
	t.Parallel()
	f, random := New(Config{}), rand.New(rand.NewPCG(1, 2))
	if got := doubt(f); got != 100 {
		t.Errorf("without any run, the doubt is %d", got)
	}
	ended(f, random, 600, 0.6)
	if got := doubt(f); got != 0 {
		t.Errorf("after runs with a correlation of 0.6, the doubt is %d", got)
	}
	restored, err := Restore(Config{}, f.Save())
	if err != nil || doubt(restored) != 0 {
		t.Errorf("after a restart, the doubt is %d: %v", doubt(restored), err)
	}
	ended(f, random, 3000, 0)
	if got := doubt(f); got < 70 {
		t.Errorf("after runs without correlation, the doubt is %d", got)
	}
	ended(f, random, 3000, 0.12)
	if got := doubt(f); got < 20 || got > 90 {
		t.Errorf("after runs with a correlation of 0.12, the doubt is %d", got)
	}
}

// Runs that are all alike, and forecasts that are, say nothing about the skill.
func TestDoubtOfEqualRuns(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	for range 100 {
		f.Observe(Run{Took: time.Hour, Outcome: Ended, Predicted: Forecast{P50: 2 * time.Hour, P90: 2 * time.Hour}})
	}
	if got := doubt(f); got != 100 {
		t.Errorf("the doubt is %d", got)
	}
}

// A server reads what an earlier version saved, and begins in doubt.
func TestDoubtAfterAnUpdate(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	ended(f, rand.New(rand.NewPCG(1, 2)), 600, 0.9)
	saved := f.Save()
	var sums []byte
	for _, sum := range f.skill.sums() {
		sums = number(sums, *sum)
	}
	at := bytes.Index(saved, sums)
	earlier := append(append([]byte{spreadFormat}, saved[1:at]...), saved[at+len(sums):]...)
	restored, err := Restore(Config{}, earlier)
	if err != nil {
		t.Fatal(err)
	}
	if got := doubt(restored); got != 100 {
		t.Errorf("the doubt is %d", got)
	}
	if got, want := restored.Predict(Features{Tenant: "t", User: "u", Name: "job"}).P50, f.Predict(Features{Tenant: "t", User: "u", Name: "job"}).P50; got != want {
		t.Errorf("the median is %s, and %s before", got, want)
	}
}
