package admission

import (
	"context"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// resolveDependencies checks the jobs that a job depends on. resolveDependencies removes the dependencies that have
// succeeded and are archived, and rejects the job if a dependency can never succeed or was never accepted.
// resolveDependencies adds the revisions of the live dependencies to `live`. A cycle is impossible, because all dependencies
// existed before this job.
func (a *Admission) resolveDependencies(ctx context.Context, r *Request, stored *ares.Spec, fresh bool, live map[ares.JobID]int64) error {
	kept := []string(nil)
	for i, name := range stored.After {
		id, field := ares.JobID(name), fmt.Sprintf("after[%d]", i)
		found, err := a.findDependency(ctx, r, id, stored.Tenant, field, fresh)
		switch {
		case err != nil:
			return err
		case found.phase.Final() && found.phase != ares.Succeeded:
			return ares.Errorf(ares.DependencyFailed, "%s: job %s is %s and will never succeed: retry that job, and replace its ID with the ID of the new job", field, id, found.phase).At(field)
		case found.job != nil:
			if _, again := live[id]; !again {
				live[id], kept = found.job.Revision, append(kept, name)
			}
		}
	}
	stored.After = kept
	return nil
}

// resolveStart checks the start conditions of a job. Like resolveDependencies, it removes the dependencies that are met by an
// archived job, and rejects the job if a dependency can never be met.
func (a *Admission) resolveStart(ctx context.Context, r *Request, stored *ares.Spec, fresh bool, live map[ares.JobID]int64) error {
	if stored.Start == nil {
		return nil
	}
	c := *stored.Start // the submitted conditions stay as they are
	if latest := a.Now().Add(ares.MaxBeginAhead); c.Begin.After(latest) && r.retryOf == "" {
		return ares.Errorf(ares.Invalid, "start.begin: %s is more than %d days ahead: use an earlier time, or submit the job with hold and release it later",
			c.Begin.UTC().Format(time.RFC3339), int(ares.MaxBeginAhead/(24*time.Hour))).At("start.begin")
	}
	kept := []ares.Dependency(nil)
	for i, d := range c.Dependencies {
		if d.Type == ares.Singleton {
			kept = append(kept, d)
			continue
		}
		field := fmt.Sprintf("start.dependencies[%d]", i)
		if d.Job == a.jobID(stored) {
			return ares.Errorf(ares.Invalid, "%s: %s: a job cannot depend on itself", field, d).At(field)
		}
		found, err := a.findDependency(ctx, r, d.Job, stored.Tenant, field, fresh)
		if err == nil {
			err = found.check(d, stored, field)
		}
		if err != nil {
			return err
		}
		if found.job != nil && !slices.Contains(kept, d) {
			live[d.Job], kept = found.job.Revision, append(kept, d)
		}
	}
	if c.Dependencies = kept; !c.Hold && c.Begin.IsZero() && len(kept) == 0 {
		stored.Start = nil
		return nil
	}
	stored.Start = &c
	return nil
}

// startOfRetry returns the start conditions of a retry. A retry starts at once, so it has no hold and no begin time, but it
// has the dependencies of the old job.
func startOfRetry(old *ares.StartConditions) *ares.StartConditions {
	if old == nil || len(old.Dependencies) == 0 {
		return nil
	}
	return &ares.StartConditions{Dependencies: old.Dependencies, Unmet: old.Unmet}
}

// A dependency is a job on which a new job depends.
type dependency struct {
	job     *ares.Job // nil for an archived job
	phase   ares.Phase
	started bool
}

// The method `check` returns an error if the dependency can never be met.
func (f *dependency) check(d ares.Dependency, stored *ares.Spec, field string) error {
	if d.Type == ares.AfterCorr && f.job != nil {
		switch n := f.job.Array.Count; {
		case n == 0:
			return ares.Errorf(ares.Invalid, "%s: %s: job %s is no array: use afterok", field, d, d.Job).At(field)
		case n != stored.Array.Count:
			return ares.Errorf(ares.Invalid, "%s: %s: job %s has %d elements and this array has %d: aftercorr needs the same number", field, d, d.Job, n, stored.Array.Count).At(field)
		case !f.phase.Final() || f.phase == ares.Failed:
			return nil // the elements decide
		}
	}
	if d.Type.State(f.phase, f.started) != ares.DependencyNever {
		return nil
	}
	next := "retry that job, and use the ID of the new job"
	if d.Type == ares.AfterNotOK {
		next = "leave the dependency out"
	}
	return ares.Errorf(ares.DependencyFailed, "%s: %s can never be met: job %s is %s: %s", field, d, d.Job, f.phase, next).At(field)
}

// findDependency finds a job of a tenant on which a new job depends. A job of another tenant counts as unknown, because its
// outcome is private; so does one that the caller may not see.
func (a *Admission) findDependency(ctx context.Context, r *Request, id ares.JobID, tenant, field string, fresh bool) (dependency, error) {
	found, err := a.lookUpDependency(ctx, id, tenant, fresh)
	if err == nil && r.Sees != nil && r.retryOf == "" && !r.Sees(ctx, id) {
		err = store.NoJob(id) // the same answer as for a job that does not exist
	}
	if ares.CodeOf(err) == ares.NotFound {
		return found, ares.Errorf(ares.DependencyUnknown, "%s: there is no job %s: either it was never accepted, or its record was deleted a long time after it ended", field, id).At(field)
	}
	return found, err
}

func (a *Admission) lookUpDependency(ctx context.Context, id ares.JobID, tenant string, fresh bool) (dependency, error) {
	if !fresh {
		if e := a.View.Job(id); e != nil && e.Job.Tenant == tenant {
			return dependency{e.Job, e.Run.Phase, e.Run.HasStarted()}, nil
		}
	}
	snap, err := a.Store.Job(ctx, id)
	switch {
	case err != nil:
		return dependency{}, err
	case snap.Tombstone != nil && snap.Tombstone.Of(tenant):
		return dependency{nil, snap.Tombstone.Phase, true}, nil
	case snap.Tombstone != nil || snap.Job.Tenant != tenant:
		return dependency{}, store.NoJob(id)
	}
	return dependency{snap.Job, snap.Run.Phase, snap.Run.HasStarted()}, nil
}
