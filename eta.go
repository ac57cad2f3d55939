package ares

import "time"

// ETA is when a waiting job is thought to start, as things stand: jobs that come
// later and go first are not in it.
type ETA struct {
	// Earliest and Latest are the ends of an interval in which it starts in most
	// cases. Either is zero when nobody can say.
	Earliest, Latest time.Time
	// Reserved says that a place is kept for it already which nobody ahead of it
	// can take: it is the first in line.
	Reserved bool
	Basis    string // what it was drawn from, for people
}

// Known says whether anything is known.
func (e ETA) Known() bool { return !e.Earliest.IsZero() || !e.Latest.IsZero() }
