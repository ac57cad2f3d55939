package service

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// explainedPast returns why a job that does not wait ran where and when it did, and how it ended.
func (d *Services) explainedPast(ctx context.Context, job *ares.Job, run *ares.Run) *apipb.Explanation {
	to := visibilityOf(ctx)
	e := &ares.Explanation{Refusal: ares.Refusal{Job: job.ID}, Queue: job.Queue}
	m := d.withYields(d.newExplanation(e, to.within(job.Tenant)), to, job, run)
	m.Placements, m.Requirements = d.placementReasons(to, job, run), requirementsOf(job)
	if run.Phase.Final() {
		m.Ended = d.hideStored(to, NewJob(job, run, nil)).GetReason()
	} else {
		m.Deadline = d.outlook(job, run)
	}
	return m
}

// placementReasons returns why each attempt of a job was placed where and when it was.
func (d *Services) placementReasons(to Visibility, job *ares.Job, run *ares.Run) []*apipb.PlacementReason {
	var out []*apipb.PlacementReason
	public := d.hideStored(to, NewJob(job, run, nil)).GetAttempts()
	for i := range run.Attempts {
		a := &run.Attempts[i]
		r := &apipb.PlacementReason{
			Attempt: int32(a.Number), PlacedAt: apipb.Timestamp(a.PlacedAt), Score: newPlacementScore(a.PlacementScore), Ranks: int32(len(a.Seats)),
			Outcome: string(a.Outcome),
		}
		if k := slices.IndexFunc(public, func(p *apipb.Attempt) bool { return p.GetNumber() == r.Attempt }); k >= 0 {
			r.Reason = public[k].GetReason()
		}
		nodes := map[string]bool{}
		for k := range a.Seats {
			nodes[a.Seats[k].Node] = true
		}
		r.Nodes = slices.Sorted(maps.Keys(nodes))
		event, since := d.placeableSince(job, run.Attempts[:i])
		r.After, r.WaitedSeconds = event, max(a.PlacedAt.Sub(since), 0).Seconds()
		out = append(out, r)
	}
	return out
}

// placeableSince returns the event after which a job could be placed, and its time. The argument has the attempts
// before.
func (d *Services) placeableSince(job *ares.Job, before []ares.Attempt) (event string, at time.Time) {
	if n := len(before); n > 0 {
		last := &before[n-1]
		if last.Preemption != nil {
			return "preemption", last.EndedAt
		}
		return "retry", last.EndedAt
	}
	event, at = "submission", job.AcceptedAt
	for _, id := range job.After {
		if e := d.Cfg.View.Job(ares.JobID(id)); e != nil && e.Run.FinishedAt.After(at) {
			event, at = "dependency", e.Run.FinishedAt
		}
	}
	return event, at
}

// requirementsOf lists what a job requires of its nodes, in the words of the job's spec.
func requirementsOf(job *ares.Job) []string {
	var out []string
	p := job.Placement()
	for _, r := range []struct{ field, value string }{
		{"gpu_model", job.GPUModel}, {"mig_profile", job.MIGProfile}, {"required_level", p.RequiredLevel},
		{"regions", strings.Join(p.Regions, ", ")}, {"node_affinity", strings.Join(p.NodeAffinity, ", ")},
	} {
		if r.value != "" {
			out = append(out, r.field+" "+r.value)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		out = append(out, "node_selector "+k+"="+p.NodeSelector[k])
	}
	if text := p.NodeRequirements.String(); text != "" {
		out = append(out, "constraint "+text)
	}
	return out
}
