package ares

import "time"

// ETA is a waiting job's expected start time, predicted from the cluster's current state. An ETA
// does not consider jobs that are submitted later, even if they are placed before this job.
type ETA struct {
	// The job will probably start between Earliest and Latest. Earliest and Latest are zero when
	// they are unknown.
	Earliest, Latest time.Time
	// Reserved is true when backfill has reserved an allocation for this job. No other job can take
	// the allocation, because this job is first in its queue.
	Reserved bool
	Basis    Text // the source of the ETA, for people
}

// Known reports whether Earliest or Latest is known.
func (e ETA) Known() bool { return !e.Earliest.IsZero() || !e.Latest.IsZero() }
