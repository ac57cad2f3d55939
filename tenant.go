package ares

import (
	"math"
	"time"
)

// Unlimited is the value of a limit that does not limit.
const Unlimited = math.MaxInt32

// Tenant is a group of people that shares limits.
type Tenant struct {
	ID            string
	Name          string
	Limits        Limits
	PriorityTier  Class   // the highest class its jobs may ask for, "" for no cap
	Weight        float64 // share of the fleet against other tenants
	WeightMin     float64 // bounds of a weight that follows past use; both 0 for one that does not
	WeightMax     float64
	MayPreempt    bool
	Quotas        []Quota
	GPUHours      int // budget for a calendar month in UTC; 0 for none
	LostAfterSecs int // default of its jobs' lost_after_seconds, 0 for the general one
	CreatedAt     time.Time
	Revision      int64 // of its record; a change compares it
}

// CheckWeight notes what is wrong with a tenant's weight and its bounds.
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

// Limits are what a tenant may use at once.
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

// Use is what a tenant, a job or a node holds.
type Use struct {
	GPUs        int
	GPUMilli    int // shares of devices, in thousandths
	GPUMemoryMB int
	CPUs        int
	MemoryMB    int
	Jobs        int
}

// Add returns the sum of two uses.
func (u Use) Add(v Use) Use {
	return Use{
		u.GPUs + v.GPUs, u.GPUMilli + v.GPUMilli, u.GPUMemoryMB + v.GPUMemoryMB,
		u.CPUs + v.CPUs, u.MemoryMB + v.MemoryMB, u.Jobs + v.Jobs,
	}
}

// Sub returns u less v.
func (u Use) Sub(v Use) Use {
	return Use{
		u.GPUs - v.GPUs, u.GPUMilli - v.GPUMilli, u.GPUMemoryMB - v.GPUMemoryMB,
		u.CPUs - v.CPUs, u.MemoryMB - v.MemoryMB, u.Jobs - v.Jobs,
	}
}

// Asks is what the whole job would hold when it runs.
func (s Spec) Asks() Use {
	n := max(s.Members, 1)
	return Use{
		GPUs: n * s.GPUs, GPUMilli: n * s.GPUMilli, GPUMemoryMB: n * s.GPUMemoryMB,
		CPUs: n * s.CPUs, MemoryMB: n * s.MemoryMB, Jobs: 1,
	}
}

// Respect is one limit and what is used of it.
type Respect struct {
	What        string
	Used, Limit int
}

// Respects lists every limit with what a use takes of it. A share of a device
// counts as that part of a GPU, rounded up over the whole use.
func (l Limits) Respects(u Use) [5]Respect {
	return [5]Respect{
		{"GPUs", u.GPUs + (u.GPUMilli+999)/1000, l.GPUs},
		{"GPU memory (MB)", u.GPUMemoryMB, l.GPUMemoryMB},
		{"CPU cores", u.CPUs, l.CPUs},
		{"memory (MB)", u.MemoryMB, l.MemoryMB},
		{"concurrent jobs", u.Jobs, l.ConcurrentJobs},
	}
}

// Excess names the first limit that use u passes, with its figures.
func (l Limits) Excess(u Use) (what string, used, limit int, over bool) {
	for _, r := range l.Respects(u) {
		if r.Used > r.Limit {
			return r.What, r.Used, r.Limit, true
		}
	}
	return "", 0, 0, false
}

// Admits says whether the tenant may ever run the job: its limits and the
// class its tier allows. What exceeds only current use waits instead.
func (t Tenant) Admits(s Spec, current Use) error {
	now := t.Limits.Respects(current)
	for i, r := range t.Limits.Respects(s.Asks()) {
		if r.Used > r.Limit {
			return Errorf(Refused, "quota exceeded for tenant %s: %s requested=%d, quota=%d, current=%d", t.ID, r.What, r.Used, r.Limit, now[i].Used)
		}
	}
	if t.PriorityTier != "" && ClassOf(s.PriorityValue()).Rank() > t.PriorityTier.Rank() {
		return Errorf(Refused, "tenant %s may submit up to class %s: priority %d is class %s", t.ID, t.PriorityTier, s.PriorityValue(), ClassOf(s.PriorityValue())).At("priority")
	}
	return nil
}
