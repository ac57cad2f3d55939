package admission

import (
	"context"
	"errors"
	"maps"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy"
)

// The type `rejection` is the error for a job that policies reject.
type rejection struct {
	verdict policy.Verdict
	job     *ares.Spec
}

func (r *rejection) Error() string { return r.verdict.Err.Error() }
func (r *rejection) Unwrap() error { return r.verdict.Err }

// evaluatePolicies evaluates the submission policies for a job that exceeds no limit.
func (a *Admission) evaluatePolicies(ctx context.Context, t *ares.Tenant, effective *ares.Spec, owner string, batch *batchCounts) (policy.Verdict, error) {
	set := a.Policies.set.Load()
	queue := ares.QueueID(t.ID, effective.Queue)
	use, pending := a.View.Use(t.ID)
	queueUse, queuePending := a.View.Use(queue)
	hours := 0.0
	if set.AsksHours() {
		hours = a.Policies.Hours(t.ID)
	}
	v := set.Submission(&policy.Input{
		Job: policy.NewJob(*effective), Tenant: policy.NewTenant(t, hours), User: policy.NewUser(userOf(ctx, owner)), Now: a.Policies.Now(),
		Usage: policy.NewUsage(use, pending+batch.by[t.ID], queueUse, queuePending+batch.by[queue]),
	})
	if v.Err != nil {
		return v, &rejection{v, effective}
	}
	return v, nil
}

// addPolicyLabels adds to a spec the node labels that are required by policies.
func addPolicyLabels(stored *ares.Spec, v *policy.Verdict) {
	if len(v.Labels) == 0 {
		return
	}
	labels := maps.Clone(stored.Placement().NodeSelector)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, v.Labels)
	stored.EditPlacement().NodeSelector = labels
}

// withoutPolicyLabels returns a job's spec without the labels that policies added. A retry is checked against the
// current policies.
func withoutPolicyLabels(j *ares.Job) ares.Spec {
	s := j.Spec
	where := s.EditPlacement()
	where.NodeSelector = maps.Clone(where.NodeSelector)
	for _, n := range j.Notes {
		for key := range n.Labels { // order-free: labels are independent
			delete(where.NodeSelector, key)
		}
	}
	return s
}

// reportAccepted counts the outcomes of policies for a new job, and sends alerts.
func (a *Admission) reportAccepted(c *candidate) {
	a.Policies.report(&c.verdict, c.Job.Tenant, c.Job.Tenant, detailsOf(&c.Job.Spec, c.Job.Owner))
}

// reportRejected is called when policies reject a job. It counts the outcomes of the policies and sends their
// alerts.
func (a *Admission) reportRejected(err error, owner string) {
	if r, ok := errors.AsType[*rejection](err); ok {
		a.Policies.report(&r.verdict, r.job.Tenant, r.job.Tenant, detailsOf(r.job, owner))
	}
}

func detailsOf(s *ares.Spec, owner string) []notify.Detail {
	out := []notify.Detail{{Name: "user", Value: owner}}
	if s.Name != "" {
		out = append(out, notify.Detail{Name: "job", Value: s.Name})
	}
	return out
}
