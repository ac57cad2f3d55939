package control

import (
	"context"
	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// resolve looks at the jobs a submission is to come after. What has succeeded
// and was archived is no longer waited for; what can never succeed, or was never
// accepted, refuses it. It returns the revisions of those that live. Nothing
// can be after itself or in a circle: what it names exists already.
func (d *Desk) resolve(ctx context.Context, said *ares.Spec, fresh bool) (map[ares.JobID]int64, error) {
	if len(said.After) == 0 {
		return nil, nil
	}
	live, kept := map[ares.JobID]int64{}, []string(nil)
	for i, name := range said.After {
		id := ares.JobID(name)
		phase, revision, err := d.before(ctx, id, said.Tenant, fresh)
		field := fmt.Sprintf("after[%d]", i)
		switch {
		case ares.CodeOf(err) == ares.NotFound:
			return nil, ares.Errorf(ares.Refused, "%s: there is no job %s: it was never accepted, or ended so long ago that it is forgotten", field, id).At(field)
		case err != nil:
			return nil, err
		case phase.Final() && phase != ares.Succeeded:
			return nil, ares.Errorf(ares.Refused, "%s: job %s is %s and will never succeed: retry it and name the new job", field, id, phase).At(field)
		case revision > 0:
			if _, again := live[id]; !again {
				live[id], kept = revision, append(kept, name)
			}
		}
	}
	said.After = kept
	return live, nil
}

// before finds where a job of a tenant stands, and its revision while it is live.
// One of another tenant is as good as none: how it ends is not for others to
// know.
func (d *Desk) before(ctx context.Context, id ares.JobID, tenant string, fresh bool) (ares.Phase, int64, error) {
	if !fresh {
		if e := d.View.Job(id); e != nil && e.Job.Tenant == tenant {
			return e.Run.Phase, e.Job.Revision, nil
		}
	}
	snap, err := d.Store.Job(ctx, id)
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
