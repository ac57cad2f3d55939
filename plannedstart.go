package ares

import "time"

// PlannedStart is the place that is kept for a waiting job which found none, and when
// it is foreseen to be free. A decision works it out anew from what is known: it
// is nowhere stored.
type PlannedStart struct {
	Job JobID
	// At is when the job is foreseen to start, zero if nobody knows: then what
	// comes free of the place is kept until all of it is.
	At time.Time
	// Latest is how late At may become by jobs that start before it. What else
	// makes it later is an event: a run that is longer than foreseen, a node
	// lost, a job that comes before it in the order.
	Latest time.Time
	// Firm says that Latest binds: it is the first in line, borrows nothing that quotas
	// promise others, and no administrator's reservation keeps it off nodes that it
	// could use: when those open again is not what it waits for. One behind it may lose its place when somebody ahead
	// takes another than was foreseen, so its times are foreseen and no more.
	Firm   bool
	Seats  []Seat
	Level  Level  // the narrowest level that holds every seat, "" for none
	Domain string // the name of the place at that level
}
