package store

import (
	"context"
	"errors"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// StopToReturn stops the attempt of a granted job, so that the member can return the job (Run.StopToReturn). It competes with the
// end of the attempt on the run. Repeating it changes nothing.
func (s *Store) StopToReturn(ctx context.Context, id ares.JobID, epoch int64, why string, now time.Time) error {
	_, err := s.update(ctx, "stop job to return it", id, func(j *ares.Job, r *ares.Run) error {
		if o := j.Origin; o == nil || o.Epoch != epoch {
			return ares.Errorf(ares.Fenced, "this cluster does not hold job %s under the grant %d", id, epoch)
		}
		if r.Returning != "" || r.Phase.Final() {
			return errUnchanged
		}
		return r.StopToReturn(j, why, now)
	}, nil, nil, nil)
	if _, gone := errors.AsType[archived](err); gone {
		return nil
	}
	return err
}
