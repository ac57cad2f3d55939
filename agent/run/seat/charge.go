//go:build linux

package seat

import (
	"strconv"
	"strings"
)

// A job decides how much its supervisor has to do: the supervisor stores the job's output and collects the exit status of its orphans. With
// a supervisor outside of the limit, a job with one core that prints without a pause would use more than half of another core. So the
// cgroup above both has the job's limit of processor time too.
//
// A seat that uses up its limit waits, and its supervisor with it, usually for less than CPUPeriod. On a machine with many cores, a job
// with a small limit and many threads can make this longer, because each core may overrun the limit by one tick of the kernel. A
// supervisor must not miss the deadline of a lease for that reason. So Uncharge takes it out of the limit once the lease is in doubt. The
// job itself stays limited all the time, through its own cgroup.

// CPUPeriod is the period, in microseconds, for which a quota of processor time is set.
const CPUPeriod = 100_000

// minCPUQuota is the smallest quota, in microseconds, that the kernel accepts.
const minCPUQuota = 1000

// CPUQuota returns the processor time, in microseconds for each period, of a limit in thousandths of a core.
func CPUQuota(milli int64) int64 { return max(milli*CPUPeriod/1000, minCPUQuota) }

// SupervisorWeight is the share of processor time that a supervisor gets when it competes with its own job, as the files of both cgroup
// versions express it. The supervisor has little to do and must do it in time, so it has the largest share that the kernel accepts.
var SupervisorWeight = map[string]string{"cpu.weight": "10000", "cpu.shares": "262144"}

// Charge makes the processor time of the calling supervisor count toward the job's limit. It is called right before the job is started,
// so that the supervisor's own start takes nothing from the job.
func (o *Order) Charge(now *Charged) error {
	if o.CPUGroup == "" {
		return nil
	}
	quota := CPUQuota(o.Limits.MilliCPU)
	if now.Group == o.CPUGroup && now.Quota == quota {
		return nil // since its last seat
	}
	// This is for version 1. In version 2 the agent has started the supervisor in its cgroup.
	if o.CPUGroup != o.Cgroup && o.CPUGroup != now.Group {
		if err := writeFile(o.CPUGroup+"/"+SupervisorGroup+"/cgroup.procs", "0"); err != nil {
			return err
		}
	}
	*now = Charged{}
	if err := o.limitCPU(quota); err != nil {
		return err
	}
	*now = Charged{o.CPUGroup, quota}
	return nil
}

// Charged says which limit of processor time a supervisor is under.
type Charged struct {
	Group string // Order.CPUGroup; "" if there is no limit
	Quota int64  // as set; negative if it must be set again
}

// LeaveGroups takes the calling supervisor out of the cgroups of its seat, whose job has ended. The supervisor is then where it was before its
// first seat, except that its version 2 cgroup is IdleGroup.
func (o *Order) LeaveGroups() error {
	if o.CPUGroup != "" && o.CPUGroup != o.Cgroup {
		// The agent's own cgroup is three levels above that of the seat: <own>/ares/<runner>/<seat>.
		if err := writeFile(above(above(above(o.CPUGroup)))+"/cgroup.procs", "0"); err != nil {
			return err
		}
	}
	return writeFile(above(o.Cgroup)+"/"+IdleGroup+"/cgroup.procs", "0")
}

// The function `above` returns the directory that a directory is in.
func above(dir string) string { return dir[:max(strings.LastIndexByte(dir, '/'), 0)] }

// Uncharge lifts the limit from the supervisor. The job's own limit stays.
func (o *Order) Uncharge() error {
	if o.CPUGroup == "" {
		return nil
	}
	return o.limitCPU(-1)
}

// limitCPU sets the quota of the cgroup that holds the job and its supervisor. A negative quota means no limit.
func (o *Order) limitCPU(quota int64) error {
	if o.CPUGroup != o.Cgroup {
		return writeFile(o.CPUGroup+"/cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
	}
	value := "max"
	if quota >= 0 {
		value = strconv.FormatInt(quota, 10)
	}
	return writeFile(o.CPUGroup+"/cpu.max", value+" "+strconv.Itoa(CPUPeriod))
}
