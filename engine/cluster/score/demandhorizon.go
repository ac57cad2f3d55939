package score

import "iter"

// demandHorizon returns the horizon for the given revision and number of jobs: jobs from later revisions are not
// counted. The horizon lies in a span that ends at the given revision. With more jobs, the span is longer. The
// horizon is a multiple of a power of four. This power is the highest one that has a multiple in the span. The
// horizon is the smallest such multiple. So the horizon stays the same for many consecutive revisions.
func demandHorizon(revision int64, jobs int) int64 {
	span := int64(64)
	for span < int64(jobs) {
		span *= 4
	}
	oldest, step := max(revision-span, 1), int64(1)
	round := oldest
	for next := round; next <= revision; step *= 4 {
		round = next
		next = (oldest + 4*step - 1) / (4 * step) * 4 * step
	}
	return round
}

// demandWindowLength is the length of a window, in revisions. A new job counts toward the size of the state only
// after the window in which it arrived has ended. Without this delay, each added or removed job could change the
// length of the span, and so move the horizon back and forth.
const demandWindowLength = 1024

// BeginWindow starts a new window if the revision is not in the current one. A new window contains no jobs yet.
func (d *demandTracker) BeginWindow(revision int64) {
	if window := revision / demandWindowLength * demandWindowLength; window != d.Window {
		d.Window, d.Recent = window, 0
	}
}

// countRecent counts a job that arrived in the current window, but never counts a job twice.
func (d *demandTracker) countRecent(a *DemandAsk) {
	if a.Request != nil && a.Revision > d.Window && a.window != d.Window+1 {
		a.window = d.Window + 1
		d.Recent++
	}
}

func (d *demandTracker) uncountRecent(a *DemandAsk) {
	if a.window == d.Window+1 {
		a.window = 0
		d.Recent--
	}
}

// AdvanceHorizon moves the horizon to its position for the given revision and number of jobs. Then AdvanceHorizon
// updates the demand, so that the demand includes all jobs up to the horizon. The argument `all` yields the requests
// of all jobs.
func (sc *Scorer) AdvanceHorizon(revision int64, jobs int, all iter.Seq[*DemandAsk]) {
	d := &sc.Demand
	before := d.CountedUntil
	d.CountedUntil = demandHorizon(revision, jobs-d.Recent)
	switch {
	case d.CountedUntil < before:
		sc.RecountDemand(all)
	case d.CountedUntil > before:
		later := d.pending
		d.pending = d.pending[:0]
		for _, a := range later {
			if a.pending = false; a.count == nil {
				sc.CountDemand(a)
			}
		}
		clear(later[len(d.pending):])
	}
}
