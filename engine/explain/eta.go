package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/preempt"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
)

// maxSimulated is how many jobs ahead of one get a place in time, to say when it
// has its own: what comes after as many is not foreseen, only that it is later.
// On large fleets it is fewer, since who asks holds up the next decision.
func (ex *Explainer) maxSimulated() int {
	return min(config.MaxReserved, max(minSimulated, simulatedNodes/max(len(ex.cluster.Nodes), 1)))
}

const (
	minSimulated   = 4
	simulatedNodes = 100_000 // times jobs
)

// queueWalk is what a walk down the order found of a job.
type queueWalk struct {
	at      int64 // its start; endless if that is not foreseen
	reached bool  // it was the job's turn within maxWalked
	blind   int   // jobs ahead of it for which nothing is foreseen
	ahead   int   // jobs ahead of it that have to start first
	place   ares.Merit
	by      [job.EstimateSources]int
	late    int
}

// etaOf is when the job is thought to start. Who is ahead of it in the order has
// its place first, and those who run leave as foreseen: sooner than nine of ten
// for the one end of the interval, and later for the other.
func (ex *Explainer) etaOf(e *job.Entry, now time.Time) ares.ETA {
	out := ares.ETA{}
	if e.Queue != job.InPending {
		out.Basis = "unknown: it is not in line yet"
		return out
	}
	if members, _ := ex.jobs.AdmissibleMembers(e.Shape, now); members == 0 {
		out.Basis = "unknown: it waits for something else than room on nodes"
		return out
	}
	if e.Run != nil && e.Run.Nominated != nil {
		return nominationETA(e.Run.Nominated, now)
	}
	late, early := ex.simulateQueue(e, now, now, job.P90), ex.simulateQueue(e, now, now, job.P10)
	shut := ex.windows.WindowsBlocking(e)
	opens := ex.afterWindows(e, shut, now, &late, &early)
	if len(shut) > 0 && late.at == job.NoEnd && early.at == job.NoEnd && ex.needsReservedNodes(e) {
		out.Earliest, out.Basis = job.LaterOf(now, shut[0].Until), ex.windows.BlockText(shut[0])
		if !early.reached {
			out.Basis += "; " + ex.notReachedText(early)
		}
		return out
	}
	if late.at <= now.UnixNano() && ex.jobs.AnySeatsHeld(now) {
		out.Earliest, out.Basis = now, "no latest time: when a gang that lost a node, or a job that is moved, has had its turn"
		return out
	}
	if early.at != job.NoEnd {
		out.Earliest = job.LaterOf(now, time.Unix(0, max(early.at, now.UnixNano())).UTC())
	}
	if late.at != job.NoEnd {
		out.Latest = job.LaterOf(out.Earliest, time.Unix(0, max(late.at, now.UnixNano())).UTC())
	}
	r := ex.cfg.Backfill
	out.Reserved = late.at != job.NoEnd && late.ahead == 0 && len(shut) == 0 && r.First > 0 && e.Waited(now) >= r.After && ex.round.Backfill.BackfillConfig() == r && !ex.jobs.WouldBorrowNow(e)
	out.Basis = ex.etaBasis(e, late, early, now)
	if opens != nil {
		ex.windows.SetExpectedStay(e)
		out.Basis = strings.TrimSuffix("when nodes are open again that are "+ex.windows.BlockText(opens)+"; "+out.Basis, "; ")
	}
	return out
}

// needsReservedNodes says whether the job has a place in the fleet, but none on the nodes that
// windows leave to it, even if nobody else were there: then it waits for the first to end.
func (ex *Explainer) needsReservedNodes(e *job.Entry) bool {
	ex.windows.SetExpectedStay(e)
	w, least := e.Shape.Request, e.Shape.MinMembers
	open, _ := ex.round.Place.FeasibleNodes(e.Shape, w)
	return ex.cluster.EmptyCapacity(open, w) < least && ex.cluster.EmptyCapacity(&ex.cluster.RefreshFeasible(w).Nodes, w) >= least
}

