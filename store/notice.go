package store

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// MarkNotified records that a notification about a job was delivered, or that it was given up because of a problem. If
// the job is no longer live, there is nothing to record.
func (s *Store) MarkNotified(ctx context.Context, id ares.JobID, n ares.Notice, now time.Time, problem string) error {
	_, err := s.update(ctx, "record a notification", id, func(_ *ares.Job, r *ares.Run) error {
		if !r.MarkNotified(n, now, problem) {
			return errUnchanged
		}
		return nil
	}, nil, nil, nil)
	if code := ares.CodeOf(err); code == ares.Conflict || code == ares.NotFound { // it was archived
		return nil
	}
	return err
}
