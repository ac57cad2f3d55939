package history

import (
	"context"
	"database/sql"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Ended is how a job ended, in short.
type Ended struct {
	Job      ares.JobID
	Accepted int64 // revision
	Digest   ares.Digest
	Phase    ares.Phase
	At       time.Time
}

// Ends calls fn with how every job ended, oldest first. A restore of the live
// store keeps them ended.
func (h *History) Ends(ctx context.Context, fn func(Ended)) error {
	return h.reading(ctx, "SELECT job_id, accepted_revision, digest, phase, finished_at FROM jobs ORDER BY seq", nil, func(r *sql.Rows) error {
		var e Ended
		var digest []byte
		var at stamp
		if err := r.Scan(&e.Job, &e.Accepted, &digest, &e.Phase, &at); err != nil {
			return err
		}
		copy(e.Digest[:], digest)
		e.At = at.Time
		fn(e)
		return nil
	})
}
