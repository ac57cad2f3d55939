package engine

import ares "github.com/ares-scheduler/ares"

// plainAsk is everything that makes the shape of a job without lists: most
// jobs. It finds their shape without spelling out its key.
type plainAsk struct {
	tenant, queue                                    string
	kind, model, mig, numa                           string
	strategy, required, preferred, domain, bandwidth string
	latency                                          bool
	gpus, milli, gpuMemory, cpus, memory             int
	members, least                                   int
}

// plainAskOf is what a job asks for, and false when lists are a part of it.
func plainAskOf(j *ares.Job) (ask plainAsk, ok bool) {
	p := &j.Placement
	if len(j.After)+len(p.NodeSelector)+len(p.Tolerations)+len(p.Regions)+len(p.NodeAffinity)+len(p.PreferredNodeAffinity)+len(p.Affinity)+len(p.AntiAffinity) > 0 {
		return plainAsk{}, false
	}
	return plainAsk{
		tenant: j.Tenant, queue: j.Queue, kind: j.AcceleratorType, model: j.GPUModel, mig: j.MIGProfile, numa: j.NUMAPolicy,
		strategy: p.Strategy, required: p.RequiredLevel, preferred: p.PreferredLevel, domain: p.PreferredDomain, bandwidth: p.NetworkBandwidth,
		latency: p.LatencySensitive, gpus: j.GPUs, milli: j.GPUMilli, gpuMemory: j.GPUMemoryMB, cpus: j.CPUs, memory: j.MemoryMB,
		members: j.Members, least: j.MinMembers,
	}, true
}

// shaped is the shape of the job, counted once more.
func (s *State) shaped(j *ares.Job) *shape {
	ask, ok := plainAskOf(j)
	if !ok {
		return s.shapes.intern(s.shapeOf(j))
	}
	sh := s.shapes.plain[ask]
	if sh != nil {
		sh.refs++
		return sh
	}
	sh = s.shapes.intern(s.shapeOf(j))
	sh.plain = append(sh.plain, ask)
	s.shapes.plain[ask] = sh
	return sh
}
