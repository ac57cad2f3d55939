package service

import (
	"context"
	"io"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
)

// Engine answers questions about the state that the scheduler uses for its
// decisions.
type Engine interface {
	// Refusal returns the short reason why a job waits.
	Refusal(id ares.JobID) ares.Refusal
	// Explain returns the full explanation of why a job waits.
	Explain(id ares.JobID) ares.Explanation
	// Plan returns where a job would be placed if it were submitted now, or
	// else why it would wait. The argument p is the job's predicted
	// runtime, or nil if the runtime is unknown.
	Plan(job *ares.Job, p *ares.RuntimePredicted) (ares.Placing, *ares.Explanation)
	Fairness() ares.Fairness
	// Consolidate returns which jobs consolidation would move now, and whether consolidation is
	// enabled. It also returns the minimum ratio of gain to cost, in thousandths.
	Consolidate() (would []ares.Consolidation, done bool, gain int)
	// Snapshot writes a recording of the state that the scheduler uses for its
	// decisions. The recording is labelled with the version of the build.
	Snapshot(w io.Writer, build string) error
}

// ExplainJob implements apipb.JobServiceServer.
func (d *jobService) ExplainJob(ctx context.Context, req *apipb.ExplainJobRequest) (*apipb.ExplainJobResponse, error) {
	snap, err := d.snapshot(ctx, req.GetJobId())
	if ares.CodeOf(err) == ares.NotFound && pipeline.CheckJobID(req.GetJobId()) == nil || snap.Tombstone != nil {
		known, err := d.ArchivedJob(ctx, ares.JobID(req.GetJobId()))
		if err != nil && snap.Tombstone != nil {
			return nil, ares.Errorf(ares.Conflict, "job %s is archived and history does not have it, so nothing explains it any more", req.GetJobId())
		} else if err != nil {
			return nil, err
		}
		return &apipb.ExplainJobResponse{Explanation: d.explainedPast(ctx, known.Job, &known.Run)}, nil
	}
	if err != nil {
		return nil, err
	}
	if e, err := d.ownerExplains(ctx, &snap); e != nil || err != nil {
		return &apipb.ExplainJobResponse{Explanation: e}, err
	}
	// A running array job also counts as waiting if some of its elements have not been created
	// yet.
	waits := snap.Run.Phase.Waiting() || snap.Run.Phase == ares.Running && snap.Job.IsArray() && snap.Run.Next < snap.Job.Array.Count
	if !waits {
		return &apipb.ExplainJobResponse{Explanation: d.explainedPast(ctx, snap.Job, &snap.Run)}, nil
	}
	e := d.explained(ctx, visibilityOf(ctx), snap.Job, &snap.Run)
	e.Deadline = d.outlook(snap.Job, &snap.Run)
	e.Placements = d.placementReasons(visibilityOf(ctx), snap.Job, &snap.Run)
	if err = d.atHub(ctx, e, snap.Job, &snap.Run, nil); err != nil {
		return nil, err
	}
	return &apipb.ExplainJobResponse{Explanation: e}, nil
}

// PlanJob implements apipb.JobServiceServer.
func (d *jobService) PlanJob(ctx context.Context, req *apipb.PlanJobRequest) (*apipb.PlanJobResponse, error) {
	job, err := d.Cfg.Admission.Draft(ctx, d.request(ctx, specOf(ctx, req.GetJob())))
	if err != nil {
		return nil, err
	}
	var p *ares.RuntimePredicted
	if d.Cfg.Predict != nil {
		p = new(d.Cfg.Predict(job))
	}
	placing, why := d.Cfg.Engine.Plan(job, p)
	if why != nil {
		why.Job = "" // the job does not exist, so its ID is meaningless
		resp := &apipb.PlanJobResponse{Explanation: d.newExplanation(why, visibilityOf(ctx).within(job.Tenant)), Deadline: d.outlook(job, nil), PolicyNotes: notesOf(job)}
		return resp, d.planAtHub(ctx, resp, job, p)
	}
	resp := &apipb.PlanJobResponse{Placed: true, Score: int32(placing.Score), PlacementScore: newPlacementScore(placing.PlacementScore), Deadline: d.outlook(job, nil), PolicyNotes: notesOf(job)}
	for i := range placing.Seats {
		resp.Seats = append(resp.Seats, newSeat(&placing.Seats[i]))
	}
	return resp, nil
}

