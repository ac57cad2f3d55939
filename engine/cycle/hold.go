package cycle

import (
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// These constants limit the number of jobs that are considered for holds in one cycle, and the number of holds.
const (
	maxHoldCandidates = 256
	maxHolds          = config.MaxReserved / 4
)

// A holdGroup is a set of long-waiting jobs that need some of the same nodes and do not fit. Nodes are held only for
// the one that has waited longest.
type holdGroup struct {
	first  *job.Entry
	nodes  *cluster.Set // feasible for the first
	wanted int          // GPUs that the jobs of the group need; 0 if the first fits
}

// holdForLongestWaiting holds nodes for jobs that have waited for DrainAfter or longer; see backfill.Round.HoldFor. It
// runs before the jobs are considered in order, because such jobs are often late in the order. Therefore it also holds
// nodes for a job that fits now, unless a job of another group has waited longer. Otherwise other jobs would use the
// nodes that earlier cycles have held for it.
func (r *Round) holdForLongestWaiting(now time.Time) {
	b := r.Backfill
	if c := &b.Backfill; b.ReserveForAll || c.First == 0 || c.DrainAfter == 0 || c.HoldIdle == 0 {
		return
	}
	for _, g := range r.holdGroups(now) {
		b.HoldFor(g.first, g.wanted, now)
	}
}

// holdGroups returns the groups of long-waiting jobs. The group with the job that has waited longest is first.
func (r *Round) holdGroups(now time.Time) (groups []*holdGroup) {
	type shapeGroup struct {
		shape *job.Shape
		group *holdGroup // nil if the jobs of the shape are in no group
	}
	var known []shapeGroup
	find := func(e *job.Entry) *holdGroup {
		for _, k := range known {
			if k.shape == e.Shape {
				return k.group
			}
		}
		var g *holdGroup
		if waits, fits := r.waitsForCapacity(e, now); waits {
			nodes := &r.cluster.RefreshFeasible(e.Shape.Request).Nodes
			met := false
			for _, other := range groups {
				if other.nodes.Meets(nodes) && (fits || other.wanted > 0) {
					met = true
					if !fits {
						g = other
					}
					break
				}
			}
			if !met && len(groups) < maxHolds {
				g = &holdGroup{first: e, nodes: nodes}
				groups = append(groups, g)
			}
			if fits {
				g = nil // it is not counted
			}
		}
		known = append(known, shapeGroup{e.Shape, g})
		return g
	}
	for _, e := range r.jobs.LongestWaiting(now.Add(-r.Backfill.Backfill.DrainAfter), maxHoldCandidates) {
		if g := find(e); g != nil {
			g.wanted += e.Shape.Members * e.Shape.Request.GPUs
		}
	}
	return groups
}

// waitsForCapacity reports whether a job is admitted and waits only for free capacity, and whether it fits now. A job
// for which other jobs are being stopped does not count.
func (r *Round) waitsForCapacity(e *job.Entry, now time.Time) (waits, fits bool) {
	if e.Run != nil && e.Run.Nominated != nil || !e.Plain && (r.jobs.ArrayIsStopping(e) || e.IsArray() && r.startableElements(e) <= 0) {
		return false, false
	}
	members, ban := r.jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 {
		return false, false
	}
	if r.Backfill.KnownUnschedulable(e.Shape, ban) {
		return true, false
	}
	stay := r.Place.StayOf(e)
	if r.Place.OutlastsWindow(e, stay) {
		return false, false
	}
	mark := r.Txn.Mark()
	_, fits = r.Place.TryPlace(e.Shape, members, ban, e, stay)
	r.Txn.Undo(mark)
	return true, fits
}

// WantedWith returns the number of GPUs that all long-waiting jobs need which do not fit, as far as they need some of the
// same nodes as the given job. The GPUs of the given job are always counted.
func (r *Round) WantedWith(e *job.Entry, now time.Time) int {
	own := e.Shape.Members * e.Shape.Request.GPUs
	for _, g := range r.holdGroups(now) {
		if g.wanted > 0 && g.nodes.Meets(&r.cluster.RefreshFeasible(e.Shape.Request).Nodes) {
			if e.Waited(now) >= r.Backfill.Backfill.DrainAfter {
				own = 0 // counted already
			}
			return g.wanted + own
		}
	}
	return own
}

// HoldsFor reports whether a cycle at the given time holds nodes for the job. The caller has begun a pass, and must
// close it without offering capacity.
func (r *Round) HoldsFor(e *job.Entry, now time.Time) bool {
	r.holdForLongestWaiting(now)
	for i := range r.Backfill.Reservations {
		if r.Backfill.Reservations[i].Entry == e {
			return true
		}
	}
	return false
}
