package store

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

func tenantRecord(t *ares.Tenant) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Tenant{Tenant: &storepb.Tenant{
		Name: t.Name, MaxGpus: int32(t.Limits.GPUs), MaxGpuMemoryMb: int32(t.Limits.GPUMemoryMB), MaxCpuCores: int32(t.Limits.CPUs),
		MaxMemoryMb: int32(t.Limits.MemoryMB), MaxConcurrentJobs: int32(t.Limits.ConcurrentJobs), MaxPendingJobs: int32(t.Limits.PendingJobs),
		PriorityTier: string(t.PriorityTier), Weight: t.Weight, WeightMin: t.WeightMin, WeightMax: t.WeightMax, MayPreempt: t.MayPreempt,
		LostAfterSeconds: int32(t.LostAfterSecs), CreatedAt: micros(t.CreatedAt),
		Quotas: quotaRecords(t.Quotas), GpuHours: int32(t.GPUHours), Loan: tenantLoanRecord(t.Loan), Shared: sharedRecord(t.Shared),
	}}}
}

func tenantOf(m *storepb.Tenant, id string, revision int64) *ares.Tenant {
	return &ares.Tenant{
		ID: id, Name: m.GetName(), PriorityTier: ares.Class(m.GetPriorityTier()), Weight: m.GetWeight(), MayPreempt: m.GetMayPreempt(),
		WeightMin: m.GetWeightMin(), WeightMax: m.GetWeightMax(),
		Limits: ares.Limits{
			GPUs: int(m.GetMaxGpus()), GPUMemoryMB: int(m.GetMaxGpuMemoryMb()), CPUs: int(m.GetMaxCpuCores()),
			MemoryMB: int(m.GetMaxMemoryMb()), ConcurrentJobs: int(m.GetMaxConcurrentJobs()), PendingJobs: int(m.GetMaxPendingJobs()),
		},
		LostAfterSecs: int(m.GetLostAfterSeconds()), CreatedAt: fromMicros(m.GetCreatedAt()), Revision: revision,
		Quotas: quotasOf(m.GetQuotas()), GPUHours: int(m.GetGpuHours()), Loan: tenantLoanOf(m.GetLoan()), Shared: sharedOf(m.GetShared()),
	}
}

func queueRecord(q *ares.Queue) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Queue{Queue: &storepb.Queue{
		Parent: q.Parent, Weight: q.Weight, MaxGpus: int32(q.Limits.GPUs), MaxGpuMemoryMb: int32(q.Limits.GPUMemoryMB),
		MaxCpuCores: int32(q.Limits.CPUs), MaxMemoryMb: int32(q.Limits.MemoryMB), MaxConcurrentJobs: int32(q.Limits.ConcurrentJobs),
		MaxPendingJobs: int32(q.Limits.PendingJobs), Quotas: quotaRecords(q.Quotas), CreatedAt: micros(q.CreatedAt),
	}}}
}

func queueOf(m *storepb.Queue, tenant, name string, revision int64) *ares.Queue {
	return &ares.Queue{
		Tenant: tenant, Name: name, Parent: m.GetParent(), Weight: m.GetWeight(),
		Limits: ares.Limits{
			GPUs: int(m.GetMaxGpus()), GPUMemoryMB: int(m.GetMaxGpuMemoryMb()), CPUs: int(m.GetMaxCpuCores()),
			MemoryMB: int(m.GetMaxMemoryMb()), ConcurrentJobs: int(m.GetMaxConcurrentJobs()), PendingJobs: int(m.GetMaxPendingJobs()),
		},
		Quotas: quotasOf(m.GetQuotas()), CreatedAt: fromMicros(m.GetCreatedAt()), Revision: revision,
	}
}

func quotaRecords(quotas []ares.Quota) []*storepb.Quota {
	var out []*storepb.Quota
	for _, q := range quotas {
		out = append(out, &storepb.Quota{Model: q.Model, Nominal: int32(q.Nominal), Borrow: int32(q.Borrow), Lend: int32(q.Lend)})
	}
	return out
}

func quotasOf(list []*storepb.Quota) []ares.Quota {
	var out []ares.Quota
	for _, m := range list {
		out = append(out, ares.Quota{Model: m.GetModel(), Nominal: int(m.GetNominal()), Borrow: int(m.GetBorrow()), Lend: int(m.GetLend())})
	}
	return out
}