// maxWindowsTried is at the ends of how many windows a place is looked for: who asks holds up
// the next decision.
const maxWindowsTried = 2

// afterWindows looks for an earlier start at the ends of the windows that keep a job off
// nodes, and is the window that it waits for then. Until it ends nobody can tell who
// of those it is for will be there: what is foreseen is that it is as it is now.
func (ex *Explainer) afterWindows(e *job.Entry, shut []*window.Window, now time.Time, late, early *queueWalk) (opens *window.Window) {
	sooner := func(by job.Quantile, v *window.Window, than *queueWalk) bool {
		w := ex.simulateQueue(e, now, v.Until, by)
		if w.at == job.NoEnd || max(w.at, v.Until.UnixNano()) >= than.at {
			return false
		}
		*than = w
		than.at = max(w.at, v.Until.UnixNano())
		return true
	}
	for _, v := range shut[:min(len(shut), maxWindowsTried)] {
		if v.Until.UnixNano() < late.at && sooner(job.P90, v, late) {
			opens = v
		}
		if v.Until.UnixNano() < early.at && sooner(job.P10, v, early) && late.at == job.NoEnd {
			opens = v
		}
	}
	ex.windows.SetWindowTime(now)
	return opens
}

// simulateQueue goes down the order until it comes to a job, and finds it a place in time
// behind those ahead of it, with the windows that there are at a time.
func (ex *Explainer) simulateQueue(e *job.Entry, now, windows time.Time, by job.Quantile) queueWalk {
	out, most := queueWalk{at: job.NoEnd}, ex.maxSimulated()
	t := ex.round.Begin()
	defer t.Close()
	t.Backfill.Quantile, t.Backfill.ReserveForAll, t.Backfill.Backfill = by, true, config.BackfillConfig{First: most, After: -1 << 62}
	ex.cluster.PruneGains()
	ex.jobs.AdvanceClock(now)
	defer t.Preempt.ReleaseNominations()
	t.Preempt.AdvanceNominations(&ares.Plan{Now: now}, nil, func(*job.Entry, *ares.Placing, bool) bool { return true })
	ex.windows.SetWindowTime(windows)
	pass := ex.jobs.Queues.BeginRound(now)
	defer pass.End()
	t.OfferInOrder(pass, &ares.Plan{Now: now}, func(o *job.Entry, placing *ares.Placing, admitted bool) bool {
		out.reached = o == e
		mine := len(t.Backfill.Reservations) > 0 && t.Backfill.Reservations[len(t.Backfill.Reservations)-1].Entry == o
		switch {
		case out.reached && placing != nil:
			out.at = now.UnixNano()
		case mine:
			r := &t.Backfill.Reservations[len(t.Backfill.Reservations)-1]
			out.at, out.place, out.by, out.late = r.At, r.Merit, r.Sources, r.Overdue
		case out.reached:
			out.at = job.NoEnd
		case placing == nil && admitted:
			out.blind++
		}
		if !out.reached && placing == nil {
			out.ahead++
		}
		return !out.reached && len(t.Backfill.Reservations) < most && t.Backfill.ReservationTries < 2*most
	})
	if out.reached || by == job.P10 {
		return out // of the rest of the line it is not before the last that was walked
	}
	out.at = job.NoEnd
	return out
}

