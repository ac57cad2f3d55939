package apipb

import ares "github.com/ares-scheduler/ares"

// NewNodeGrant translates a grant into its wire form. A grant that says nothing becomes nil.
func NewNodeGrant(g ares.NodeGrant) *NodeGrant {
	if g.IsZero() {
		return nil
	}
	return &NodeGrant{
		Labels: g.Labels, MaxGpus: int32(g.MaxGPUs), GpuModel: g.GPUModel, MaxCpuCores: int32(g.MaxCPUs), MaxMemoryMb: int32(g.MaxMemoryMB),
	}
}

// Grant translates a grant from its wire form.
func (m *NodeGrant) Grant() ares.NodeGrant {
	return ares.NodeGrant{
		Labels: m.GetLabels(), MaxGPUs: int(m.GetMaxGpus()), GPUModel: m.GetGpuModel(), MaxCPUs: int(m.GetMaxCpuCores()),
		MaxMemoryMB: int(m.GetMaxMemoryMb()),
	}
}
