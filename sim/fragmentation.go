package sim

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares/engine"
)

// jobKind is jobs of a trace that ask for the same GPUs, with the CPUs and the
// memory they ask for on average.
type jobKind struct {
	gpus, milli  int // of one member
	cpus, memory int
	jobs         int
}

// maxKinds is how many kinds fragmentation is measured by: the most frequent.
const maxKinds = 16

// kinds are what a trace asks for. A fleet is measured by what will come, not by
// what a policy says it expects: so policies are held against the same measure.
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

// fragmented is how much of a node's free devices a job of the kind could not
// use, in thousandths, as Weng and others define it (USENIX ATC 2023): all of
// it where the job does not fit, else the devices with too little left for it.
func (k *jobKind) fragmented(r *engine.Room, free int) int {
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

// fragmentation is what of a node's free devices a job drawn from the kinds could not
// use on average, in thousandths.
func fragmentation(kinds []jobKind, r *engine.Room, free int) int {
	sum, jobs := 0, 0
	for i := range kinds {
		sum += kinds[i].jobs * kinds[i].fragmented(r, free)
		jobs += kinds[i].jobs
	}
	return sum / max(jobs, 1)
}
