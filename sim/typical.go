package sim

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares/engine/config"
)

// Typical returns the most frequent kinds of jobs in the trace. Together these kinds make up at least the given
// percentage of all jobs. The policy config.PolicyFGD keeps capacity for these kinds.
func (t *Trace) Typical(percent int) []config.TypicalJob {
	counts := map[config.TypicalJob]int{}
	for i := range t.Arrivals {
		s := &t.Arrivals[i].Spec
		counts[config.TypicalJob{GPUs: s.GPUs, Milli: s.GPUMilli, CPUs: s.CPUs, Model: s.GPUModel}]++
	}
	all := make([]config.TypicalJob, 0, len(counts))
	for kind, count := range counts {
		kind.Count = count
		all = append(all, kind)
	}
	slices.SortFunc(all, func(a, b config.TypicalJob) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(b.Milli, a.Milli), cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(b.Model, a.Model))
	})
	sum := 0
	for i := range all {
		if sum += all[i].Count; 100*sum >= percent*len(t.Arrivals) {
			return all[:i+1]
		}
	}
	return all
}
