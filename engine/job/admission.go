package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// AdmissibleMembers is how many members of the shape may be placed if there is room, and
// of which models: 0 when not even the least it can start with.
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

// ExcludedModels is the models of which the quotas leave too little for so many
// members. It is false when that is so of every model that would do. Whether
// any node has such a model is not for the quotas to say.
func (j *Table) ExcludedModels(sh *Shape, members int) (ban uint64, open bool) {
	w := sh.Request
	if !w.NeedsDevices() || !j.Queues.HasQuotas() {
		return 0, true
	}
	milli := int64(members) * int64(max(w.GPUs*cluster.WholeMilli, w.Milli))
	known := false
	for m := range j.cluster.MatchingModels(w) {
		known = true
		if room, _ := sh.Leaf.Headroom(m); room < milli {
			ban |= cluster.ModelBit(m)
		} else {
			open = true
		}
	}
	return ban, open || !known
}

// AdmissionBlockers says everything that keeps jobs of this shape from being placed
// however much room there is; nil where allowed says that some members may be.
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

// quotaBlockers says which quotas leave too little of the models that would do,
// each once.
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

// DependencySucceeded says whether a dependency holds.
func (j *Table) DependencySucceeded(id ares.JobID) bool {
	e := j.EntryByID[id]
	return e != nil && e.Job != nil && e.Phase() == ares.Succeeded
}

// dependencyText says why a dependency does not hold.
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

const monthForm = "2006-01"

// OverBudget says whether the tenant has used up its GPU-hours of the month.
func (j *Table) OverBudget(t *Tenant, now time.Time) bool {
	return t.Record != nil && t.Record.GPUHours > 0 && j.BudgetUsed(t, now) >= int64(t.Record.GPUHours)*3600
}

// WakeAtMonthEnd wakes the plan when the month ends, if the tenant of a job that is
// refused has used up its budget: no event tells that it has another.
func (j *Table) WakeAtMonthEnd(plan *ares.Plan, t *Tenant) {
	if !j.OverBudget(t, plan.Now) {
		return
	}
	now := plan.Now.UTC()
	next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if plan.Wake.IsZero() || next.Before(plan.Wake) {
		plan.Wake = next
	}
}

// BudgetUsed is the GPU-seconds the tenant's jobs have used in the month of now.
func (j *Table) BudgetUsed(t *Tenant, now time.Time) int64 {
	now = now.UTC()
	month := now.Format(monthForm)
	begin := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	milliSeconds := t.monthlyUse[month]
	for _, e := range t.Active {
		for _, p := range e.Held.Past {
			if p.To.IsZero() && now.After(p.From) {
				milliSeconds += p.Milli * int64(now.Sub(LaterOf(p.From, begin))/time.Second)
			}
		}
	}
	sum := milliSeconds / cluster.WholeMilli
	for _, u := range t.Archived { // order-free: a sum
		if u.Month == month {
			sum += u.GPUSecs
		}
	}
	return sum
}

// GuaranteedModels is the models of which quotas promise the shape as much as it asks
// for, as a set. It is empty too when something else keeps it waiting.
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
		if room, ok := sh.Leaf.NominalHeadroom(m, nil); ok && room >= asked {
			models |= cluster.ModelBit(m)
		}
	}
	return models
}

// WouldBorrow says whether the shape would hold more than its quotas promise it. Who
// has none borrows nothing.
func (j *Table) WouldBorrow(sh *Shape) bool {
	if !sh.Request.NeedsDevices() {
		return false
	}
	asked, bound := sh.MinGPUMilli(), false
	for m := range j.cluster.MatchingModels(sh.Request) {
		room, ok := sh.Leaf.NominalHeadroom(m, nil)
		if ok && room >= asked {
			return false
		}
		bound = bound || ok
	}
	return bound
}

// WouldBorrowNow is WouldBorrow of an entry.
func (j *Table) WouldBorrowNow(e *Entry) bool {
	return j.Queues.HasQuotas() && j.WouldBorrow(e.Shape)
}

// DependenciesMet says whether a job waits for no other to succeed.
func (j *Table) DependenciesMet(e *Entry) bool {
	return !slices.ContainsFunc(e.Shape.After, func(id ares.JobID) bool { return !j.DependencySucceeded(id) })
}
