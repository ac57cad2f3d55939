package preempt

import (
	"cmp"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// preemptionCost is what stopping a job costs, in thousandths of GPU-seconds: its work
// since its last checkpoint, and the restart.
func (r *Round) preemptionCost(e *job.Entry, milli int64, now time.Time) int64 {
	done := r.Cfg.Preemption.Restart
	if savedAt := e.Run.Current().Kept(); !savedAt.IsZero() {
		done += max(now.Sub(savedAt), 0)
	}
	return milli * int64(done/time.Second)
}

// costModel is how nodes are compared while victims are selected.
type costModel uint8

const (
	proportionalCost costModel = iota // the job's cost times its part on the node: right if all of the job is of use
	wholeJobCost                      // the job's whole cost: right for small requests
	sizeCost                          // the job's size: right near the ceiling
)

// costOf is the cost of a job that holds so much on a node.
func (model costModel) costOf(v *candidateVictim, milli int64) int64 {
	lost := min(v.cost, 1<<44)
	switch model {
	case proportionalCost:
		if v.milli > 0 && milli < v.milli {
			return lost / v.milli * milli
		}
	case sizeCost:
		return min(v.milli, 1<<24)<<20 + min(lost/cluster.WholeMilli, 1<<20-1)
	case wholeJobCost:
	}
	return lost
}

// cost is what the victims lose, in thousandths of GPU-seconds, and what they hold, in
// thousandths of devices.
func (sel *victimSelection) cost() (lost, milli int64) {
	for _, v := range sel.victims {
		lost, milli = lost+v.cost, milli+v.milli
	}
	return lost, milli
}

// cheaper reports whether a selection costs less than another, or as much and stops less.
func (sel *victimSelection) cheaper(other *victimSelection) bool {
	al, am := sel.cost()
	bl, bm := other.cost()
	return cmp.Or(cmp.Compare(al, bl), cmp.Compare(am, bm), cmp.Compare(len(sel.victims), len(other.victims))) < 0
}

// smaller reports whether a selection stops less than another.
func (sel *victimSelection) smaller(other *victimSelection) bool {
	_, a := sel.cost()
	_, b := other.cost()
	return a < b
}

// bySize orders victims as they are recorded, the smallest first: if borrowed quota is
// exceeded at all, only the last victim exceeds it.
func bySize(a, b *candidateVictim) int { return cmp.Or(cmp.Compare(a.milli, b.milli), byCost(a, b)) }

// byCost orders victims by cost, the cheapest first; among equals the one that started
// last.
func byCost(a, b *candidateVictim) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.milli, b.milli),
		b.entry.Run.Current().PlacedAt.Compare(a.entry.Run.Current().PlacedAt), cmp.Compare(a.entry.ID, b.entry.ID))
}
