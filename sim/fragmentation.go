package sim

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares/engine"
)

// jobKind is the jobs of a trace that request the same GPUs, with their mean
// CPUs and memory.
type jobKind struct {
	gpus, milli  int // of one member
	cpus, memory int
	jobs         int
}

// maxKinds is the number of kinds that fragmentation is measured with: the most
// frequent ones.
const maxKinds = 16

// kinds returns the kinds of jobs of a trace. Fragmentation is measured with
// the jobs of the trace, not with those that a policy expects, so that all
// policies are measured alike.
func kinds(t *Trace) []jobKind {
	byGPUs := map[[2]int]*jobKind{}
	for i := range t.Arrivals {
		s := &t.Arrivals[i].Spec
		if s.GPUs+s.GPUMilli == 0 {
			continue
		}
		key := [2]int{s.GPUs, s.GPUMilli}
		k := byGPUs[key]
		if k == nil {
			k = &jobKind{gpus: s.GPUs, milli: s.GPUMilli}
			byGPUs[key] = k
		}
		k.jobs, k.cpus, k.memory = k.jobs+1, k.cpus+s.CPUs, k.memory+s.MemoryMB
	}
	var all []jobKind
	for _, k := range byGPUs {
		all = append(all, jobKind{k.gpus, k.milli, k.cpus / k.jobs, k.memory / k.jobs, k.jobs})
	}
	slices.SortFunc(all, func(a, b jobKind) int {
		return cmp.Or(cmp.Compare(b.jobs, a.jobs), cmp.Compare(a.gpus, b.gpus), cmp.Compare(a.milli, b.milli))
	})
	return all[:min(len(all), maxKinds)]
}

// fragmented returns how much of the free devices of a node a job of this kind
// could not use, in thousandths, as defined by Weng and others (USENIX ATC
// 2023): all of it if the job does not fit, else the devices with too little
// left for it.
func (k *jobKind) fragmented(r *engine.FreeCapacity, free int) int {
	need := k.milli
	if k.gpus > 0 {
		need = 1000
	}
	fits, small := r.Whole > 0, 0
	for _, left := range r.Parts {
		if int(left) < need {
			small += int(left)
		} else {
			fits = true
		}
	}
	if !fits || r.Whole < k.gpus || r.CPUs < k.cpus || r.MemoryMB < k.memory {
		return free
	}
	return small
}

// fragmentation returns the mean of the free devices of a node that a job drawn
// from the kinds could not use, in thousandths.
func fragmentation(kinds []jobKind, r *engine.FreeCapacity, free int) int {
	sum, jobs := 0, 0
	for i := range kinds {
		sum += kinds[i].jobs * kinds[i].fragmented(r, free)
		jobs += kinds[i].jobs
	}
	return sum / max(jobs, 1)
}