// planAtHub completes the plan of a job at a hub, whose engine has no nodes and so never places a job. In a cluster, the method does
// nothing.
func (d *jobService) planAtHub(ctx context.Context, resp *apipb.PlanJobResponse, job *ares.Job, p *ares.RuntimePredicted) error {
	e := resp.GetExplanation()
	if err := d.atHub(ctx, e, job, nil, p); err != nil {
		return err
	}
	resp.Clusters, e.Clusters = e.GetClusters(), nil
	if len(resp.GetClusters()) > 0 && resp.GetClusters()[0].GetFits() && len(e.GetBlockers()) == 0 {
		resp.Placed, resp.Explanation = true, nil
	}
	return nil
}

// The method `explained` returns the full explanation of why a job waits. The method first waits
// until the engine knows everything about the job that the caller knows.
func (d *Services) explained(ctx context.Context, to Visibility, job *ares.Job, run *ares.Run) *apipb.Explanation {
	d.WaitForView(ctx, max(job.Revision, run.Revision))
	e := d.Cfg.Engine.Explain(job.ID)
	return d.withYields(d.newExplanation(&e, to.within(job.Tenant)), to, job, run)
}

// withYields adds the preemptions and the nomination of a job to the job's
// explanation. A caller that may see the other jobs in a preemption, such as an
// administrator, also gets the names of those jobs.
func (d *Services) withYields(m *apipb.Explanation, to Visibility, job *ares.Job, run *ares.Run) *apipb.Explanation {
	m.State, m.Nomination, m.PolicyNotes = string(run.Phase), d.newNomination(to, run.Nominated), notesOf(job)
	for _, p := range cache.PreemptionsOf(job, run) {
		m.Preemptions = append(m.Preemptions, d.newPreemption(p, to))
	}
	return m
}

// newExplanation returns an explanation in its public form. The result reveals nothing about the
// jobs of other tenants, even if the engine names them. The argument `to` makes only the job's
// own tenant visible.
func (d *Services) newExplanation(e *ares.Explanation, to Visibility) *apipb.Explanation {
	m := &apipb.Explanation{JobId: string(e.Job), Queue: e.Queue, Rank: int32(e.Rank), Of: int32(e.Of), Order: e.Order}
	for _, b := range e.Blockers {
		m.Blockers = append(m.Blockers, &apipb.Blocker{Kind: b.Kind, Count: int32(b.Count), Of: int32(b.Of), Detail: b.Detail.Render(to.ref)})
	}
	for _, r := range e.Remedies {
		if steps := newSteps(r, to); steps != nil {
			m.Remedies = append(m.Remedies, &apipb.Remedy{Steps: steps})
		}
	}
	for _, a := range e.Ahead {
		ahead := &apipb.Ahead{Jobs: int32(a.Jobs)}
		if d.named(to, a.Tenant, a.First) {
			ahead.TenantId, ahead.First = a.Tenant, string(a.First)
		}
		m.Ahead = append(m.Ahead, ahead)
	}
	for _, h := range e.Holders {
		holder := &apipb.Holder{Gpus: int32(h.GPUs), Nodes: int32(h.Nodes)}
		if d.named(to, h.Tenant, h.Job) {
			holder.TenantId, holder.JobId = h.Tenant, string(h.Job)
		}
		m.Holders = append(m.Holders, holder)
	}
	if t := to.roundETA(e.ETA, d.Cfg.Now()); !t.Basis.IsEmpty() {
		m.Eta = &apipb.Eta{Earliest: apipb.Timestamp(t.Earliest), Latest: apipb.Timestamp(t.Latest), Reserved: t.Reserved, Basis: t.Basis.Render(to.ref)}
	}
	if h := to.roundHold(e.Hold, d.Cfg.Now()); h != nil {
		m.Hold = &apipb.HoldOutlook{
			Gpus: int32(h.GPUs), FreeGpus: int32(h.Free), IdleGpuHours: h.Idle.Hours(), Until: apipb.Timestamp(h.Until), Estimated: h.Estimated,
			DelayedJobs: int32(h.Delayed), DelaySeconds: h.Delay.Seconds(), Held: h.Held, Begins: apipb.Timestamp(h.Begins),
		}
	}
	return m
}

// newSteps returns the steps of a remedy in their public form. newSteps returns
// nil if the remedy ends a job that the reader may not see, because the reader
// could not end that job. For a free_gpus step, only the nodes are shown, not
// the jobs that would end.
func newSteps(r ares.Remedy, to Visibility) []*apipb.Step {
	var out []*apipb.Step
	for _, s := range r {
		target := ""
		switch visible := to.ref(s.Target); {
		case visible:
			target = s.Target.ID
		case s.Kind == ares.StepEnd:
			return nil
		}
		out = append(out, &apipb.Step{Kind: string(s.Kind), Target: target, Amount: int32(s.Amount), Text: s.Text.Render(to.ref), Field: s.Field, Value: s.Value})
	}
	return out
}
