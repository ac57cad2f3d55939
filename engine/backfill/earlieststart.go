package backfill

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// These constants limit the search for the earliest start, so that a cycle stays short even if many jobs wait.
// For a gang, the search tries up to maxDomainsTried domains. It tries each domain at the time when the domain
// has capacity for enough members. Topology rules may forbid a placement in all tried domains. Then the search
// tries later times. At these times there is capacity for 2, 4 and 8 times as many members as the gang needs
// to start. A bisection of up to maxBisections steps then looks for an earlier start.
const (
	maxDomainsTried = 4
	maxDoublings    = 3
	maxBisections   = 5
)

// EarliestStart returns a reservation for a job at the earliest time at which the job fits, assuming that running
// jobs end when expected. The reserved seats may stay taken in the transaction, so the caller must undo the
// transaction.
func (b *Round) EarliestStart(e *job.Entry, members int, ban uint64, now time.Time) (best Reservation, found bool) {
	if b.Jobs.Estimated+len(b.Jobs.Running.Stopping) == 0 {
		return Reservation{}, false // no running job has an expected end
	}
	if !e.Shape.Wish.OneModel {
		return b.earliestStart(e, members, ban, now)
	}
	mark := b.Txn.Mark()
	for _, ban := range b.Cluster.ModelBans(e.Shape.Request, ban) {
		if r, ok := b.earliestStart(e, members, ban, now); ok && (!found || r.At < best.At) {
			best, found = r, true
		}
		b.Txn.Undo(mark)
	}
	return best, found
}

// earliestStart is EarliestStart on the models that are not excluded. The search counts the free devices of all these
// models together. So for a gang that needs devices of one model, it is called for each model separately.
func (b *Round) earliestStart(e *job.Entry, members int, ban uint64, now time.Time) (Reservation, bool) {
	sh := e.Shape
	req := b.Cluster.WithoutModels(sh.Request, ban)
	feasible, ok := b.Place.FeasibleNodes(sh, req, b.Place.StayOf(e))
	if !ok || b.Cluster.ExceedsLeafLimit(req) {
		return Reservation{}, false
	}
	level := ares.Level("")
	if sh.Members > 1 {
		level = sh.Wish.Required
		if level.Rank() > ares.LevelNode.Rank() {
			level = ares.LevelNode
		}
	}
	mark := b.Txn.Mark()
	o := b.refreshOpenings(req, now, b.Quantile)
	domains := b.domainOpenings(req, o, feasible, level, sh.MinMembers, now, b.Quantile)
	for _, domain := range domains {
		if r, fits := b.placeAt(domain, e, req, members, ban, now); fits {
			return r, true
		}
		b.Txn.Undo(mark)
	}
	if len(domains) == 0 || sh.Members == 1 {
		return Reservation{}, false
	}
	// The nodes have enough capacity, but topology rules forbid a placement on them. Therefore later start times
	// are tried.
	for k := range maxDoublings {
		lo, hi := domains[0].lo, domains[0].hi
		o, feasible = b.refreshOpenings(req, now, b.Quantile), b.Place.FeasibleAgain(sh, req, b.Place.StayOf(e))
		wide := domainOpening{lo, hi, b.timeWithCapacity(req, o, feasible, lo, hi, sh.MinMembers<<(k+1), job.NoEnd, now, b.Quantile)}
		if wide.at == job.NoEnd {
			break
		}
		if r, fits := b.placeAt(wide, e, req, members, ban, now); fits {
			return b.bisectStart(mark, r, domainOpening{lo, hi, domains[0].at}, wide, e, req, members, ban, now), true
		}
		b.Txn.Undo(mark)
	}
	return Reservation{}, false
}

