package preempt

import (
	"fmt"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// gpuText formats a number of devices that is given in thousandths.
func gpuText(milli int64) string {
	if milli == cluster.WholeMilli {
		return "1 GPU"
	}
	return decimalText(int(milli)) + " GPUs"
}

// decimalText takes a value in thousandths and formats it as a decimal number.
func decimalText(n int) string {
	if n%1000 == 0 {
		return fmt.Sprint(n / 1000)
	}
	return fmt.Sprintf("%d.%03d", n/1000, n%1000)
}

// CountJobs formats a number of jobs.
func CountJobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// PreemptionText describes how many jobs the next plan preempts for a nomination, and the cost of these
// preemptions.
func PreemptionText(n *ares.Nomination) string {
	if len(n.Victims) == 0 {
		return "the next plan holds devices for it that other jobs release soon"
	}
	var milli, lost int64
	for i := range n.Victims {
		preemption := &n.Victims[i].Preemption
		milli, lost = milli+preemption.Milli, lost+preemption.Lost
	}
	return fmt.Sprintf("the next plan preempts %s for it (%s): %s for the %s it requests, %s GPU-seconds lost",
		CountJobs(len(n.Victims)), n.Why, gpuText(milli), decimalText(int(job.GPUMilliOf(n.Seats))), decimalText(int(lost)))
}
