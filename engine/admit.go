package engine

import (
	"fmt"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// admissibleMembers is how many members of the shape may be placed if there is room, and
// of which models: 0 when not even the least it can start with.
func (j *jobTable) admissibleMembers(sh *shape, now time.Time) (members int, ban uint64) {
	if sh.tenant.record == nil || j.overBudget(sh.tenant, now) {
		return 0, 0
	}
	for _, id := range sh.after {
		if !j.dependencySucceeded(id) {
			return 0, 0
		}
	}
	if sh.leaf.IsUnrestricted() {
		return sh.members, 0
	}
	for m := sh.members; m >= sh.minMembers; m-- {
		if sh.leaf.CheckAdmission(queue.Allocation{ForLimits: sh.use(m)}) != nil {
			continue
		}
		ban, open := j.excludedModels(sh, m)
		if open {
			return m, ban
		}
	}
	return 0, 0
}

// excludedModels is the models of which the quotas leave too little for so many
// members. It is false when that is so of every model that would do. Whether
// any node has such a model is not for the quotas to say.
func (j *jobTable) excludedModels(sh *shape, members int) (ban uint64, open bool) {
	w := sh.request
	if !w.NeedsDevices() || !j.queues.HasQuotas() {
		return 0, true
	}
	milli := int64(members) * int64(max(w.Gpus*cluster.WholeMilli, w.Milli))
	known := false
	for m := range j.cluster.MatchingModels(w) {
		known = true
		if room, _ := sh.leaf.Headroom(m); room < milli {
			ban |= cluster.ModelBit(m)
		} else {
			open = true
		}
	}
	return ban, open || !known
}

// admissionBlockers says everything that keeps jobs of this shape from being placed
// however much room there is; nil where allowed says that some members may be.
func (j *jobTable) admissionBlockers(sh *shape, now time.Time) []ares.Blocker {
	if m, _ := j.admissibleMembers(sh, now); m > 0 {
		return nil
	}
	var out []ares.Blocker
	for _, id := range sh.after {
		if !j.dependencySucceeded(id) {
			out = append(out, ares.Blocker{Kind: kindDependency, Detail: j.dependencyText(id)})
		}
	}
	if sh.tenant.record == nil {
		return append(out, ares.Blocker{Kind: kindQuota, Detail: fmt.Sprintf("tenant %s is unknown", sh.tenant.id)})
	}
	if j.overBudget(sh.tenant, now) {
		out = append(out, ares.Blocker{Kind: kindBudget, Detail: fmt.Sprintf("tenant %s has used %d GPU-hours of its %d in %s",
			sh.tenant.id, j.budgetUsed(sh.tenant, now)/3600, sh.tenant.record.GPUHours, now.UTC().Format(monthForm))})
	}
	for _, b := range sh.leaf.CheckAdmission(queue.Allocation{ForLimits: sh.use(sh.minMembers)}) {
		out = append(out, ares.Blocker{Kind: kindQuota, Detail: b.String()})
	}
	return append(out, j.quotaBlockers(sh)...)
}

// quotaBlockers says which quotas leave too little of the models that would do,
// each once.
func (j *jobTable) quotaBlockers(sh *shape) []ares.Blocker {
	if _, open := j.excludedModels(sh, sh.minMembers); open {
		return nil
	}
	var out []ares.Blocker
	seen := map[string]bool{}
	for m := range j.cluster.MatchingModels(sh.request) {
		_, b := sh.leaf.Headroom(m)
		b.Requested = int64(sh.minMembers) * int64(max(sh.request.Gpus*cluster.WholeMilli, sh.request.Milli))
		if text := b.String(); !seen[text] {
			seen[text] = true
			out = append(out, ares.Blocker{Kind: kindQuota, Detail: text})
		}
	}
	return out
}

// dependencySucceeded says whether a dependency holds.
func (j *jobTable) dependencySucceeded(id ares.JobID) bool {
	e := j.entryByID[id]
	return e != nil && e.job != nil && e.phase() == ares.Succeeded
}

// dependencyText says why a dependency does not hold.
func (j *jobTable) dependencyText(id ares.JobID) string {
	e := j.entryByID[id]
	switch {
	case e == nil || e.job == nil:
		return fmt.Sprintf("after %s: there is no such live job, so it cannot be seen to have succeeded", id)
	case e.phase().Final():
		return fmt.Sprintf("after %s: it is %s and will never succeed", id, e.phase())
	default:
		return fmt.Sprintf("after %s: it is %s", id, e.phase())
	}
}

const monthForm = "2006-01"

// overBudget says whether the tenant has used up its GPU-hours of the month.
func (j *jobTable) overBudget(t *tenant, now time.Time) bool {
	return t.record != nil && t.record.GPUHours > 0 && j.budgetUsed(t, now) >= int64(t.record.GPUHours)*3600
}

// wakeAtMonthEnd wakes the plan when the month ends, if the tenant of a job that is
// refused has used up its budget: no event tells that it has another.
func (j *jobTable) wakeAtMonthEnd(plan *ares.Plan, t *tenant) {
	if !j.overBudget(t, plan.Now) {
		return
	}
	now := plan.Now.UTC()
	next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if plan.Wake.IsZero() || next.Before(plan.Wake) {
		plan.Wake = next
	}
}

// budgetUsed is the GPU-seconds the tenant's jobs have used in the month of now.
func (j *jobTable) budgetUsed(t *tenant, now time.Time) int64 {
	now = now.UTC()
	month := now.Format(monthForm)
	begin := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	milliSeconds := t.monthlyUse[month]
	for _, e := range t.active {
		for _, p := range e.held.past {
			if p.to.IsZero() && now.After(p.from) {
				milliSeconds += p.milli * int64(now.Sub(laterOf(p.from, begin))/time.Second)
			}
		}
	}
	sum := milliSeconds / cluster.WholeMilli
	for _, u := range t.archived { // order-free: a sum
		if u.Month == month {
			sum += u.GPUSecs
		}
	}
	return sum
}
