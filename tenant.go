package ares

import (
	"math"
	"time"
)

// Unlimited is the value of a limit that is switched off.
const Unlimited = math.MaxInt32

// Tenant is a group of users that share limits.
type Tenant struct {
	ID            string
	Name          string
	Limits        Limits
	PriorityTier  Class   // the highest class its jobs may use, "" for no cap
	Weight        float64 // weight against other tenants
	WeightMin     float64 // bounds of a weight that follows past use; both 0 for a fixed weight
	WeightMax     float64
	MayPreempt    bool
	Quotas        []Quota
	GPUHours      int // budget in GPU hours per calendar month (UTC); 0 for none
	LostAfterSecs int // default lost_after_seconds of its jobs, 0 for the general one
	CreatedAt     time.Time
	// Loan is what the hub lets the tenant use in this cluster. It is nil if the hub has lent nothing: the tenant is not one of
	// the hub, or it never had a limit there.
	Loan *Loan
	// Shared is not nil if the hub of this cluster decides about the tenant.
	Shared   *Shared
	Revision int64 // revision of its record; a change compares it
}

// CheckWeight reports mistakes in a tenant's weight and in the bounds of the weight.
func (t *Tenant) CheckWeight(p *Problems) {
	if t.Weight != 0 && !ValidWeight(t.Weight) {
		p.Add("fair_share_weight", "must be between %v and %v, got %v", MinWeight, MaxWeight, t.Weight)
	}
	weight := t.Weight
	if weight == 0 {
		weight = 1
	}
	switch {
	case t.WeightMin == 0 && t.WeightMax == 0:
	case t.WeightMax != 0 && !ValidWeight(t.WeightMax):
		p.Add("fair_share_weight_max", "must be between %v and %v, got %v; give 0 for it and fair_share_weight_min for a fixed weight", MinWeight, MaxWeight, t.WeightMax)
	case !ValidWeight(t.WeightMin):
		p.Add("fair_share_weight_min", "must be between %v and %v where there is a fair_share_weight_max, got %v; give 0 for both for a fixed weight", MinWeight, MaxWeight, t.WeightMin)
	case !ValidWeight(t.WeightMax):
		p.Add("fair_share_weight_max", "must be between %v and %v where there is a fair_share_weight_min, got %v; give 0 for both for a fixed weight", MinWeight, MaxWeight, t.WeightMax)
	case weight < t.WeightMin || weight > t.WeightMax:
		p.Add("fair_share_weight", "%v is not between fair_share_weight_min %v and fair_share_weight_max %v", weight, t.WeightMin, t.WeightMax)
	}
}

// Limits are upper bounds for the resources that a tenant may use at the same time.
type Limits struct {
	GPUs           int
	GPUMemoryMB    int
	CPUs           int
	MemoryMB       int
	ConcurrentJobs int
	PendingJobs    int
}

// NoLimits allows everything.
func NoLimits() Limits {
	return Limits{Unlimited, Unlimited, Unlimited, Unlimited, Unlimited, Unlimited}
}

// Use is the amount of resources that a tenant, a job or a node uses.
type Use struct {
	GPUs        int
	GPUMilli    int // shares of devices, in thousandths
	GPUMemoryMB int
	CPUs        int
	CPUMilli    int // thousandths of cores in addition to CPUs; as a sum, it may exceed 1000
	MemoryMB    int
	Jobs        int
}

func (u Use) Add(v Use) Use {
	return Use{
		u.GPUs + v.GPUs, u.GPUMilli + v.GPUMilli, u.GPUMemoryMB + v.GPUMemoryMB,
		u.CPUs + v.CPUs, u.CPUMilli + v.CPUMilli, u.MemoryMB + v.MemoryMB, u.Jobs + v.Jobs,
	}
}

func (u Use) Sub(v Use) Use {
	return Use{
		u.GPUs - v.GPUs, u.GPUMilli - v.GPUMilli, u.GPUMemoryMB - v.GPUMemoryMB,
		u.CPUs - v.CPUs, u.CPUMilli - v.CPUMilli, u.MemoryMB - v.MemoryMB, u.Jobs - v.Jobs,
	}
}

// Asks returns the total amount of resources that the job uses when it runs.
func (s Spec) Asks() Use {
	n := max(s.Members, 1)
	return Use{
		GPUs: n * s.GPUs, GPUMilli: n * s.GPUMilli, GPUMemoryMB: n * s.GPUMemoryMB,
		CPUs: n * s.CPUs, CPUMilli: n * int(s.CPUMilli), MemoryMB: n * s.MemoryMB, Jobs: 1,
	}
}

// A Respect is one limit of a tenant, together with the amount that is in use.
type Respect struct {
	What        string
	Used, Limit int
}

// WholeCPUs returns the CPU cores in use, rounded up.
func (u Use) WholeCPUs() int { return u.CPUs + RoundUpCPUs(u.CPUMilli) }

// Respects lists every limit with the amount that is in use. Parts of devices are added up, and the
// sum is rounded up to whole GPUs. So are thousandths of CPU cores.
func (l Limits) Respects(u Use) [5]Respect {
	return [5]Respect{
		{"GPUs", u.GPUs + (u.GPUMilli+999)/1000, l.GPUs},
		{"GPU memory (MB)", u.GPUMemoryMB, l.GPUMemoryMB},
		{"CPU cores", u.WholeCPUs(), l.CPUs},
		{"memory (MB)", u.MemoryMB, l.MemoryMB},
		{"concurrent jobs", u.Jobs, l.ConcurrentJobs},
	}
}

// Excess finds the first limit that the usage u exceeds. It returns the name of the limit, the used amount, and the value of the
// limit.
func (l Limits) Excess(u Use) (what string, used, limit int, over bool) {
	for _, r := range l.Respects(u) {
		if r.Used > r.Limit {
			return r.What, r.Used, r.Limit, true
		}
	}
	return "", 0, 0, false
}

// Admits returns an error if the job could never run, even without other jobs. Such a job exceeds the tenant's limits, or the highest
// priority class that the tenant may use. A job that exceeds a limit only because other jobs are running is accepted and waits. So
// is a job that exceeds the tenant's loan and not its whole quota at the hub.
func (t Tenant) Admits(s Spec, current Use) error {
	limits := t.WithinQuota().Limits
	now := limits.Respects(current)
	for i, r := range limits.Respects(s.Asks()) {
		if r.Used > r.Limit {
			return Errorf(QuotaExceeded, "quota exceeded for tenant %s: %s requested=%d, quota=%d, current=%d", t.ID, r.What, r.Used, r.Limit, now[i].Used)
		}
	}
	return t.AdmitsClass(s.PriorityValue())
}

// AdmitsClass rejects a priority whose class is above the highest class of the tenant.
func (t Tenant) AdmitsClass(priority int) error {
	if t.PriorityTier != "" && ClassOf(priority).Rank() > t.PriorityTier.Rank() {
		return Errorf(PriorityTooHigh, "tenant %s may submit jobs up to class %s: priority %d is class %s", t.ID, t.PriorityTier, priority, ClassOf(priority)).At("priority")
	}
	return nil
}
