package explain

import (
	"time"

	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// Explain says everything about a waiting job: what keeps it waiting, with
// counts; the smallest changes that would put it into the next plan; where it
// stands in line, and who holds what it could use. A job that is not waiting, or
// that the next plan has, has no blockers and needs no remedy. It needs the
// state alone: what it supposes, it makes real for a moment, and puts back.
func (ex *Explainer) Explain(id ares.JobID, now time.Time) ares.Explanation {
	out := ares.Explanation{Refusal: ares.Refusal{Job: id}}
	e := ex.jobs.EntryByID[id]
	if e == nil || !e.Waits() {
		return out
	}
	ex.core.Refresh()
	ex.windows.SetWindowTime(now)
	out.Queue = e.Job.Queue
	first := ex.queuePosition(e, now, &out)
	var c *diagnosis
	out.Blockers, c = ex.blockersOf(e, e.Shape, e.Job.GPUModel, now)
	if e.Queue == job.InPending && (len(out.Blockers) == 0 || len(e.Shape.Affinity) > 0) {
		switch {
		case ex.inNextPlan(e, now):
			out.Blockers = nil
			return out
		case ex.jobs.ArrayIsStopping(e):
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: ares.BlockerArray, Detail: "its array is being stopped"})
		case len(out.Blockers) == 0 && ex.jobs.AnySeatsHeld(now):
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: ares.BlockerOrder, Detail: "its place is kept for a gang that lost a node, for two minutes at most"})
		case len(out.Blockers) == 0:
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: ares.BlockerOrder, Detail: ex.aheadText()})
		}
	}
	if len(out.Blockers) == 0 {
		return out // its delay is over: the next plan makes it ready
	}
	if c == nil {
		ex.windows.SetExpectedStay(e)
		c = ex.diagnose(e.Shape, 0)
	}
	out.ETA = ex.etaOf(e, now)
	out.Holders = c.topHolders(e)
	out.Remedies = ex.findRemedies(e, c, first, now)
	return out
}

// Refusal says what keeps a job waiting, and no more.
func (ex *Explainer) Refusal(id ares.JobID, now time.Time) ares.Refusal {
	out := ares.Refusal{Job: id}
	if e := ex.jobs.EntryByID[id]; e != nil && e.Waits() {
		ex.core.Refresh()
		ex.windows.SetWindowTime(now)
		out.Blockers, _ = ex.blockersOf(e, e.Shape, e.Job.GPUModel, now)
	}
	return out
}

// Place answers for one job, known to the state or not, whether it may run now
// and where: its seats, or everything that keeps it waiting. It does what
// Decide does with each waiting job, and changes nothing.
func (ex *Explainer) Place(job *ares.Job, now time.Time) (ares.Placing, *ares.Refusal) {
	ex.core.Refresh()
	ex.windows.SetWindowTime(now)
	ex.windows.SetExpectedStayOf(job)
	e, sh := ex.jobs.EntryByID[job.ID], ex.jobs.Shapes.Find(ex.jobs.NewShape(job))
	if waits := ex.admissionWaits(e, sh, now); len(waits) == 0 {
		t := ex.round.Begin()
		t.Preempt.AdvanceNominations(&ares.Plan{Now: now}, e, nil)
		t.Preempt.HoldForRestarts(now, e)
		t.Preempt.HoldForMigrating(now, e)
		ex.scorer.BeginJob(job.ID, 0)
		members, ban := ex.jobs.AdmissibleMembers(sh, now)
		pl, ok := ares.Placing{}, false
		if members > 0 {
			pl, ok = t.Place.PlaceJob(sh, members, ban, e)
		}
		t.Preempt.ReleaseNominations()
		t.Close()
		if ok {
			pl.Job = job.ID
			return pl, nil
		}
	}
	blockers, _ := ex.blockersOf(e, sh, job.GPUModel, now)
	return ares.Placing{}, &ares.Refusal{Job: job.ID, Blockers: blockers}
}
