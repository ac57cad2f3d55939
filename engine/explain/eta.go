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

// maxSimulated is the number of jobs in queue order that an ETA simulates a start
// for. A job behind more of them gets no latest start. The number falls with the
// number of nodes, because the next cycle waits until the answer is there.
func (ex *Explainer) maxSimulated() int {
	return min(config.MaxReserved, max(minSimulated, simulatedNodes/max(len(ex.cluster.Nodes), 1)))
}

const (
	minSimulated   = 4
	simulatedNodes = 100_000 // nodes times simulated jobs
)

// queueWalk is the outcome of one simulated walk down the queue order to a job.
type queueWalk struct {
	at      int64 // expected start of the job; job.NoEnd if there is no estimate
	reached bool  // the walk came to the job within maxSimulated jobs
	blind   int   // admitted jobs ahead of it without an estimated start
	ahead   int   // jobs ahead of it that are not placed at once
	place   ares.PlacementScore
	by      [job.EstimateSources]int // expected releases it waits for, by source of the estimate
	late    int                      // of these, releases that are overdue
}

// etaOf returns the interval in which the job is expected to start. Jobs ahead of it
// in the queue order are placed first. Running jobs are released at the p10 of their
// runtime for the earliest start, at the p90 for the latest.
func (ex *Explainer) etaOf(e *job.Entry, now time.Time) ares.ETA {
	out := ares.ETA{}
	if e.Queue != job.InPending {
		out.Basis = "unknown: the job is not in the queue yet"
		return out
	}
	if members, _ := ex.jobs.AdmissibleMembers(e.Shape, now); members == 0 {
		out.Basis = "unknown: it waits for something other than free capacity"
		return out
	}
	if e.Run != nil && e.Run.Nominated != nil {
		return nominationETA(e.Run.Nominated, now)
	}
	late, early := ex.simulateQueue(e, now, now, job.P90), ex.simulateQueue(e, now, now, job.P10)
	stay := ex.windows.StayOf(e, now)
	shut := ex.windows.WindowsBlocking(e, stay)
	opens := ex.afterWindows(e, shut, now, &late, &early)
	if len(shut) > 0 && late.at == job.NoEnd && early.at == job.NoEnd && ex.needsReservedNodes(e, stay) {
		out.Earliest, out.Basis = job.LaterOf(now, shut[0].Until), shut[0].BlockText(stay)
		if !early.reached {
			out.Basis += "; " + ex.notReachedText(early)
		}
		return out
	}
	if late.at <= now.UnixNano() && ex.jobs.AnySeatsHeld(now) {
		out.Earliest, out.Basis = now, "no latest time: free nodes are held for a gang that lost a node, or for a job that is being migrated"
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
		out.Basis = strings.TrimSuffix("waits for nodes that are "+opens.BlockText(stay)+"; "+out.Basis, "; ")
	}
	return out
}

// needsReservedNodes reports whether the job fits on an empty cluster, but not on the
// nodes that reservations leave to it, even if these were empty. It then waits for
// the first reservation to end.
func (ex *Explainer) needsReservedNodes(e *job.Entry, stay window.Stay) bool {
	w, least := e.Shape.Request, e.Shape.MinMembers
	open, _ := ex.round.Place.FeasibleNodes(e.Shape, w, stay)
	return ex.cluster.EmptyCapacity(open, w) < least && ex.cluster.EmptyCapacity(&ex.cluster.RefreshFeasible(w).Nodes, w) >= least
}

// maxWindowsTried is the number of reservations at whose ends an earlier start is
// searched. It is small, because the next cycle waits until the answer is there.
const maxWindowsTried = 2

// afterWindows searches for an earlier start at the ends of the reservations that
// keep a job off nodes, and returns the reservation that the job waits for then, nil
// for none. It assumes that the jobs on the reserved nodes at the end of the
// reservation are those of today: which others will start there is not known.
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
	return opens
}

