package ares_test

import (
	"encoding/json"
	"testing"

	"github.com/ares-scheduler/ares"
)

// TestCPUFractions checks the sums and the texts of fractional CPU cores.
func TestCPUFractions(t *testing.T) {
	t.Parallel()
	for milli, want := range map[int]string{0: "0", 500: "0.5", 1000: "1", 11_500: "11.5", 11_125: "11.125", 92_010: "92.01", 100_000: "100"} {
		if got := ares.FormatCPUs(milli); got != want {
			t.Errorf("%d thousandths are written %q, want %q", milli, got, want)
		}
	}
	s := ares.Spec{Members: 2, CPUs: 11, CPUMilli: 500}
	if s.MilliCPUs() != 11_500 || s.Asks().WholeCPUs() != 23 {
		t.Errorf("one member has %d thousandths, both have %d cores", s.MilliCPUs(), s.Asks().WholeCPUs())
	}
	s.SetMilliCPUs(2750)
	if s.CPUs != 2 || s.CPUMilli != 750 || s.Asks().WholeCPUs() != 6 {
		t.Errorf("2.75 cores are %d and %d thousandths, of both members %d", s.CPUs, s.CPUMilli, s.Asks().WholeCPUs())
	}
	limits := ares.NoLimits()
	limits.CPUs = 5
	if what, used, _, over := limits.Excess(s.Asks()); !over || used != 6 {
		t.Errorf("5.5 cores are within a limit of 5 (%s, %d)", what, used)
	}
}

// TestWholeCPUsAreStoredAsBefore checks that a job, a seat and a digest without a fraction do not show that fractions exist.
func TestWholeCPUsAreStoredAsBefore(t *testing.T) {
	t.Parallel()
	for _, v := range []any{ares.Spec{CPUs: 4}, ares.Seat{Node: "n", CPUs: 4}} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err = json.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"cpu_milli", "CPUMilli"} {
			if _, has := fields[name]; has {
				t.Errorf("%T without a fraction has the field %s", v, name)
			}
		}
	}
	whole, half := ares.Spec{CPUs: 4}, ares.Spec{CPUs: 4, CPUMilli: 500}
	if ares.DigestOf(whole) == ares.DigestOf(half) {
		t.Error("jobs of 4 and 4.5 cores have the same digest")
	}
}
