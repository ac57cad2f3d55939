package preempt

import (
	"github.com/ares-scheduler/ares/engine/job"

	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// gpuText writes thousandths of devices.
func gpuText(milli int64) string {
	if milli == cluster.WholeMilli {
		return "1 GPU"
	}
	return decimalText(int(milli)) + " GPUs"
}

// decimalText writes thousandths as a decimal.
func decimalText(n int) string {
	if n%1000 == 0 {
		return fmt.Sprint(n / 1000)
	}
	return fmt.Sprintf("%d.%03d", n/1000, n%1000)
}

func CountJobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// PreemptionText says who gives way by a nomination that the next plan makes, and what
// that costs.
func PreemptionText(n *ares.Nomination) string {
	if len(n.Victims) == 0 {
		return "the next plan keeps seats for it that others are about to leave"
	}
	var milli, lost int64
	for i := range n.Victims {
		y := &n.Victims[i].Yield
		milli, lost = milli+y.Milli, lost+y.Lost
	}
	return fmt.Sprintf("the next plan has %s give way to it (%s): %s GPUs for the %s it asks for, %s GPU-seconds lost",
		CountJobs(len(n.Victims)), n.Why, decimalText(int(milli)), decimalText(int(job.GPUMilliOf(n.Seats))), decimalText(int(lost)))
}
