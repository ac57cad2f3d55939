package admission

import (
	"context"
	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// resolveDependencies checks the jobs that a job depends on. resolveDependencies removes the dependencies that have
// succeeded and are archived, and rejects the job if a dependency can never succeed or was never accepted.
// resolveDependencies returns the revisions of the live dependencies. A cycle is impossible, because all dependencies
// existed before this job.
func (a *Admission) resolveDependencies(ctx context.Context, r *Request, stored *ares.Spec, fresh bool) (map[ares.JobID]int64, error) {
	live, kept := map[ares.JobID]int64{}, []string(nil)
	for i, name := range stored.After {
		id := ares.JobID(name)
		phase, revision, err := a.findDependency(ctx, id, stored.Tenant, fresh)
		if err == nil && r.Sees != nil && r.retryOf == "" && !r.Sees(ctx, id) {
			err = store.NoJob(id) // the same answer as for a job that does not exist
		}
		field := fmt.Sprintf("after[%d]", i)
		switch {
		case ares.CodeOf(err) == ares.NotFound:
			return nil, ares.Errorf(ares.DependencyUnknown, "%s: there is no job %s: either it was never accepted, or its record was deleted a long time after it ended", field, id).At(field)
		case err != nil:
			return nil, err
		case phase.Final() && phase != ares.Succeeded:
			return nil, ares.Errorf(ares.DependencyFailed, "%s: job %s is %s and will never succeed: retry that job, and replace its ID with the ID of the new job", field, id, phase).At(field)
		case revision > 0:
			if _, again := live[id]; !again {
				live[id], kept = revision, append(kept, name)
			}
		}
	}
	stored.After = kept
	return live, nil
}

// findDependency returns the phase of a tenant's job. If the job is live, findDependency also
// returns its revision. A job of another tenant counts as unknown, because its outcome is
// private.
func (a *Admission) findDependency(ctx context.Context, id ares.JobID, tenant string, fresh bool) (ares.Phase, int64, error) {
	if !fresh {
		if e := a.View.Job(id); e != nil && e.Job.Tenant == tenant {
			return e.Run.Phase, e.Job.Revision, nil
		}
	}
	snap, err := a.Store.Job(ctx, id)
	switch {
	case err != nil:
		return "", 0, err
	case snap.Tombstone != nil && snap.Tombstone.Of(tenant):
		return snap.Tombstone.Phase, 0, nil
	case snap.Tombstone != nil || snap.Job.Tenant != tenant:
		return "", 0, store.NoJob(id)
	}
	return snap.Run.Phase, snap.Job.Revision, nil
}
