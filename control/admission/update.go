package admission

import (
	"context"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Update is a change of a job that was accepted earlier. A field that is nil keeps its value.
type Update struct {
	Priority          *int
	PriorityClass     ares.Class // instead of Priority
	MaxRuntimeMinutes *int
	Labels            map[string]string // labels to add or to replace
	RemoveLabels      []string
	Only              []ares.Phase // the job must be in one of these phases; nil for any
}

// Update changes fields of a job that has not ended. The changed job must pass the same checks as a submission: the
// rules for each field, the highest class of the tenant, and the policies for submissions. The result says whether the
// job changed.
func (a *Admission) Update(ctx context.Context, id ares.JobID, u Update, by string) (bool, ares.Run, error) {
	changed, run, err := a.Store.UpdateJob(ctx, id, by, a.Now(), u.Only, func(j *ares.Job) (ares.JobUpdate, error) {
		change := u.apply(j)
		return change, a.checkUpdate(ctx, j, &change)
	})
	a.reportRejected(err, by)
	return changed, run, err
}

// The method `apply` returns the new values of a job's changed fields.
func (u *Update) apply(j *ares.Job) ares.JobUpdate {
	out := ares.JobUpdate{Priority: u.Priority, MaxRuntimeMinutes: u.MaxRuntimeMinutes}
	if u.PriorityClass != "" && u.Priority == nil {
		out.Priority = new(u.PriorityClass.Floor())
	}
	if len(u.Labels) > 0 || len(u.RemoveLabels) > 0 {
		out.Labels = map[string]string{}
		maps.Copy(out.Labels, j.Labels)
		maps.DeleteFunc(out.Labels, func(key, _ string) bool { return slices.Contains(u.RemoveLabels, key) })
		maps.Copy(out.Labels, u.Labels)
	}
	return out
}

// checkUpdate rejects a change that a submission could not make.
func (a *Admission) checkUpdate(ctx context.Context, j *ares.Job, change *ares.JobUpdate) error {
	next := j.Updated(change)
	if next == j {
		return nil
	}
	// Only the changed fields are checked: the others may break a rule that is newer than the job.
	changed := ares.Spec{Command: next.Command, Image: next.Image, Labels: change.Labels, Priority: change.Priority, MaxRuntimeMinutes: next.MaxRuntimeMinutes}
	if err := changed.Check(); err != nil {
		return err
	}
	tenant, _, err := a.findTenantAndQueue(ctx, &next.Spec, false)
	if err != nil {
		return err
	}
	if change.Priority != nil {
		if err := tenant.AdmitsClass(next.PriorityValue()); err != nil {
			return err
		}
	}
	if a.Policies != nil && a.Policies.set.Load().AsksJobs() {
		effective := withoutPolicyLabels(next)
		_, err = a.evaluatePolicies(ctx, tenant, &effective, j.Owner, &batchCounts{by: map[string]int{}})
	}
	return err
}
