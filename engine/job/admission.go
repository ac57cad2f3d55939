package job

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/queue"
)

// AdmissibleMembers returns how many members of a job may start. The number depends on the job's dependencies,
// budget, limits and quotas. AdmissibleMembers also returns the GPU models that the quotas exclude. If fewer than
// MinMembers members may start, the result is 0.
func (j *Table) AdmissibleMembers(sh *Shape, now time.Time) (members int, ban uint64) {
	if sh.Tenant.Record == nil || j.OverBudget(sh, now) {
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

// ExcludedModels returns those matching GPU models that the job cannot use. Their quotas are too small for the
// given number of members. The second result is false if all matching models are excluded. If no node has a
// matching model, no model is excluded, because then quotas are not the reason why the job waits.
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

// AdmissionBlockers returns the blockers that would keep jobs with the given Shape waiting even if all capacity
// were free. The result is nil if MinMembers members or more may start.
func (j *Table) AdmissionBlockers(sh *Shape, now time.Time) []ares.Blocker {
	if m, _ := j.AdmissibleMembers(sh, now); m > 0 {
		return nil
	}
	var out []ares.Blocker
	for _, id := range sh.After {
		if !j.DependencySucceeded(id) {
			out = append(out, ares.Blocker{Kind: ares.BlockerDependency, Detail: j.dependencyText(sh, id)})
		}
	}
	if sh.Tenant.Record == nil {
		return append(out, ares.Blocker{Kind: ares.BlockerQuota, Detail: ares.Textf("%s is unknown", ares.ScopeRef(sh.Tenant.ID, ""))})
	}
	if j.overOwnBudget(sh.Tenant, now) {
		out = append(out, ares.Blocker{Kind: ares.BlockerBudget, Detail: ares.Textf("%s has used %d GPU-hours of its %d in %s",
			ares.ScopeRef(sh.Tenant.ID, ""), j.BudgetUsed(sh.Tenant, now)/3600, sh.Tenant.Record.GPUHours, now.UTC().Format(ares.MonthForm))})
	}
	if j.OverLentBudget(sh, now) {
		out = append(out, ares.Blocker{Kind: ares.BlockerBudget, Detail: j.lentBudgetText(sh.Tenant, now)})
	}
	for _, b := range sh.Leaf.CheckAdmission(queue.Allocation{ForLimits: sh.Use(sh.MinMembers)}) {
		out = append(out, ares.Blocker{Kind: ares.BlockerQuota, Detail: b.Text()})
	}
	return append(out, j.quotaBlockers(sh)...)
}

// lentBudgetText describes why the jobs of a tenant wait that has used the GPU-hours that the hub of this cluster lends.
func (j *Table) lentBudgetText(t *Tenant, now time.Time) ares.Text {
	month := now.UTC().Format(ares.MonthForm)
	b := &t.Record.Loan.Budget
	limit, _ := t.Record.LentSeconds(month)
	used := j.BudgetUsed(t, now) + b.Secs - limit
	return ares.Textf("%s is a tenant of the hub, which lets its jobs use %.1f of its %d GPU-hours of %s in this cluster, and they have used %.1f",
		ares.ScopeRef(t.ID, ""), float64(b.Secs)/3600, b.Hours, month, float64(used)/3600)
}

// If quotas exclude every matching model, quotaBlockers returns a blocker for each quota that has too little left.
// Each quota is listed once.
func (j *Table) quotaBlockers(sh *Shape) []ares.Blocker {
	if _, open := j.ExcludedModels(sh, sh.MinMembers); open {
		return nil
	}
	var out []ares.Blocker
	seen := map[queue.Bound]bool{}
	for m := range j.cluster.MatchingModels(sh.Request) {
		_, b := sh.Leaf.Headroom(m)
		b.Requested = int64(sh.MinMembers) * int64(max(sh.Request.GPUs*cluster.WholeMilli, sh.Request.Milli))
		if !seen[b] {
			seen[b] = true
			out = append(out, ares.Blocker{Kind: ares.BlockerQuota, Detail: b.Text()})
		}
	}
	return out
}

// DependencySucceeded reports whether the job with the given ID is in the live state and has succeeded.
func (j *Table) DependencySucceeded(id ares.JobID) bool {
	e := j.EntryByID[id]
	return e != nil && e.Job != nil && e.Phase() == ares.Succeeded
}

// DependencyRef returns a reference to the dependency with the given ID. A job that is not in the live state is
// treated as a job of the same queue. The reference reveals nothing new to the user, because the user wrote this
// job ID in the submission.
func (j *Table) DependencyRef(sh *Shape, id ares.JobID) ares.Ref {
	if e := j.EntryByID[id]; e != nil && e.Job != nil {
		return e.Job.Ref()
	}
	return ares.JobRef(id, sh.Leaf.Tenant(), sh.Leaf.Name())
}

// dependencyText describes why a dependency is not met.
func (j *Table) dependencyText(sh *Shape, id ares.JobID) ares.Text {
	e, ref := j.EntryByID[id], j.DependencyRef(sh, id)
	switch {
	case e == nil || e.Job == nil:
		return ares.Textf("after %s: there is no such live job, so it is not known to have succeeded", ref)
	case e.Phase().Final():
		return ares.Textf("after %s: it is %s and will never succeed", ref, e.Phase())
	default:
		return ares.Textf("after %s: it is %s", ref, e.Phase())
	}
}

// GuaranteedModels returns the set of GPU models for which the nominal quotas have enough left for the request.
// The set is empty if a dependency, the budget or a limit keeps the job from starting.
func (j *Table) GuaranteedModels(sh *Shape, admitted bool, now time.Time) (models uint64) {
	if !sh.Request.NeedsDevices() {
		return 0
	}
	if !admitted {
		unmet := slices.ContainsFunc(sh.After, func(id ares.JobID) bool { return !j.DependencySucceeded(id) })
		if unmet || j.OverBudget(sh, now) || len(sh.Leaf.CheckAdmission(queue.Allocation{ForLimits: sh.Use(sh.MinMembers)})) > 0 {
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

// WouldBorrow reports whether a job with the given Shape would exceed its nominal quotas with every matching GPU
// model. A job without quotas borrows nothing.
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

// WouldBorrowNow returns the result of WouldBorrow for the job of an entry. If the cluster has no quotas,
// WouldBorrowNow returns false.
func (j *Table) WouldBorrowNow(e *Entry) bool {
	return j.Queues.HasQuotas() && j.WouldBorrow(e.Shape)
}

// DependenciesMet reports whether all dependencies of the job have succeeded.
func (j *Table) DependenciesMet(e *Entry) bool {
	return !slices.ContainsFunc(e.Shape.After, func(id ares.JobID) bool { return !j.DependencySucceeded(id) })
}

// AdmitsSeats reports whether dependencies, budget, limits and quotas allow a job with the given Shape to use the
// given seats.
func (j *Table) AdmitsSeats(sh *Shape, seats []ares.Seat, now time.Time) bool {
	if sh.Tenant.Record == nil || j.OverBudget(sh, now) || slices.ContainsFunc(sh.After, func(id ares.JobID) bool { return !j.DependencySucceeded(id) }) {
		return false
	}
	return sh.Leaf.IsUnrestricted() || len(sh.Leaf.CheckAdmission(j.AllocationOf(sh, seats))) == 0
}
