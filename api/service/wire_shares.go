package service

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// newUse converts the resource usage of jobs to its public form.
func newUse(use ares.Use, waiting int) *apipb.TenantUse {
	return &apipb.TenantUse{
		Gpus: int32(use.GPUs + (use.GPUMilli+999)/1000), GpuMemoryMb: int32(use.GPUMemoryMB), CpuCores: int32(use.WholeCPUs()),
		MemoryMb: int32(use.MemoryMB), RunningJobs: int32(use.Jobs), PendingJobs: int32(waiting),
	}
}

// newQueue converts a queue to its public form.
func newQueue(q *ares.Queue, use ares.Use, waiting int) *apipb.Queue {
	l := q.Limits
	m := &apipb.Queue{
		Id: q.ID(), TenantId: q.Tenant, Name: q.Name, Weight: new(q.Weight), Quotas: newQuotas(q.Quotas),
		MaxGpus: bound(l.GPUs), MaxGpuMemoryMb: bound(l.GPUMemoryMB), MaxCpuCores: bound(l.CPUs), MaxMemoryMb: bound(l.MemoryMB),
		MaxConcurrentJobs: bound(l.ConcurrentJobs), MaxPendingJobs: bound(l.PendingJobs),
		CreatedAt: apipb.Timestamp(q.CreatedAt), Current: newUse(use, waiting),
	}
	if q.Parent != "" {
		m.Parent = new(q.Parent)
	}
	if q.Weight == 0 {
		m.Weight = new(1.0)
	}
	return m
}

// The function `bound` converts a limit to its public form, which is nil if there is no limit.
func bound(v int) *int32 {
	if v >= ares.Unlimited {
		return nil
	}
	return new(int32(v))
}

func newQuotas(quotas []ares.Quota) []*apipb.Quota {
	var out []*apipb.Quota
	for _, q := range quotas {
		out = append(out, &apipb.Quota{GpuModel: q.Model, NominalGpus: int32(q.Nominal), BorrowingLimit: bound(q.Borrow), LendingLimit: bound(q.Lend)})
	}
	return out
}

func quotasOf(list []*apipb.Quota) []ares.Quota {
	unless := func(v *int32) int {
		if v == nil {
			return ares.Unlimited
		}
		return int(*v)
	}
	var out []ares.Quota
	for _, m := range list {
		out = append(out, ares.Quota{
			Model: m.GetGpuModel(), Nominal: int(m.GetNominalGpus()), Borrow: unless(m.BorrowingLimit), Lend: unless(m.LendingLimit),
		})
	}
	return out
}

// newPlacementScore converts a placement score to its public form. It returns
// nil if nothing is known.
func newPlacementScore(m ares.PlacementScore) *apipb.PlacementScore {
	if m == (ares.PlacementScore{}) {
		return nil
	}
	return &apipb.PlacementScore{
		Level: string(m.Level), Domain: m.Domain, Availability: int32(m.Availability), Alignment: int32(m.Alignment),
		Utilization: int32(m.Utilization), History: int32(m.History), Weighted: int32(m.Weighted),
		StrandedMilli: int32(m.Stranded), BandwidthMbps: int32(m.Bandwidth), FirstFitMbps: int32(m.FirstFit),
		NetworkGbps: int32(m.NetworkGbps), NetworkLatencyNanos: int32(m.NetworkLatencyNanos),
	}
}

// newSeat converts a seat to its public form.
func newSeat(s *ares.Seat) *apipb.JobSeat {
	m := &apipb.JobSeat{Rank: int32(s.Rank), Node: s.Node}
	for _, sh := range s.Shares {
		m.Gpus = append(m.Gpus, int32(sh.Index))
		m.Devices = append(m.Devices, sh.Device)
	}
	return m
}

func newFairShare(s ares.FairShare) *apipb.FairShare {
	part := func(millionths int) float64 { return float64(millionths) / 1_000_000 }
	return &apipb.FairShare{
		TenantId: s.Tenant, Queue: s.Queue, Weight: s.Weight, EffectiveWeight: s.Counts, Gpus: float64(s.GPUMilli) / 1000, CpuCores: int32(s.CPUs), MemoryMb: int32(s.MemoryMB),
		WaitingJobs: int32(s.Waiting), Resource: s.Resource,
		DominantShare: part(s.DominantShare), PastShare: part(s.PastShare), WeightedShare: part(s.WeightedShare),
	}
}
