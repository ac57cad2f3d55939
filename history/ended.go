package history

import (
	"context"
	"database/sql"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Ended is a summary of how a job ended.
type Ended struct {
	Job      ares.JobID
	Accepted int64 // revision
	Digest   ares.Digest
	Phase    ares.Phase
	At       time.Time
}

// EachEnded calls fn for each ended job, oldest first. A restore of the live store uses EachEnded, so that finished jobs do not run
// again. EachEnded leaves out jobs that still hold devices. EachEnded also leaves out arrays, because an array ends only when all
// its elements have ended.
func (h *History) EachEnded(ctx context.Context, fn func(Ended)) error {
	return h.queryRows(ctx, "SELECT job_id, accepted_revision, digest, phase, finished_at FROM finished_jobs j WHERE array_of = '' AND NOT is_array AND "+
		"NOT EXISTS (SELECT 1 FROM placements p WHERE p.job_seq = j.seq AND p.seat_state NOT IN ('released', 'cleared')) ORDER BY seq", nil, func(r *sql.Rows) error {
		var e Ended
		var digest []byte
		var at scannedTime
		if err := r.Scan(&e.Job, &e.Accepted, &digest, &e.Phase, &at); err != nil {
			return err
		}
		copy(e.Digest[:], digest)
		e.At = at.Time
		fn(e)
		return nil
	})
}