// etaBasis says in words what an ETA was drawn from.
func (ex *Explainer) etaBasis(e *job.Entry, late, early queueWalk, now time.Time) string {
	var parts []string
	switch {
	case late.at == job.NoEnd && early.reached && early.at == job.NoEnd:
		return "unknown: " + ex.noEstimateText(e, now)
	case !early.reached && early.at == job.NoEnd:
		return "unknown: " + ex.notReachedText(early)
	case !early.reached:
		return "at the earliest: " + ex.notReachedText(early)
	case late.at == job.NoEnd && !late.reached:
		parts = append(parts, fmt.Sprintf("no latest time: more than %d jobs are before it", late.ahead))
	case late.at == job.NoEnd:
		parts = append(parts, "no latest time: "+ex.noEstimateText(e, now))
	}
	place := late.place
	if late.at == job.NoEnd {
		place = early.place
	}
	if place.Domain != "" {
		parts = append(parts, fmt.Sprintf("on %s %s", place.Level, place.Domain))
	}
	if late.ahead > 0 {
		parts = append(parts, "behind "+preempt.CountJobs(late.ahead)+" in line")
	}
	if ends := late.by[job.FromForecast] + late.by[job.FromLimit] + late.by[job.FromGuess]; ends > 0 {
		parts = append(parts, "when "+seatsFree(ends)+" there: "+estimateText(late.by, ends))
	}
	if late.late > 0 {
		parts = append(parts, fmt.Sprintf("%d of these should be free by now: longer runs than foreseen", late.late))
	}
	if late.blind > 0 {
		parts = append(parts, "not counting "+preempt.CountJobs(late.blind)+" ahead of which nobody knows when they start")
	}
	return strings.Join(parts, "; ")
}

// notReachedText says why it was not the job's turn.
func (ex *Explainer) notReachedText(w queueWalk) string {
	switch {
	case ex.cfg.Queue.Blocked != config.BlockedHold:
		return fmt.Sprintf("more than %d jobs are before it", w.ahead)
	case w.at == job.NoEnd:
		return "a job ahead of it in its queue holds it up, and nobody knows until when"
	}
	return "a job ahead of it in its queue holds it up until then"
}

func seatsFree(n int) string {
	if n == 1 {
		return "1 seat comes free"
	}
	return fmt.Sprintf("%d seats come free", n)
}

// estimateText says what ends were foreseen by.
func estimateText(by [job.EstimateSources]int, ends int) string {
	var parts []string
	for i, words := range [job.EstimateSources]string{
		job.FromForecast: "by forecasts", job.FromLimit: "by their limits", job.FromGuess: "by a guess (no runs like it are known)",
	} {
		switch by[i] {
		case 0:
		case ends:
			return words
		default:
			parts = append(parts, fmt.Sprintf("%d %s", by[i], words))
		}
	}
	return strings.Join(parts, ", ")
}

// noEstimateText says why nothing is foreseen for a job.
func (ex *Explainer) noEstimateText(e *job.Entry, now time.Time) string {
	w := e.Shape.Request
	ex.windows.SetExpectedStay(e)
	reach, ok := ex.round.Place.FeasibleNodes(e.Shape, w)
	if !ok && len(ex.windows.BlockingWindows(e.Shape, &ex.cluster.RefreshFeasible(w).Nodes)) == 0 {
		return "no node is as it asks"
	}
	for at := reach.Next(0); at >= 0; at = reach.Next(at + 1) {
		n := ex.cluster.Nodes[at]
		if n.Schedulable() && len(ex.round.Backfill.ReleasesOn(n, now, job.P90).List) < len(n.Occupants) {
			return fmt.Sprintf("nothing says when the jobs on node %s end", n.ID)
		}
	}
	return "even when those have left who are foreseen to, it finds no place"
}

// aheadText says how those ahead of a job that would fit can keep it waiting.
func (ex *Explainer) aheadText() string {
	switch {
	case ex.cfg.Queue.Blocked == config.BlockedHold:
		return "a job ahead of it in its queue finds no place, and holds it up; or jobs ahead of it take the room there is, or fill the next plan"
	case ex.round.Backfill.BackfillConfig().First > 0:
		return "it would delay a job ahead of it, or jobs ahead of it take the room there is, or fill the next plan"
	}
	return "jobs ahead of it take the room there is, or fill the next plan"
}
