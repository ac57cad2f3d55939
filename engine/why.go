package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Explain says everything about a waiting job: what keeps it waiting, with
// counts; the smallest changes that would put it into the next plan; where it
// stands in line, and who holds what it could use. A job that is not waiting, or
// that the next plan has, has no blockers and needs no remedy. It needs the
// state alone: what it supposes, it makes real for a moment, and puts back.
func (ex *explainer) Explain(id ares.JobID, now time.Time) ares.Explanation {
	out := ares.Explanation{Refusal: ares.Refusal{Job: id}}
	e := ex.jobs.entryByID[id]
	if e == nil || !e.waits() {
		return out
	}
	ex.core.refresh()
	ex.windows.setWindowTime(now)
	out.Queue = e.job.Queue
	first := ex.queuePosition(e, now, &out)
	var c *diagnosis
	out.Blockers, c = ex.blockersOf(e, e.shape, e.job.GPUModel, now)
	if e.queue == inPending && (len(out.Blockers) == 0 || len(e.shape.affinity) > 0) {
		switch {
		case ex.inNextPlan(e, now):
			out.Blockers = nil
			return out
		case ex.jobs.arrayIsStopping(e):
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: kindArray, Detail: "its array is being stopped"})
		case len(out.Blockers) == 0 && ex.jobs.anySeatsHeld(now):
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: kindOrder, Detail: "its place is kept for a gang that lost a node, for two minutes at most"})
		case len(out.Blockers) == 0:
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: kindOrder, Detail: ex.aheadText()})
		}
	}
	if len(out.Blockers) == 0 {
		return out // its delay is over: the next plan makes it ready
	}
	if c == nil {
		ex.windows.setExpectedStay(e)
		c = ex.diagnose(e.shape, 0)
	}
	out.ETA = ex.etaOf(e, now)
	out.Holders = c.topHolders(e)
	out.Remedies = ex.findRemedies(e, c, first, now)
	return out
}

// Refusal says what keeps a job waiting, and no more.
func (ex *explainer) Refusal(id ares.JobID, now time.Time) ares.Refusal {
	out := ares.Refusal{Job: id}
	if e := ex.jobs.entryByID[id]; e != nil && e.waits() {
		ex.core.refresh()
		ex.windows.setWindowTime(now)
		out.Blockers, _ = ex.blockersOf(e, e.shape, e.job.GPUModel, now)
	}
	return out
}
