package job

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// cpuFlag is the value of --cpus: CPU cores in thousandths.
type cpuFlag int

// The method `apply` sets the CPU cores of the job spec if the user gave the flag.
func (c *cpuFlag) apply(f *pflag.FlagSet, spec *apipb.JobSpec) {
	if f.Changed("cpus") {
		spec.CpuCores, spec.CpuMilli = int32(*c/1000), int32(*c%1000)
	}
}

// String implements pflag.Value. The empty text keeps the default out of the help.
func (c *cpuFlag) String() string {
	if *c == 0 {
		return ""
	}
	return ares.FormatCPUs(int(*c))
}

// Set implements pflag.Value.
func (c *cpuFlag) Set(text string) error {
	cores, err := strconv.ParseFloat(text, 64)
	milli := math.Round(cores * 1000)
	if err != nil || math.IsNaN(cores) || cores < 0 || cores > math.MaxInt32 || math.Abs(cores*1000-milli) > 1e-6 {
		return fmt.Errorf("%q is not a number of CPU cores: write a number such as 8 or 0.5, with at most three decimals", ares.Clip(text))
	}
	*c = cpuFlag(milli)
	return nil
}

// Type implements pflag.Value. The help shows it.
func (c *cpuFlag) Type() string { return "cores" }
