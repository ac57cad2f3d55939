package ares

import "time"

// PlannedStart is the allocation that backfill reserves for a blocked job. It includes the time at which all of the
// allocation is expected to be free. PlannedStarts are not stored; each decision computes them again.
type PlannedStart struct {
	Job JobID
	// At is the time of the expected start. The field At is zero when the expected start is unknown. If At is zero,
	// backfill reserves each part of the allocation as soon as that part is free, until the whole allocation is free.
	At time.Time
	// Placing other jobs cannot delay the start beyond Latest. Only other events can delay it further. Examples are a
	// run that takes longer than predicted, a lost node, or a job that moves ahead in the queue.
	Latest time.Time
	// Firm is true when Latest is a guarantee. Latest is a guarantee only if three conditions hold: the job is first in
	// its queue, it does not borrow quota, and no administrator's reservation keeps it off usable nodes. If Firm is
	// false, Latest is only an estimate. A job ahead in the queue may take the planned allocation.
	Firm   bool
	Seats  []Seat
	Level  Level  // the narrowest level that holds every seat, "" for none
	Domain string // the name of the domain at that level
	// Held is true when no other job may use the parts of the allocation that are free. Price is then the GPU time that
	// the job must have earned for it; see docs/guide/backfill.md.
	Held  bool
	Price time.Duration
}
