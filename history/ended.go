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

// Ends calls fn with how jobs ended, oldest first. A restore of the live store
// keeps them ended, so it tells only of those that hold no device any more, and
// not of arrays, which end with their elements or not at all.
func (h *History) Ends(ctx context.Context, fn func(Ended)) error {
	return h.reading(ctx, "SELECT job_id, accepted_revision, digest, phase, finished_at FROM jobs j WHERE array_of = '' AND NOT is_array AND "+
		"NOT EXISTS (SELECT 1 FROM placements p WHERE p.job_seq = j.seq AND p.seat_state NOT IN ('released', 'cleared')) ORDER BY seq", nil, func(r *sql.Rows) error {
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