func topologyRecord(t *ares.Topology) *storepb.Record {
	m := &storepb.Topology{MaxNodesPerLeaf: int32(t.MaxNodesPerLeaf), MaxGpusPerLeaf: int32(t.MaxGPUsPerLeaf)}
	for _, d := range t.Domains {
		m.Domains = append(m.Domains, &storepb.Domain{
			Name: d.Name, Level: string(d.Level), Parent: d.Parent, Adjacent: d.Adjacent, Switch: d.Switch, Nodes: d.Nodes,
		})
	}
	for _, s := range t.Switches {
		m.Switches = append(m.Switches, &storepb.Switch{Name: s.Name, Gbps: int32(s.Gbps), LatencyNanos: int32(s.LatencyNanos)})
	}
	if w := t.Weights; w != (ares.Weights{}) {
		m.Weights = &storepb.Weights{
			Availability: int32(w.Availability), Alignment: int32(w.Alignment), Utilization: int32(w.Utilization), History: int32(w.History),
		}
	}
	return &storepb.Record{Body: &storepb.Record_Topology{Topology: m}}
}

func topologyOf(m *storepb.Topology, revision int64) *ares.Topology {
	t := &ares.Topology{MaxNodesPerLeaf: int(m.GetMaxNodesPerLeaf()), MaxGPUsPerLeaf: int(m.GetMaxGpusPerLeaf()), Revision: revision}
	for _, d := range m.GetDomains() {
		t.Domains = append(t.Domains, ares.Domain{
			Name: d.GetName(), Level: ares.Level(d.GetLevel()), Parent: d.GetParent(), Adjacent: d.GetAdjacent(), Switch: d.GetSwitch(), Nodes: d.GetNodes(),
		})
	}
	for _, s := range m.GetSwitches() {
		t.Switches = append(t.Switches, ares.Switch{Name: s.GetName(), Gbps: int(s.GetGbps()), LatencyNanos: int(s.GetLatencyNanos())})
	}
	w := m.GetWeights()
	t.Weights = ares.Weights{
		Availability: int(w.GetAvailability()), Alignment: int(w.GetAlignment()), Utilization: int(w.GetUtilization()), History: int(w.GetHistory()),
	}
	return t
}

func usageRecord(u *ares.Usage) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Usage{Usage: &storepb.Usage{
		At: micros(u.At), GpuMilliSeconds: u.GPUMilliSecs, CpuSeconds: u.CPUSecs, MemoryGbSeconds: u.MemoryGBSecs,
		Month: u.Month, GpuSeconds: u.GPUSecs,
	}}}
}

func usageRead(m *storepb.Usage, tenant, queue string, revision int64) *ares.Usage {
	return &ares.Usage{
		Tenant: tenant, Queue: queue, At: fromMicros(m.GetAt()), GPUMilliSecs: m.GetGpuMilliSeconds(), CPUSecs: m.GetCpuSeconds(),
		MemoryGBSecs: m.GetMemoryGbSeconds(), Month: m.GetMonth(), GPUSecs: m.GetGpuSeconds(), Revision: revision,
	}
}

// placementScoreRecord returns nil for an attempt without a score, so that most records stay
// small.
func placementScoreRecord(m ares.PlacementScore) *storepb.Merit {
	if m == (ares.PlacementScore{}) {
		return nil
	}
	return &storepb.Merit{
		Level: string(m.Level), Domain: m.Domain, Availability: int32(m.Availability), Alignment: int32(m.Alignment),
		Utilization: int32(m.Utilization), History: int32(m.History), Weighted: int32(m.Weighted),
		Stranded: int32(m.Stranded), Bandwidth: int32(m.Bandwidth), FirstFit: int32(m.FirstFit),
		NetworkGbps: int32(m.NetworkGbps), NetworkLatencyNanos: int32(m.NetworkLatencyNanos),
	}
}

func placementScoreOf(m *storepb.Merit) ares.PlacementScore {
	return ares.PlacementScore{
		Level: ares.Level(m.GetLevel()), Domain: m.GetDomain(), Availability: int(m.GetAvailability()), Alignment: int(m.GetAlignment()),
		Utilization: int(m.GetUtilization()), History: int(m.GetHistory()), Weighted: int(m.GetWeighted()),
		Stranded: int(m.GetStranded()), Bandwidth: int(m.GetBandwidth()), FirstFit: int(m.GetFirstFit()),
		NetworkGbps: int(m.GetNetworkGbps()), NetworkLatencyNanos: int(m.GetNetworkLatencyNanos()),
	}
}