// simulateQueue walks down the queue order to a job, with a backfill reservation for
// every job that does not fit, and so finds the start of the job. by is the runtime
// quantile at which running jobs are released. The administrators' reservations are
// those in force at the time windows.
func (ex *Explainer) simulateQueue(e *job.Entry, now, windows time.Time, by job.Quantile) queueWalk {
	out, most := queueWalk{at: job.NoEnd}, ex.maxSimulated()
	t := ex.round.Begin(windows)
	defer t.Close()
	t.Backfill.Quantile, t.Backfill.ReserveForAll, t.Backfill.Backfill = by, true, config.BackfillConfig{First: most, After: -1 << 62}
	ex.cluster.PruneGains()
	ex.jobs.AdvanceClock(now)
	defer t.Preempt.ReleaseNominations()
	t.Preempt.AdvanceNominations(&ares.Plan{Now: now}, nil, func(*job.Entry, *ares.Placing, bool) bool { return true })
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
		return out // not reached: the job starts no earlier than the last one simulated
	}
	out.at = job.NoEnd
	return out
}

// etaBasis is the text that says what an ETA was derived from.
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
		parts = append(parts, fmt.Sprintf("no latest time: more than %d jobs are ahead of it", late.ahead))
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
		parts = append(parts, "behind "+preempt.CountJobs(late.ahead)+" in the queue")
	}
	if ends := late.by[job.FromForecast] + late.by[job.FromLimit] + late.by[job.FromGuess]; ends > 0 {
		parts = append(parts, "when "+ranksEndText(ends)+": "+estimateText(late.by, ends))
	}
	if late.late > 0 {
		parts = append(parts, fmt.Sprintf("%d of these ran past the estimate", late.late))
	}
	if late.blind > 0 {
		parts = append(parts, "not counting "+preempt.CountJobs(late.blind)+" ahead without an estimated start")
	}
	return strings.Join(parts, "; ")
}

// notReachedText says why the simulated walk ended before it came to the job.
func (ex *Explainer) notReachedText(w queueWalk) string {
	switch {
	case ex.cfg.Queue.Blocked != config.BlockedHold:
		return fmt.Sprintf("more than %d jobs are ahead of it", w.ahead)
	case w.at == job.NoEnd:
		return "a job ahead of it blocks its queue, and has no estimated start"
	}
	return "a job ahead of it blocks its queue until then"
}

func ranksEndText(n int) string {
	if n == 1 {
		return "1 rank there ends"
	}
	return fmt.Sprintf("%d ranks there end", n)
}

// estimateText says where the estimated ends of running jobs come from.
func estimateText(by [job.EstimateSources]int, ends int) string {
	var parts []string
	for i, words := range [job.EstimateSources]string{
		job.FromForecast: "by runtime predictions", job.FromLimit: "by time limits", job.FromGuess: "by a default estimate (no similar runs are known)",
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

// noEstimateText says why a job has no estimated start.
func (ex *Explainer) noEstimateText(e *job.Entry, now time.Time) string {
	w := e.Shape.Request
	stay := ex.windows.StayOf(e, now)
	reach, ok := ex.round.Place.FeasibleNodes(e.Shape, w, stay)
	if !ok && len(ex.windows.BlockingWindows(e.Shape, &ex.cluster.RefreshFeasible(w).Nodes, stay)) == 0 {
		return "no node matches its request"
	}
	for at := reach.Next(0); at >= 0; at = reach.Next(at + 1) {
		n := ex.cluster.Nodes[at]
		if n.Schedulable() && len(ex.round.Backfill.ReleasesOn(n, now, job.P90).List) < len(n.Occupants) {
			return fmt.Sprintf("jobs on node %s have no estimated end", n.ID)
		}
	}
	return "it does not fit even after all expected releases"
}

// aheadText says how jobs ahead in the queue order can keep a job waiting that would
// fit by itself.
func (ex *Explainer) aheadText() string {
	switch {
	case ex.cfg.Queue.Blocked == config.BlockedHold:
		return "a job ahead of it does not fit and blocks its queue; or jobs ahead of it use the free capacity, or fill the next plan"
	case ex.round.Backfill.BackfillConfig().First > 0:
		return "it would delay a job ahead of it, or jobs ahead of it use the free capacity, or fill the next plan"
	}
	return "jobs ahead of it use the free capacity, or fill the next plan"
}
