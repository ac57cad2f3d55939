package job

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares/apipb"
)

// TestCPUFlag checks which values --cpus accepts, and the fields that it sets.
func TestCPUFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int32{"8": {8, 0}, "0.5": {0, 500}, "11.125": {11, 125}, "0": {0, 0}} {
		var c cpuFlag
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Var(&c, "cpus", "")
		spec := &apipb.JobSpec{CpuCores: 3, CpuMilli: 250}
		if err := f.Parse([]string{"--cpus", text}); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if c.apply(f, spec); spec.GetCpuCores() != want[0] || spec.GetCpuMilli() != want[1] {
			t.Errorf("%s sets %d cores and %d thousandths, want %v", text, spec.GetCpuCores(), spec.GetCpuMilli(), want)
		}
	}
	for _, text := range []string{"-1", "x", "0.0005", "NaN", "Inf", "1e12", ""} {
		if err := new(cpuFlag).Set(text); err == nil {
			t.Errorf("--cpus %q is accepted", text)
		}
	}
}
