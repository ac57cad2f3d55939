package control

import (
	"context"
	"errors"
	"maps"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy"
	"github.com/ares-scheduler/ares/store"
)

// draft is a job that may be accepted, and what policies said of it.
type draft struct {
	store.Creation
	verdict policy.Verdict
}

// refusal is the refusal of a job by policies.
type refusal struct {
	verdict policy.Verdict
	job     *ares.Spec
}

func (r *refusal) Error() string { return r.verdict.Err.Error() }
func (r *refusal) Unwrap() error { return r.verdict.Err }

// judge asks the policies about a job that is within its tenant's limits. What they
// require of nodes becomes part of what was said.
func (d *Desk) judge(ctx context.Context, t *ares.Tenant, said *ares.Spec, owner string, before *ahead) (policy.Verdict, error) {
	if d.Policies == nil {
		return policy.Verdict{}, nil
	}
	set := d.Policies.set.Load()
	if !set.AsksJobs() {
		return policy.Verdict{}, nil
	}
	full := said.WithDefaults()
	queue := ares.QueueID(t.ID, full.Queue)
	use, pending := d.View.Use(t.ID)
	queueUse, queuePending := d.View.Use(queue)
	hours := 0.0
	if set.AsksHours() {
		hours = d.Policies.Hours(t.ID)
	}
	v := set.Submission(&policy.Input{
		Job: policy.NewJob(full), Tenant: policy.NewTenant(t, hours), User: policy.NewUser(userOf(ctx, owner)), Now: d.Policies.Now(),
		Usage: policy.NewUsage(use, pending+before.by[t.ID], queueUse, queuePending+before.by[queue]),
	})
	if v.Err != nil {
		return v, &refusal{v, said}
	}
	if len(v.Labels) > 0 {
		labels := maps.Clone(said.Placement.NodeSelector)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, v.Labels)
		said.Placement.NodeSelector = labels
	}
	return v, nil
}

// tellAccepted tells what policies said of a job that was accepted now.
func (d *Desk) tellAccepted(p *draft) {
	if d.Policies != nil {
		d.Policies.tell(&p.verdict, p.Job.Tenant, detailsOf(&p.Job.Spec, p.Job.Owner))
	}
}

// tellRefused tells what policies said of a job that they refused.
func (d *Desk) tellRefused(err error, owner string) {
	if r, ok := errors.AsType[*refusal](err); ok {
		d.Policies.tell(&r.verdict, r.job.Tenant, detailsOf(r.job, owner))
	}
}

func detailsOf(s *ares.Spec, owner string) []notify.Detail {
	out := []notify.Detail{{Name: "user", Value: owner}}
	if s.Name != "" {
		out = append(out, notify.Detail{Name: "job", Value: s.Name})
	}
	return out
}

// unrequired is a spec without the labels that policies had added to it: who
// submits it again is judged by the policies of then.
func unrequired(j *ares.Job) ares.Spec {
	s := j.Spec
	s.Placement.NodeSelector = maps.Clone(s.Placement.NodeSelector)
	for _, n := range j.Notes {
		for key := range n.Labels { // order-free: each for itself
			delete(s.Placement.NodeSelector, key)
		}
	}
	return s
}

// texts are the notes as people read them.
func texts(notes []ares.PolicyNote) []string {
	var out []string
	for _, n := range notes {
		out = append(out, n.Text)
	}
	return out
}
