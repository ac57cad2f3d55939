package score

import "iter"

// DemandHorizon returns the last revision of jobs that are counted in a state of so
// many jobs. Of the revisions in a span behind the current one it is the first that is
// a multiple of the highest power of four, so it stays the same for many revisions.
func DemandHorizon(revision int64, jobs int) int64 {
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

// demandWindowLength is the number of revisions for which new jobs do not count in the
// size of the state. Otherwise the horizon would move back and forth with every job
// that comes and goes near a size where its span changes.
const demandWindowLength = 1024

// BeginWindow starts the window of a revision, if it is a new one. No job in the state
// is of a new window.
func (d *demandTracker) BeginWindow(revision int64) {
	if window := revision / demandWindowLength * demandWindowLength; window != d.Window {
		d.Window, d.Recent = window, 0
	}
}

// countRecent counts a job of the current window, once.
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

// AdvanceHorizon moves the horizon to where it belongs at a revision with so many
// jobs, and counts the jobs that are no longer after it. all yields the requests of
// all jobs.
func (sc *Scorer) AdvanceHorizon(revision int64, jobs int, all iter.Seq[*DemandAsk]) {
	d := &sc.Demand
	before := d.CountedUntil
	d.CountedUntil = DemandHorizon(revision, jobs-d.Recent)
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
