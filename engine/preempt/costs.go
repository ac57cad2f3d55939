package preempt

import (
	"cmp"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// preemptionCost returns the cost of stopping a job, in thousandths of GPU-seconds. The cost includes the work
// since the last checkpoint, and the restart.
func (r *Round) preemptionCost(e *job.Entry, milli int64, now time.Time) int64 {
	done := r.Cfg.Preemption.Restart
	if savedAt := e.Run.Current().SavedUntil(); !savedAt.IsZero() {
		done += max(now.Sub(savedAt), 0)
	}
	return milli * int64(done/time.Second)
}

// During the selection of victims, nodes are compared by cost. A costModel says which cost is used.
type costModel uint8

const (
	proportionalCost costModel = iota // the part of the job's cost for this node: correct if all of the job's devices are useful
	wholeJobCost                      // the job's whole cost: correct for small requests
	sizeCost                          // the job's size: correct near the ceiling
)

// costOf returns the cost of stopping a job that holds the given amount of devices on a node.
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

// The method `cost` returns two values: the work that the victims lose, in thousandths of GPU-seconds, and the
// devices that they hold, in thousandths.
func (sel *victimSelection) cost() (lost, milli int64) {
	for _, v := range sel.victims {
		lost, milli = lost+v.cost, milli+v.milli
	}
	return lost, milli
}

// The method `cheaper` reports whether a selection costs less than another selection. If both cost the same,
// the selection whose victims hold fewer devices counts as cheaper.
func (sel *victimSelection) cheaper(other *victimSelection) bool {
	al, am := sel.cost()
	bl, bm := other.cost()
	return cmp.Or(cmp.Compare(al, bl), cmp.Compare(am, bm), cmp.Compare(len(sel.victims), len(other.victims))) < 0
}

// The method `smaller` reports whether the victims of a selection hold fewer devices than the victims of
// another selection.
func (sel *victimSelection) smaller(other *victimSelection) bool {
	_, a := sel.cost()
	_, b := other.cost()
	return a < b
}

// bySize orders victims by size, smallest first. Victims are recorded in this order. In this order, all
// victims except possibly the last one fit in the borrowed quota.
func bySize(a, b *candidateVictim) int { return cmp.Or(cmp.Compare(a.milli, b.milli), byCost(a, b)) }

// byCost orders victims by cost, cheapest first. If two jobs have the same cost, the job that started later comes
// first.
func byCost(a, b *candidateVictim) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.milli, b.milli),
		b.entry.Run.Current().PlacedAt.Compare(a.entry.Run.Current().PlacedAt), cmp.Compare(a.entry.ID, b.entry.ID))
}
