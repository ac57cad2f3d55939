package explain

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// Explain describes a waiting job. Explain returns the job's blockers with counts, its position in the queue, its
// ETA, the jobs that hold devices it could use, and its remedies. Remedies are the smallest changes that put the
// job into the next plan. A job that does not wait, or that the next plan places, has no blockers and no remedies.
// Explain needs exclusive access to the state, because it applies the simulated changes to the state and then
// undoes them.
func (ex *Explainer) Explain(id ares.JobID, now time.Time) ares.Explanation {
	out := ares.Explanation{Refusal: ares.Refusal{Job: id}}
	e := ex.jobs.EntryByID[id]
	if e == nil || !e.Waits() {
		return out
	}
	ex.core.Refresh()
	out.Queue = e.Job.Queue
	first := ex.queuePosition(e, now, &out)
	var c *diagnosis
	out.Blockers, c = ex.blockersOf(e, e.Shape, e.Job.GPUModel, ex.windows.StayOf(e, now))
	if e.Queue == job.InPending && (len(out.Blockers) == 0 || len(e.Shape.Affinity) > 0) {
		switch {
		case ex.inNextPlan(e, now):
			out.Blockers = nil
			return out
		case ex.jobs.ArrayIsStopping(e):
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: ares.BlockerArray, Detail: ares.PlainText("its array is being stopped")})
		case len(out.Blockers) == 0 && ex.jobs.AnySeatsHeld(now):
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: ares.BlockerOrder, Detail: ares.PlainText("its nodes are held for a gang that lost a node, for up to two minutes")})
		case len(out.Blockers) == 0:
			out.Blockers = append(out.Blockers, ares.Blocker{Kind: ares.BlockerOrder, Detail: ares.PlainText(ex.aheadText())})
		}
	}
	if len(out.Blockers) == 0 {
		return out // the delay is over, so the next plan makes the job ready
	}
	if c == nil {
		c = ex.diagnose(e.Shape, 0, ex.windows.StayOf(e, now))
	}
	out.ETA = ex.etaOf(e, now)
	out.Hold = ex.holdOutlook(e, now)
	out.Holders = c.topHolders(e)
	out.Remedies = ex.findRemedies(e, c, first, now)
	return out
}

// Refusal returns only the blockers of a waiting job.
func (ex *Explainer) Refusal(id ares.JobID, now time.Time) ares.Refusal {
	out := ares.Refusal{Job: id}
	if e := ex.jobs.EntryByID[id]; e != nil && e.Waits() {
		ex.core.Refresh()
		out.Blockers, _ = ex.blockersOf(e, e.Shape, e.Job.GPUModel, ex.windows.StayOf(e, now))
	}
	return out
}

// Place places one job as if no other job were waiting. The job need not be in the state. Place returns the job's
// seats, or all its blockers if the job does not fit. The state does not change.
func (ex *Explainer) Place(job *ares.Job, now time.Time) (ares.Placing, *ares.Refusal) {
	ex.core.Refresh()
	e, sh := ex.jobs.EntryByID[job.ID], ex.jobs.Shapes.Find(ex.jobs.NewShape(job))
	stay := ex.windows.StayOfJob(job, now)
	if e != nil {
		stay = ex.windows.StayOf(e, now)
	}
	waits := ex.admissionWaits(e, sh, now)
	if e == nil {
		waits = append(ex.jobs.StartBlockers(job, nil, now), waits...)
	}
	if len(waits) == 0 {
		t := ex.round.Begin(now)
		t.Preempt.AdvanceNominations(&ares.Plan{Now: now}, e, nil)
		t.Preempt.HoldForRestarts(now, e)
		t.Preempt.HoldForMigrating(now, e)
		ex.scorer.BeginJob(job.ID, 0)
		members, ban := ex.jobs.AdmissibleMembers(sh, now)
		pl, ok := ares.Placing{}, false
		if members > 0 {
			pl, ok = t.Place.PlaceJob(sh, members, ban, e, stay)
		}
		t.Preempt.ReleaseNominations()
		t.Close()
		if ok {
			pl.Job = job.ID
			return pl, nil
		}
	}
	blockers, _ := ex.blockersOf(e, sh, job.GPUModel, stay)
	if e == nil {
		blockers = append(ex.jobs.StartBlockers(job, nil, now), blockers...)
	}
	return ares.Placing{}, &ares.Refusal{Job: job.ID, Blockers: blockers}
}
