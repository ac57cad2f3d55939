package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Fairness says who holds how much of the fleet against what is theirs, by the
// same figures that decide whose turn it is.
func Fairness(s *State, now time.Time) ares.Fairness {
	s.core.refresh()
	shares := s.core.jobs.queues.Shares(now)
	out := ares.Fairness{Jain: queue.JainIndex(shares)}
	for _, sh := range shares {
		f := ares.FairShare{
			Tenant: sh.Tenant, Queue: sh.Queue, Weight: float64(sh.Weight) / 1000, Counts: float64(sh.EffectiveWeight) / 1000, GPUMilli: int(sh.Allocated.GPU), CPUs: int(sh.Allocated.CPU),
			MemoryMB: int(sh.Allocated.Memory), Waiting: sh.Waiting, WeightedShare: int(sh.WeightedShare), FairShare: int(sh.FairShare),
		}
		var resource string
		f.DominantShare, resource = s.core.jobs.dominantPart(sh.Allocated)
		f.PastShare, _ = s.core.jobs.dominantPart(sh.PastUse)
		if sh.Allocated != (queue.Resources{}) {
			f.Resource = resource
		}
		out.Shares = append(out.Shares, f)
	}
	return out
}

// dominantPart is the largest part of the fleet that a use is of any resource, in
// millionths, and of which.
func (j *jobTable) dominantPart(u queue.Resources) (part int, of string) {
	for _, r := range []struct {
		name      queue.ResourceName
		held, all int64
	}{{queue.GPU, u.GPU, j.cluster.capacity.GPU}, {queue.CPU, u.CPU, j.cluster.capacity.CPU}, {queue.Memory, u.Memory, j.cluster.capacity.Memory}} {
		if p := int(r.held * queue.ShareScale / max(r.all, 1)); of == "" || p > part {
			part, of = p, string(r.name)
		}
	}
	return part, of
}
