package job

import ares "github.com/ares-scheduler/ares"

// ShapeKey is what most jobs are told apart by: everything that makes their shape,
// in a form that is compared without being written down first. Jobs with lists
// of wishes have none.
type ShapeKey struct {
	tenant, Queue                           string
	members, least                          int
	gpus, milli, deviceMemory, cpus, memory int
	kind, model, mig, numa                  string
	strategy, required, preferred, domain   string
	bandwidth                               string
	latency                                 bool
}

func ShapeKeyOf(j *ares.Job) (ShapeKey, bool) {
	p := &j.Placement
	lists := len(p.NodeSelector) + len(p.Tolerations) + len(p.Regions) + len(p.NodeAffinity) + len(p.NodeRequirements) + len(p.PreferredNodeAffinity) + len(p.Affinity) +
		len(p.AntiAffinity) + len(j.After)
	return ShapeKey{
		tenant: j.Tenant, Queue: j.Queue, members: j.Members, least: j.MinMembers,
		gpus: j.GPUs, milli: j.GPUMilli, deviceMemory: j.GPUMemoryMB, cpus: j.CPUs, memory: j.MemoryMB,
		kind: j.AcceleratorType, model: j.GPUModel, mig: j.MIGProfile, numa: j.NUMAPolicy,
		strategy: p.Strategy, required: p.RequiredLevel, preferred: p.PreferredLevel, domain: p.PreferredDomain,
		bandwidth: p.NetworkBandwidth, latency: p.LatencySensitive,
	}, lists == 0
}

// internShape is the one shape of a job's kind, with the job counted.
func (j *Table) internShape(job *ares.Job) *Shape {
	b, ok := ShapeKeyOf(job)
	if known := j.Shapes.byShapeKey[b]; ok && known != nil {
		known.Refs++
		return known
	}
	sh := j.Shapes.intern(j.NewShape(job))
	if ok {
		j.Shapes.byShapeKey[b] = sh
		sh.keys = append(sh.keys, b)
	}
	return sh
}
