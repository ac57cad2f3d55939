package engine

import (
	"fmt"

	ares "github.com/ares-scheduler/ares"
)

// Kinds of blockers.
const (
	kindQuota       = "quota"
	kindNodes       = "nodes"
	kindCapacity    = "capacity"
	kindDelay       = "delay"
	kindDependency  = "dependency"
	kindArray       = "array"
	kindUnsupported = "unsupported"
)

// admits says whether jobs of this shape may be placed if there is room.
func (s *State) admits(sh *shape) bool {
	if len(sh.unsupported) > 0 || sh.tenant.record == nil {
		return false
	}
	for _, id := range sh.after {
		if !s.met(id) {
			return false
		}
	}
	_, _, _, over := sh.tenant.record.Limits.Excess(sh.tenant.use.Add(sh.asksOf(sh.least)))
	return !over
}

// admit says everything that keeps jobs of this shape from being placed
// however much room there is; nil where admits is true.
func (s *State) admit(sh *shape) []ares.Blocker {
	if s.admits(sh) {
		return nil
	}
	var out []ares.Blocker
	for _, what := range sh.unsupported {
		out = append(out, ares.Blocker{Kind: kindUnsupported, Detail: what})
	}
	for _, id := range sh.after {
		if !s.met(id) {
			out = append(out, ares.Blocker{Kind: kindDependency, Detail: s.unmet(id)})
		}
	}
	return append(out, sh.overdraft()...)
}

// met says whether a dependency holds.
func (s *State) met(id ares.JobID) bool {
	e := s.jobs[id]
	return e != nil && e.job != nil && e.phase() == ares.Succeeded
}

// unmet says why a dependency does not hold.
func (s *State) unmet(id ares.JobID) string {
	e := s.jobs[id]
	switch {
	case e == nil || e.job == nil:
		return fmt.Sprintf("after %s: there is no such live job, so it cannot be seen to have succeeded", id)
	case e.phase().Final():
		return fmt.Sprintf("after %s: it is %s and will never succeed", id, e.phase())
	default:
		return fmt.Sprintf("after %s: it is %s", id, e.phase())
	}
}

// overdraft says which limits of the tenant the job would pass on top of what
// the tenant holds.
func (sh *shape) overdraft() []ares.Blocker {
	t := sh.tenant
	if t.record == nil {
		return []ares.Blocker{{Kind: kindQuota, Detail: fmt.Sprintf("tenant %s is unknown", t.id)}}
	}
	var out []ares.Blocker
	asked := respects(sh.asksOf(sh.least))
	for i, held := range respects(t.use) {
		what, sum, limit, over := t.record.Limits.Excess(held.use.Add(asked[i].use))
		if over {
			out = append(out, ares.Blocker{Kind: kindQuota, Detail: fmt.Sprintf(
				"tenant %s: %d %s in use and %d asked for pass its limit of %d", t.id, held.figure, what, sum-held.figure, limit)})
		}
	}
	return out
}

// respect is one respect of a use, so that each limit can be asked about alone.
type respect struct {
	use    ares.Use
	figure int
}

func respects(u ares.Use) [5]respect {
	return [5]respect{
		{ares.Use{GPUs: u.GPUs, GPUMilli: u.GPUMilli}, u.GPUs + (u.GPUMilli+wholeMilli-1)/wholeMilli},
		{ares.Use{GPUMemoryMB: u.GPUMemoryMB}, u.GPUMemoryMB},
		{ares.Use{CPUs: u.CPUs}, u.CPUs},
		{ares.Use{MemoryMB: u.MemoryMB}, u.MemoryMB},
		{ares.Use{Jobs: u.Jobs}, u.Jobs},
	}
}
