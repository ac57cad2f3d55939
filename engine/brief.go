package engine

import ares "github.com/ares-scheduler/ares"

// brief is what most jobs are told apart by: everything that makes their shape,
// in a form that is compared without being written down first. Jobs with lists
// of wishes have none.
type brief struct {
	tenant, queue                           string
	members, least                          int
	gpus, milli, deviceMemory, cpus, memory int
	kind, model, mig, numa                  string
	strategy, required, preferred, domain   string
	bandwidth                               string
	latency                                 bool
}

func briefOf(j *ares.Job) (brief, bool) {
	p := &j.Placement
	lists := len(p.NodeSelector) + len(p.Tolerations) + len(p.Regions) + len(p.NodeAffinity) + len(p.PreferredNodeAffinity) + len(p.Affinity) +
		len(p.AntiAffinity) + len(j.After)
	return brief{
		tenant: j.Tenant, queue: j.Queue, members: j.Members, least: j.MinMembers,
		gpus: j.GPUs, milli: j.GPUMilli, deviceMemory: j.GPUMemoryMB, cpus: j.CPUs, memory: j.MemoryMB,
		kind: j.AcceleratorType, model: j.GPUModel, mig: j.MIGProfile, numa: j.NUMAPolicy,
		strategy: p.Strategy, required: p.RequiredLevel, preferred: p.PreferredLevel, domain: p.PreferredDomain,
		bandwidth: p.NetworkBandwidth, latency: p.LatencySensitive,
	}, lists == 0
}

// shaped is the one shape of a job's kind, with the job counted.
func (s *State) shaped(j *ares.Job) *shape {
	b, ok := briefOf(j)
	if known := s.shapes.byBrief[b]; ok && known != nil {
		known.refs++
		return known
	}
	sh := s.shapes.intern(s.shapeOf(j))
	if ok {
		s.shapes.byBrief[b] = sh
		sh.briefs = append(sh.briefs, b)
	}
	return sh
}
