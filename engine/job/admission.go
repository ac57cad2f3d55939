package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// AdmissibleMembers returns how many members of the shape its dependencies, budget,
// limits and quotas allow, and the models that the quotas exclude. It is 0 when they do
// not allow MinMembers.
func (j *Table) AdmissibleMembers(sh *Shape, now time.Time) (members int, ban uint64) {
	if sh.Tenant.Record == nil || j.OverBudget(sh.Tenant, now) {
		return 0, 0
	}
	for _, id := range sh.After {
		if !j.DependencySucceeded(id) {
			return 0, 0
		}
	}
	if sh.Leaf.IsUnrestricted() {
		return sh.Members, 0
	}
	for m := sh.Members; m >= sh.MinMembers; m-- {
		if sh.Leaf.CheckAdmission(queue.Allocation{ForLimits: sh.Use(m)}) != nil {
			continue
		}
		ban, open := j.ExcludedModels(sh, m)
		if open {
			return m, ban
		}
	}
	return 0, 0
}

// ExcludedModels returns the matching models whose quotas leave too little for a number
// of members, as a set. open is false when all matching models are excluded. When no
// node has a matching model, nothing is excluded: a missing model is no matter of
// quotas.
func (j *Table) ExcludedModels(sh *Shape, members int) (ban uint64, open bool) {
	w := sh.Request
	if !w.NeedsDevices() || !j.Queues.HasQuotas() {
		return 0, true
	}
	milli := int64(members) * int64(max(w.GPUs*cluster.WholeMilli, w.Milli))
	matched := false
	for m := range j.cluster.MatchingModels(w) {
		matched = true
		if headroom, _ := sh.Leaf.Headroom(m); headroom < milli {
			ban |= cluster.ModelBit(m)
		} else {
			open = true
		}
	}
	return ban, open || !matched
}

// AdmissionBlockers returns everything that forbids jobs of the shape, however much
// capacity is free. It is nil when some members are allowed.
func (j *Table) AdmissionBlockers(sh *Shape, now time.Time) []ares.Blocker {
	if m, _ := j.AdmissibleMembers(sh, now); m > 0 {
		return nil
	}
	var out []ares.Blocker
	for _, id := range sh.After {
		if !j.DependencySucceeded(id) {
			out = append(out, ares.Blocker{Kind: ares.BlockerDependency, Detail: j.dependencyText(id)})
		}
	}
	if sh.Tenant.Record == nil {
		return append(out, ares.Blocker{Kind: ares.BlockerQuota, Detail: fmt.Sprintf("tenant %s is unknown", sh.Tenant.ID)})
	}
	if j.OverBudget(sh.Tenant, now) {
		out = append(out, ares.Blocker{Kind: ares.BlockerBudget, Detail: fmt.Sprintf("tenant %s has used %d GPU-hours of its %d in %s",
			sh.Tenant.ID, j.BudgetUsed(sh.Tenant, now)/3600, sh.Tenant.Record.GPUHours, now.UTC().Format(monthForm))})
	}
	for _, b := range sh.Leaf.CheckAdmission(queue.Allocation{ForLimits: sh.Use(sh.MinMembers)}) {
		out = append(out, ares.Blocker{Kind: ares.BlockerQuota, Detail: b.String()})
	}
	return append(out, j.quotaBlockers(sh)...)
}

// quotaBlockers returns the quotas that leave too little of every matching model, each
// once.
func (j *Table) quotaBlockers(sh *Shape) []ares.Blocker {
	if _, open := j.ExcludedModels(sh, sh.MinMembers); open {
		return nil
	}
	var out []ares.Blocker
	seen := map[string]bool{}
	for m := range j.cluster.MatchingModels(sh.Request) {
		_, b := sh.Leaf.Headroom(m)
		b.Requested = int64(sh.MinMembers) * int64(max(sh.Request.GPUs*cluster.WholeMilli, sh.Request.Milli))
		if text := b.String(); !seen[text] {
			seen[text] = true
			out = append(out, ares.Blocker{Kind: ares.BlockerQuota, Detail: text})
		}
	}
	return out
}

// DependencySucceeded reports whether a job that others depend on is live and has
// succeeded.
func (j *Table) DependencySucceeded(id ares.JobID) bool {
	e := j.EntryByID[id]
	return e != nil && e.Job != nil && e.Phase() == ares.Succeeded
}

// dependencyText describes why a dependency is not met.
func (j *Table) dependencyText(id ares.JobID) string {
	e := j.EntryByID[id]
	switch {
	case e == nil || e.Job == nil:
		return fmt.Sprintf("after %s: there is no such live job, so it cannot be seen to have succeeded", id)
	case e.Phase().Final():
		return fmt.Sprintf("after %s: it is %s and will never succeed", id, e.Phase())
	default:
		return fmt.Sprintf("after %s: it is %s", id, e.Phase())
	}
}

// GuaranteedModels returns the models of which the nominal quotas cover the request of
// the shape, as a set. A job that was not admitted has none when a dependency, its
// budget or a limit keeps it waiting.
func (j *Table) GuaranteedModels(sh *Shape, admitted bool, now time.Time) (models uint64) {
	if !sh.Request.NeedsDevices() {
		return 0
	}
	if !admitted {
		unmet := slices.ContainsFunc(sh.After, func(id ares.JobID) bool { return !j.DependencySucceeded(id) })
		if unmet || j.OverBudget(sh.Tenant, now) || len(sh.Leaf.CheckAdmission(queue.Allocation{ForLimits: sh.Use(sh.MinMembers)})) > 0 {
			return 0
		}
	}
	asked := sh.MinGPUMilli()
	for m := range j.cluster.MatchingModels(sh.Request) {
		if headroom, ok := sh.Leaf.NominalHeadroom(m, nil); ok && headroom >= asked {
			models |= cluster.ModelBit(m)
		}
	}
	return models
}

// WouldBorrow reports whether the shape would exceed its nominal quotas with every
// matching model. A shape without quotas borrows nothing.
func (j *Table) WouldBorrow(sh *Shape) bool {
	if !sh.Request.NeedsDevices() {
		return false
	}
	asked, bound := sh.MinGPUMilli(), false
	for m := range j.cluster.MatchingModels(sh.Request) {
		headroom, ok := sh.Leaf.NominalHeadroom(m, nil)
		if ok && headroom >= asked {
			return false
		}
		bound = bound || ok
	}
	return bound
}

// WouldBorrowNow is WouldBorrow for the shape of an entry, and false when there are no
// quotas at all.
func (j *Table) WouldBorrowNow(e *Entry) bool {
	return j.Queues.HasQuotas() && j.WouldBorrow(e.Shape)
}

// DependenciesMet reports whether all dependencies of the job have succeeded.
func (j *Table) DependenciesMet(e *Entry) bool {
	return !slices.ContainsFunc(e.Shape.After, func(id ares.JobID) bool { return !j.DependencySucceeded(id) })
}

// AdmitsSeats reports whether dependencies, budget, limits and quotas allow a job of the
// shape to have these seats.
func (j *Table) AdmitsSeats(sh *Shape, seats []ares.Seat, now time.Time) bool {
	if sh.Tenant.Record == nil || j.OverBudget(sh.Tenant, now) || slices.ContainsFunc(sh.After, func(id ares.JobID) bool { return !j.DependencySucceeded(id) }) {
		return false
	}
	return sh.Leaf.IsUnrestricted() || len(sh.Leaf.CheckAdmission(j.AllocationOf(sh, seats))) == 0
}
