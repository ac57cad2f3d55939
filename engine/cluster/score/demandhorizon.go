package score

import "iter"

// DemandHorizon is the last revision of jobs that count in a state of so many jobs:
// of the revisions not far behind, the first that is as round a number as any,
// to base four. While the revision goes up it stays for long.
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

// demandWindowLength is how many revisions the size of the state is taken to be the
// same for, but for jobs that go. Else the horizon would move to and fro with
// every job that comes and goes where its span changes.
const demandWindowLength = 1024

// BeginWindow begins the window of a revision, if it is another one: no job that is
// there already is of it.
func (d *demandTracker) BeginWindow(revision int64) {
	if window := revision / demandWindowLength * demandWindowLength; window != d.Window {
		d.Window, d.Recent = window, 0
	}
}

// countRecent counts the job among the recent ones, if it is one.
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

// AdvanceHorizon moves the horizon to where it is at a revision with so many
// jobs, whose asks are all.
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
