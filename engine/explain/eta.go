package explain

import (
	"fmt"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/preempt"
	"github.com/ares-scheduler/ares/engine/window"
)

// To compute an ETA, the simulation starts the first jobs in queue order. maxSimulated is the maximum number of
// these jobs. If more jobs than that are ahead of a job, its ETA has no latest start. The number of simulated jobs
// is smaller on a larger cluster, because the next cycle waits until the ETA is computed.
func (ex *Explainer) maxSimulated() int {
	return min(config.MaxReserved, max(minSimulated, simulatedNodes/max(len(ex.cluster.Nodes), 1)))
}

const (
	minSimulated   = 4
	simulatedNodes = 100_000 // product of nodes and simulated jobs
)

// A queueWalk is the result of one simulation that goes through the queue in order until it reaches a job.
type queueWalk struct {
	at      int64 // expected start of the job; job.NoEnd if there is no estimate
	reached bool  // the walk reached the job within maxSimulated jobs
	blind   int   // admitted jobs ahead of it without an estimated start
	ahead   int   // jobs ahead of it that are not placed immediately
	place   ares.PlacementScore
	by      [job.EstimateSources]int // expected releases it waits for, by source of the estimate
	late    int                      // number of those releases that are overdue
}

// etaOf returns the interval in which the job is expected to start. The simulation first places the jobs that are
// ahead in the queue order. To find the earliest start, the simulation assumes that running jobs end at the p10
// of their runtime. To find the latest start, the simulation assumes that running jobs end at the p90 of their
// runtime.
func (ex *Explainer) etaOf(e *job.Entry, now time.Time) ares.ETA {
	out := ares.ETA{}
	if e.Queue != job.InPending {
		if begin, ok := ex.jobs.WaitsOnlyForBegin(e, now); ok {
			out.Earliest, out.Basis = begin, ares.PlainText("no latest time: the job begins then at the earliest")
			return out
		}
		out.Basis = ares.PlainText("unknown: the job is not in the queue yet")
		return out
	}
	if members, _ := ex.jobs.AdmissibleMembers(e.Shape, now); members == 0 {
		out.Basis = ares.PlainText("unknown: it waits for something other than free capacity")
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
			out.Basis = ares.Textf("%s; %s", out.Basis, ex.notReachedText(e, early))
		}
		return out
	}
	if late.at <= now.UnixNano() && ex.jobs.AnySeatsHeld(now) {
		out.Earliest, out.Basis = now, ares.PlainText("no latest time: free nodes are held for a gang that lost a node, or for a job that is being migrated")
		return out
	}
	if early.at != job.NoEnd {
		out.Earliest = job.LaterOf(now, time.Unix(0, max(early.at, now.UnixNano())).UTC())
	}
	if late.at != job.NoEnd && late.by[job.FromGuess] == 0 {
		out.Latest = job.LaterOf(out.Earliest, time.Unix(0, max(late.at, now.UnixNano())).UTC())
	}
	r := ex.cfg.Backfill
	out.Reserved = late.at != job.NoEnd && late.ahead == 0 && len(shut) == 0 && r.First > 0 && e.Waited(now) >= r.After && ex.round.Backfill.BackfillConfig() == r && !ex.jobs.WouldBorrowNow(e)
	out.Basis = ex.etaBasis(e, late, early, now)
	if opens != nil {
		waits := ares.Textf("waits for nodes that are %s", opens.BlockText(stay))
		if !out.Basis.IsEmpty() {
			waits = ares.Textf("%s; %s", waits, out.Basis)
		}
		out.Basis = waits
	}
	return out
}

// needsReservedNodes reports whether the job can run only on reserved nodes. A job needs reserved nodes if it would
// fit on an empty cluster, but not on the unreserved nodes alone, even if they were empty. A job that needs
// reserved nodes waits until the first reservation ends.
func (ex *Explainer) needsReservedNodes(e *job.Entry, stay window.Stay) bool {
	w, least := e.Shape.Request, e.Shape.MinMembers
	open, _ := ex.round.Place.FeasibleNodes(e.Shape, w, stay)
	return ex.cluster.EmptyCapacity(open, w) < least && ex.cluster.EmptyCapacity(&ex.cluster.RefreshFeasible(w).Nodes, w) >= least
}

// An ETA checks whether the job could start when a reservation ends. maxWindowsTried is the maximum number of
// reservations that are checked in this way. The number is small, because the next cycle waits until the ETA is
// computed.
const maxWindowsTried = 2

// afterWindows checks whether the job could start earlier if it waited for the end of a reservation that blocks it.
// If so, afterWindows updates the starts and returns that reservation. If not, afterWindows returns nil. It assumes
// that the jobs on the reserved nodes still run there when the reservation ends, because later jobs are not known.
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

