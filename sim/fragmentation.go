package sim

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares/engine"
)

// jobKind stands for all jobs of a trace that request the same number of GPUs. A jobKind contains
// the mean number of CPUs and the mean amount of memory that these jobs request.
type jobKind struct {
	gpus, milli  int // of one member
	cpus, memory int
	jobs         int
}

// Fragmentation is measured with at most maxKinds kinds of jobs. The most frequent kinds are used.
const maxKinds = 16

// This function returns the most frequent kinds of jobs in a trace. All policies must be
// measured in the same way. Fragmentation is therefore measured with the jobs of the
// trace, not with the jobs that a policy expects.
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

// This method returns how much of a node's free device capacity a job of this kind could not use. The result is
// in thousandths of a device. The definition is from Weng and others (USENIX ATC 2023). If the job does not fit
// on the node, all free capacity is unusable. If the job fits, only devices with too little free capacity for it
// are unusable.
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

// This function returns how much of a node's free device capacity a job could not use. The result is in
// thousandths of a device. The result is the mean over the given kinds of jobs, weighted by their number of
// jobs.
func fragmentation(kinds []jobKind, r *engine.FreeCapacity, free int) int {
	sum, jobs := 0, 0
	for i := range kinds {
		sum += kinds[i].jobs * kinds[i].fragmented(r, free)
		jobs += kinds[i].jobs
	}
	return sum / max(jobs, 1)
}
