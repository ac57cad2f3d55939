package engine

import ares "github.com/ares-scheduler/ares"

// shapeKey is what most jobs are told apart by: everything that makes their shape,
// in a form that is compared without being written down first. Jobs with lists
// of wishes have none.
type shapeKey struct {
	tenant, queue                           string
	members, least                          int
	gpus, milli, deviceMemory, cpus, memory int
	kind, model, mig, numa                  string
	strategy, required, preferred, domain   string
	bandwidth                               string
	latency                                 bool
}

func shapeKeyOf(j *ares.Job) (shapeKey, bool) {
	p := &j.Placement
	lists := len(p.NodeSelector) + len(p.Tolerations) + len(p.Regions) + len(p.NodeAffinity) + len(p.PreferredNodeAffinity) + len(p.Affinity) +
		len(p.AntiAffinity) + len(j.After)
	return shapeKey{
		tenant: j.Tenant, queue: j.Queue, members: j.Members, least: j.MinMembers,
		gpus: j.GPUs, milli: j.GPUMilli, deviceMemory: j.GPUMemoryMB, cpus: j.CPUs, memory: j.MemoryMB,
		kind: j.AcceleratorType, model: j.GPUModel, mig: j.MIGProfile, numa: j.NUMAPolicy,
		strategy: p.Strategy, required: p.RequiredLevel, preferred: p.PreferredLevel, domain: p.PreferredDomain,
		bandwidth: p.NetworkBandwidth, latency: p.LatencySensitive,
	}, lists == 0
}

// internShape is the one shape of a job's kind, with the job counted.
func (j *jobTable) internShape(job *ares.Job) *shape {
	b, ok := shapeKeyOf(job)
	if known := j.shapes.byShapeKey[b]; ok && known != nil {
		known.refs++
		return known
	}
	sh := j.shapes.intern(j.newShape(job))
	if ok {
		j.shapes.byShapeKey[b] = sh
		sh.keys = append(sh.keys, b)
	}
	return sh
}