// simulateQueue computes the expected start of a job. The simulation goes through the queue order up to the job,
// and makes a backfill reservation for every job that does not fit. The parameter `by` is the runtime quantile
// at which running jobs are assumed to end. The parameter `windows` is a time. The simulation uses the
// administrators' reservations that are in effect at this time.
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
		return out // not reached: the job starts no earlier than the last simulated one
	}
	out.at = job.NoEnd
	return out
}

// etaBasis returns a text that describes what an ETA is based on.
func (ex *Explainer) etaBasis(e *job.Entry, late, early queueWalk, now time.Time) ares.Text {
	var parts []ares.Text
	add := func(format string, args ...any) { parts = append(parts, ares.Textf(format, args...)) }
	switch {
	case late.at == job.NoEnd && early.reached && early.at == job.NoEnd:
		return ares.Textf("unknown: %s", ex.noEstimateText(e, now))
	case !early.reached && early.at == job.NoEnd:
		return ares.Textf("unknown: %s", ex.notReachedText(e, early))
	case !early.reached:
		return ares.Textf("at the earliest: %s", ex.notReachedText(e, early))
	case late.at == job.NoEnd && !late.reached && late.ahead == 0:
		add("no latest time: %s", ex.notReachedText(e, late))
	case late.at == job.NoEnd && !late.reached:
		add("no latest time: more than %d jobs are ahead of it", late.ahead)
	case late.at == job.NoEnd:
		add("no latest time: %s", ex.noEstimateText(e, now))
	case late.by[job.FromGuess] > 0:
		add("no latest time: no estimate for jobs that it waits for")
	}
	place := late.place
	if late.at == job.NoEnd {
		place = early.place
	}
	if place.Domain != "" {
		add("on %s %s", place.Level, place.Domain)
	}
	if late.ahead > 0 {
		add("behind %s in the queue", preempt.CountJobs(late.ahead))
	}
	if ends := late.by[job.FromForecast] + late.by[job.FromLimit] + late.by[job.FromGuess]; ends > 0 {
		add("when %s: %s", ranksEndText(ends), estimateText(late.by, ends))
	}
	if late.late > 0 {
		add("%d of these ran past the estimate", late.late)
	}
	if late.blind > 0 {
		add("not counting %s ahead without an estimated start", preempt.CountJobs(late.blind))
	}
	return ares.JoinTexts(parts, "; ")
}

// notReachedText describes why the simulation of the queue ended before it reached the job.
func (ex *Explainer) notReachedText(e *job.Entry, w queueWalk) string {
	switch {
	case w.ahead == 0 && e.Job.IsArray():
		return "its next element starts after one of its elements has ended"
	case w.ahead == 0:
		return "the scheduler does not consider it now"
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

// estimateText describes the source of the estimated ends of running jobs.
func estimateText(by [job.EstimateSources]int, ends int) string {
	var parts []string
	for i, words := range [job.EstimateSources]string{
		job.FromForecast: "by runtime predictions", job.FromLimit: "by time limits", job.FromGuess: "without an estimate (no similar runs and no time limit)",
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

// noEstimateText describes why a job has no estimated start.
func (ex *Explainer) noEstimateText(e *job.Entry, now time.Time) ares.Text {
	w := e.Shape.Request
	stay := ex.windows.StayOf(e, now)
	reach, ok := ex.round.Place.FeasibleNodes(e.Shape, w, stay)
	if !ok && len(ex.windows.BlockingWindows(e.Shape, &ex.cluster.RefreshFeasible(w).Nodes, stay)) == 0 {
		return ares.PlainText("no node matches its request")
	}
	for at := reach.Next(0); at >= 0; at = reach.Next(at + 1) {
		n := ex.cluster.Nodes[at]
		if n.Schedulable() && len(ex.round.Backfill.ReleasesOn(n, now, job.P90).List) < len(n.Occupants) {
			return ares.Textf("jobs on node %s have no estimated end", ares.NodeRef(n.ID))
		}
	}
	return ares.PlainText("it does not fit even after all expected releases")
}

// A job may have to wait although it alone would fit. aheadText describes how earlier jobs in the queue order cause
// this.
func (ex *Explainer) aheadText() string {
	switch {
	case ex.cfg.Queue.Blocked == config.BlockedHold:
		return "a job ahead of it does not fit and blocks its queue; or jobs ahead of it use the free capacity, or fill the next plan"
	case ex.round.Backfill.BackfillConfig().First > 0:
		return "it would delay a job ahead of it, or jobs ahead of it use the free capacity, or fill the next plan"
	}
	return "jobs ahead of it use the free capacity, or fill the next plan"
}
