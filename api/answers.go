package api

import (
	"context"
	"io"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
)

// Engine answers questions by the state that decisions are made from.
type Engine interface {
	// Refusal says in short why a job waits.
	Refusal(id ares.JobID) ares.Refusal
	// Explain says everything that can be said of a waiting job.
	Explain(id ares.JobID) ares.Explanation
	// Plan says where a job would go if it were submitted now, or else why it would
	// wait. p is how long it is thought to run, nil where nobody knows.
	Plan(job *ares.Job, p *ares.RuntimePredicted) (ares.Placing, *ares.Explanation)
	Fairness() ares.Fairness
	// Consolidate says what would be moved now, whether that is done, and how many
	// times what it costs it must gain, in thousandths.
	Consolidate() (would []ares.Consolidation, done bool, gain int)
	// Snapshot writes what decisions are made from as a recording, by a build of
	// that version.
	Snapshot(w io.Writer, build string) error
}

// ExplainJob implements apipb.JobServiceServer.
func (d *jobDoor) ExplainJob(ctx context.Context, req *apipb.ExplainJobRequest) (*apipb.ExplainJobResponse, error) {
	snap, err := d.snapshot(ctx, req.GetJobId())
	if err != nil {
		return nil, err
	}
	if snap.Tombstone != nil {
		return nil, ares.Errorf(ares.Conflict, "job %s is archived: it waits for nothing", req.GetJobId())
	}
	// A running array waits too, with the elements that are to come.
	waits := snap.Run.Phase.Waiting() || snap.Run.Phase == ares.Running && snap.Job.IsArray() && snap.Run.Next < snap.Job.Array.Count
	gave := control.PreemptionsOf(snap.Job, &snap.Run)
	if p := snap.Run.Phase; !waits && len(gave) == 0 {
		return nil, ares.Errorf(ares.Conflict, "job %s is %s: only a job that waits, or gave way to another, has something to explain", req.GetJobId(), p)
	}
	if !waits {
		e := &ares.Explanation{Refusal: ares.Refusal{Job: snap.Job.ID}, Queue: snap.Job.Queue}
		return &apipb.ExplainJobResponse{Explanation: d.withYields(d.newExplanation(e, eyesOf(ctx).within(snap.Job.Tenant)), eyesOf(ctx), snap.Job, &snap.Run)}, nil
	}
	e := d.explained(ctx, eyesOf(ctx), snap.Job, &snap.Run)
	e.Deadline = d.outlook(snap.Job, &snap.Run)
	return &apipb.ExplainJobResponse{Explanation: e}, nil
}

// PlanJob implements apipb.JobServiceServer.
func (d *jobDoor) PlanJob(ctx context.Context, req *apipb.PlanJobRequest) (*apipb.PlanJobResponse, error) {
	job, err := d.cfg.Desk.Draft(ctx, req.GetJob().Spec(), caller(ctx))
	if err != nil {
		return nil, err
	}
	var p *ares.RuntimePredicted
	if d.cfg.Predict != nil {
		p = new(d.cfg.Predict(job))
	}
	placing, why := d.cfg.Engine.Plan(job, p)
	if why != nil {
		why.Job = "" // nobody can ask for it
		return &apipb.PlanJobResponse{Explanation: d.newExplanation(why, eyesOf(ctx).within(job.Tenant)), Deadline: d.outlook(job, nil), PolicyNotes: notesOf(job)}, nil
	}
	resp := &apipb.PlanJobResponse{Placed: true, Score: int32(placing.Score), PlacementScore: newPlacementScore(placing.Merit), Deadline: d.outlook(job, nil), PolicyNotes: notesOf(job)}
	for i := range placing.Seats {
		resp.Seats = append(resp.Seats, newSeat(&placing.Seats[i]))
	}
	return resp, nil
}

// explained is everything that can be said of why a job waits. The engine is asked
// when it knows of the job what the caller knows.
func (d *Doors) explained(ctx context.Context, to eyes, job *ares.Job, run *ares.Run) *apipb.Explanation {
	d.seen(ctx, max(job.Revision, run.Revision))
	e := d.cfg.Engine.Explain(job.ID)
	return d.withYields(d.newExplanation(&e, to.within(job.Tenant)), to, job, run)
}

// withYields adds what a job was stopped for, and what is kept for it. Who may
// see the other's jobs is told their names: an administrator asks who it was.
func (d *Doors) withYields(m *apipb.Explanation, to eyes, job *ares.Job, run *ares.Run) *apipb.Explanation {
	m.State, m.Nomination, m.PolicyNotes = string(run.Phase), d.newNomination(to, run.Nominated), notesOf(job)
	for _, p := range control.PreemptionsOf(job, run) {
		m.Preemptions = append(m.Preemptions, d.newPreemption(p, to))
	}
	return m
}

// newExplanation is an explanation in its public form. Whatever the engine
// names, nothing of another tenant's jobs is told: to is within the job's own.
func (d *Doors) newExplanation(e *ares.Explanation, to eyes) *apipb.Explanation {
	m := &apipb.Explanation{JobId: string(e.Job), Queue: e.Queue, Rank: int32(e.Rank), Of: int32(e.Of)}
	for _, b := range e.Blockers {
		m.Blockers = append(m.Blockers, &apipb.Blocker{Kind: b.Kind, Count: int32(b.Count), Of: int32(b.Of), Detail: d.redact(to, b.Detail)})
	}
	for _, r := range e.Remedies {
		if steps := d.newSteps(r, to); steps != nil {
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
	if t := e.ETA; t.Basis != "" {
		m.Eta = &apipb.Eta{Earliest: apipb.Timestamp(t.Earliest), Latest: apipb.Timestamp(t.Latest), Reserved: t.Reserved, Basis: d.redact(to, t.Basis)}
	}
	return m
}

// newSteps is nil for a remedy that names another tenant's job: it is not for
// this one to know. Whose jobs a step ends is not told at all, only where.
func (d *Doors) newSteps(r ares.Remedy, to eyes) []*apipb.Step {
	var out []*apipb.Step
	for _, s := range r {
		if s.Kind == ares.StepEnd {
			if e := d.cfg.View.Job(ares.JobID(s.Target)); e == nil || !to.job(e.Job) {
				return nil
			}
		}
		out = append(out, &apipb.Step{Kind: string(s.Kind), Target: s.Target, Amount: int32(s.Amount), Text: d.redact(to, s.Text), Field: s.Field, Value: s.Value})
	}
	return out
}