// bisectStart finds an earlier start between a time at which the job does not fit and a later time at
// which it fits.
func (b *Round) bisectStart(mark cluster.Savepoint, r Reservation, not, fits domainOpening, e *job.Entry, req *cluster.Request, members int, ban uint64, now time.Time) Reservation {
	b.Txn.Undo(mark)
	o, feasible := b.refreshOpenings(req, now, b.Quantile), b.Place.FeasibleAgain(e.Shape, req, b.Place.StayOf(e))
	var times []int64
	for at := feasible.Next(fits.lo); at >= 0 && at < fits.hi; at = feasible.Next(at + 1) {
		for _, d := range b.ReleasesOn(b.Cluster.Nodes[at], now, b.Quantile).List {
			if o.opensAt[at] <= fits.at && d.at > not.at && d.at < fits.at {
				times = append(times, d.at)
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	lo, hi := -1, len(times)
	for range maxBisections {
		if lo+1 >= hi {
			break
		}
		mid := (lo + hi) / 2
		if at, ok := b.placeAt(domainOpening{fits.lo, fits.hi, times[mid]}, e, req, members, ban, now); ok {
			r, hi = at, mid
		} else {
			lo = mid
		}
		b.Txn.Undo(mark)
	}
	return r
}

// placeAt places the job on the nodes of a domain. A taken seat counts as free if it is expected to be released
// by the start time.
func (b *Round) placeAt(domain domainOpening, e *job.Entry, req *cluster.Request, members int, ban uint64, now time.Time) (Reservation, bool) {
	from := len(b.Txn.Deltas)
	feasible := b.Place.FeasibleAgain(e.Shape, req, b.Place.StayOf(e))
	o := b.openings[b.Quantile][req]
	bound := domain.at + 1
	for at := range o.openBefore(&bound, feasible, domain.lo, domain.hi) {
		n := b.Cluster.Nodes[at]
		list := b.ReleasesOn(n, now, b.Quantile).List
		for i := range list {
			if list[i].at > domain.at {
				break
			}
			b.Txn.ReleaseSeat(n, list[i].seat)
		}
		b.Cluster.CapacityChanged(n)
	}
	released := len(b.Txn.Deltas)
	// Administrators' reservations are applied as they will be at the start time.
	stay := b.Windows.StayOf(e, job.LaterOf(b.Place.At, time.Unix(0, max(domain.at, now.UnixNano()))))
	placing, ok := b.Place.TryPlace(e.Shape, members, ban, e, stay)
	if !ok {
		return Reservation{}, false
	}
	r := Reservation{
		Entry: e, leaf: e.Shape.Leaf, At: max(domain.at, now.UnixNano()), endsAt: job.NoEnd,
		Seats: placing.Seats, Merit: placing.PlacementScore, toHold: b.alreadyFree(placing.Seats, b.Txn.Deltas[from:released]),
	}
	if runs := e.ExpectedRuntime(b.Quantile); runs != job.Forever {
		r.endsAt = r.At + int64(max(runs-e.Done(now), 0))
	}
	b.setBackfillLimit(&r, domain.at, now)
	return r, true
}

// setBackfillLimit sets the time by which backfilled jobs must have ended. The slack is added to the undelayed
// start. The undelayed start is when the job would start if no other job had been placed since the job qualified
// for a reservation. Therefore all backfilled jobs together cannot delay the reserved job by more than the
// slack.
func (b *Round) setBackfillLimit(r *Reservation, at int64, now time.Time) {
	e := r.Entry
	qualified := now.Add(b.Backfill.After - e.Waited(now)).UnixNano()
	undelayed := int64(job.AlreadyOver) // the start if no job had been placed since this job qualified
	var last *cluster.Node
	for i := range r.Seats {
		n := b.Cluster.NodesByID[r.Seats[i].Node]
		if n == last {
			continue
		}
		last = n
		for _, d := range b.forecastOf(n).releases[b.Quantile].List {
			if d.at > at {
				break
			}
			if d.placedAt < qualified {
				undelayed = max(undelayed, d.at)
			}
			r.Sources[d.source]++
			if d.overdue {
				r.Overdue++
			}
		}
	}
	r.limit = r.At
	if undelayed != job.AlreadyOver && (b.Backfill.SlackPercent > 0 || b.Backfill.SlackLeast > 0) {
		wait := time.Duration(undelayed-now.UnixNano()) + e.Waited(now)
		r.limit = max(r.At, undelayed+int64(b.Backfill.Slack(wait)))
	}
}
