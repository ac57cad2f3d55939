package control

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Desk accepts requests, each once. Every replica has one.
type Desk struct {
	Store *store.Store
	View  *View
	Now   func() time.Time
	// MinLostAfter is the least patience a job may ask for: the session's TTL.
	MinLostAfter time.Duration
	// MaxQueue bounds the jobs that wait, over all tenants.
	MaxQueue int
	// Fleet, if there is one, tells what can never run here.
	Fleet *Fleet
	// NoGangs refuses jobs of several members.
	NoGangs bool
	// Predict, if there is one, says how long a job will run, and Infeasible what
	// becomes of one that will hardly meet its deadline by that. Default: it is
	// accepted.
	Predict    func(*ares.Job) ares.RuntimePredicted
	Infeasible Infeasible
	// Policies, if there are any, judge what is submitted.
	Policies *Policies
	// Aside, if there is one, remembers what was accepted lately, by any server.
	Aside Aside
}

// Accepted answers a submission.
type Accepted struct {
	ID        ares.JobID
	Duplicate bool      // the same request had been accepted before
	Made      *ares.Job // the job that was made now, nil for none
	Phase     ares.Phase
	Warnings  []string // about what was accepted now
	Err       error
}

// Submit accepts one job. The answer follows its commit.
func (d *Desk) Submit(ctx context.Context, spec ares.Spec, owner string) (Accepted, error) {
	out := d.SubmitAll(ctx, []ares.Spec{spec}, owner)[0]
	return out, out.Err
}

// SubmitAll accepts many jobs; each is answered for itself.
func (d *Desk) SubmitAll(ctx context.Context, specs []ares.Spec, owner string) []Accepted {
	out := make([]Accepted, len(specs))
	open := make([]int, len(specs))
	for i := range specs {
		open[i] = i
	}
	// A tenant or queue changed in between makes its jobs try again with the new one.
	for try := 0; len(open) > 0; try++ {
		open = d.tryAll(ctx, specs, owner, open, out, try > 0)
		if try == 4 {
			break
		}
	}
	return out
}

// tryAll submits the open ones and returns those whose tenant or queue had
// changed.
func (d *Desk) tryAll(ctx context.Context, specs []ares.Spec, owner string, open []int, out []Accepted, fresh bool) []int {
	asks := make([]store.Creation, 0, len(open))
	drafts := make([]draft, 0, len(open))
	index := make([]int, 0, len(open))
	before, warnings := newAhead(), map[int][]string{}
	for _, i := range open {
		if again, ok := d.repeated(ctx, &specs[i], len(open)); ok {
			out[i] = again
			continue
		}
		ask, err := d.prepare(ctx, &specs[i], owner, fresh, before)
		if err == nil {
			var warning string
			if warning, err = d.feasible(ask.Job); warning != "" {
				warnings[i] = []string{warning}
			}
		}
		if err != nil {
			out[i] = d.refused(ctx, &specs[i], owner, err)
			continue
		}
		warnings[i] = append(warnings[i], texts(ask.Job.Notes)...)
		asks, drafts, index = append(asks, ask.Creation), append(drafts, ask), append(index, i)
	}
	if len(asks) == 0 {
		return nil
	}
	var again []int
	for k, c := range d.Store.Create(ctx, asks) {
		i := index[k]
		out[i] = Accepted{ID: c.ID, Duplicate: c.Duplicate, Phase: c.Phase, Err: c.Err}
		if c.Stale {
			again = append(again, i)
		}
		if c.Err == nil && c.Phase == "" {
			out[i].Phase = d.phase(c.ID, c.Duplicate)
		}
		if c.Err == nil && !c.Duplicate && !c.Stale {
			out[i].Made, out[i].Warnings = asks[k].Job, warnings[i]
			d.tellAccepted(&drafts[k])
		}
		d.remember(&asks[k], &c)
	}
	return again
}

func (d *Desk) phase(id ares.JobID, duplicate bool) ares.Phase {
	if duplicate {
		if e := d.View.Job(id); e != nil {
			return e.Run.Phase
		}
	}
	return ares.Pending
}

// prepare checks a submission and makes the job of it. The request ID is
// written back, so that a second try is the same request.
func (d *Desk) prepare(ctx context.Context, spec *ares.Spec, owner string, fresh bool, before *ahead) (draft, error) {
	if err := spec.Check(); err != nil {
		return draft{}, err
	}
	digest := ares.DigestOf(*spec)
	if spec.RequestID == "" {
		spec.RequestID = rand.Text()
	}
	tenantID := spec.Tenant
	if tenantID == "" {
		tenantID = ares.DefaultTenant
	}
	tenant, err := d.tenant(ctx, tenantID, fresh)
	if err != nil {
		return draft{}, err
	}
	// What the tenant and this server decide is written down; plain defaults are
	// filled in when the job is read.
	said := *spec
	said.Tenant = tenantID
	if said.LostAfterSeconds == 0 {
		said.LostAfterSeconds = tenant.LostAfterSecs
	}
	if err = d.fit(&said); err != nil {
		return draft{}, err
	}
	full := said.WithDefaults()
	if least := int(d.MinLostAfter / time.Second); full.LostAfterSeconds < least {
		if spec.LostAfterSeconds != 0 {
			return draft{}, ares.Errorf(ares.Invalid, "lost_after_seconds: must be between %d and %d, got %d",
				least, ares.MaxLostAfterSec, full.LostAfterSeconds).At("lost_after_seconds")
		}
		said.LostAfterSeconds = least
	}
	if d.NoGangs && full.Members > 1 {
		return draft{}, ares.Errorf(ares.Refused, "members: jobs of several members are turned off here (scheduler.enable_gang_scheduling)").At("members")
	}
	queue, err := d.queue(ctx, tenantID, full.Queue, fresh)
	if err != nil {
		return draft{}, err
	}
	if err = d.admit(tenant, queue, full, before); err != nil {
		return draft{}, err
	}
	verdict, err := d.judge(ctx, tenant, &said, owner, before)
	if err != nil {
		return draft{}, err
	}
	after, err := d.resolve(ctx, &said, fresh)
	if err != nil {
		return draft{}, err
	}
	id := ares.NewJobID(tenantID, spec.RequestID)
	if d.View.Job(id) == nil {
		before.add(tenantID, full.Queue)
	}
	return draft{
		Creation: store.Creation{
			Job: &ares.Job{
				Spec: said, ID: id, Digest: digest, AcceptedAt: d.Now(), Owner: owner, Notes: verdict.Notes,
			},
			TenantRevision: tenant.Revision,
			After:          after,
		},
		verdict: verdict,
	}, nil
}

// admit refuses what exceeds the tenant's or the queue's limits by itself, and what would
// make the queue too long. What exceeds only current use waits in the queue.
func (d *Desk) admit(t *ares.Tenant, q *ares.Queue, spec ares.Spec, before *ahead) error {
	use, waiting := d.View.Use(t.ID)
	waiting += before.by[t.ID]
	if err := t.Admits(spec, use); err != nil {
		return err
	}
	if waiting >= t.Limits.PendingJobs {
		return ares.Errorf(ares.Refused, "quota exceeded for tenant %s: pending jobs requested=1, quota=%d, current=%d", t.ID, t.Limits.PendingJobs, waiting)
	}
	if err := d.admitQueue(q, spec, before); err != nil {
		return err
	}
	all := d.View.Waiting() + before.all
	if d.MaxQueue > 0 && all >= d.MaxQueue {
		return ares.Errorf(ares.Exhausted, "the queue is full (%d jobs wait, at most %d): try again later", all, d.MaxQueue)
	}
	return nil
}

// refused answers a submission that would not be accepted now; if the same
// request was accepted before, it is that job all the same.
func (d *Desk) refused(ctx context.Context, spec *ares.Spec, owner string, err error) Accepted {
	out := d.acceptedBefore(ctx, spec, err)
	if out.Err != nil {
		d.tellRefused(err, owner)
	}
	return out
}

// acceptedBefore finds the job of a request that was accepted before.
func (d *Desk) acceptedBefore(ctx context.Context, spec *ares.Spec, err error) Accepted {
	code := ares.CodeOf(err)
	if spec.RequestID == "" || code != ares.Refused && code != ares.Exhausted {
		return Accepted{Err: err}
	}
	if before, ok := d.accepted(ctx, spec.JobID(), ares.DigestOf(*spec)); ok {
		return before
	}
	return Accepted{Err: err}
}

// accepted asks the store whether a request was accepted before, and answers it
// again then.
func (d *Desk) accepted(ctx context.Context, id ares.JobID, digest ares.Digest) (Accepted, bool) {
	snap, err := d.Store.Job(ctx, id)
	switch {
	case err != nil:
	case snap.Tombstone != nil && snap.Tombstone.Digest == digest:
		return Accepted{ID: id, Duplicate: true, Phase: snap.Tombstone.Phase}, true
	case snap.Job != nil && snap.Job.Digest == digest:
		return Accepted{ID: id, Duplicate: true, Phase: snap.Run.Phase}, true
	}
	return Accepted{}, false
}

// tenant finds a tenant in the view, or in the store when the view may lag.
func (d *Desk) tenant(ctx context.Context, id string, fresh bool) (*ares.Tenant, error) {
	if !fresh {
		if t := d.View.Tenant(id); t != nil {
			return t, nil
		}
	}
	t, err := d.Store.Tenant(ctx, id)
	if ares.CodeOf(err) == ares.NotFound {
		return nil, NoTenant(id)
	}
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// NoTenant is the answer to a submission for a tenant that is not there, or that
// its caller may not know of.
func NoTenant(id string) error {
	return ares.Errorf(ares.Invalid, "tenant_id: there is no tenant %q: create it first (POST /api/v1/tenants or `ares tenant create`)", id).At("tenant_id")
}

// Cancel asks for a job's end in whatever phase it is.
func (d *Desk) Cancel(ctx context.Context, id ares.JobID, by string) (ares.Run, error) {
	grace := time.Duration(0)
	if e := d.View.Job(id); e != nil {
		grace = e.Job.Grace()
	}
	return d.Store.RequestStop(ctx, id, ares.Stop{Why: ares.StopCancel, By: by, At: d.Now(), Grace: grace})
}

// Retry submits a finished job again, as a new job that names the old one.
func (d *Desk) Retry(ctx context.Context, id ares.JobID, requestID, owner string) (Accepted, error) {
	snap, err := d.Store.Job(ctx, id)
	if err != nil {
		return Accepted{}, err
	}
	if snap.Tombstone != nil {
		return Accepted{}, ares.Errorf(ares.Conflict, "job %s was archived: submit its spec again", id)
	}
	if !snap.Run.Phase.Final() {
		return Accepted{}, ares.Errorf(ares.Conflict, "job %s is %s: only a finished job is retried; cancel it first", id, snap.Run.Phase)
	}
	spec := unrequired(snap.Job)
	spec.RequestID = requestID
	if spec.RequestID == "" {
		spec.RequestID = fmt.Sprintf("retry-of-%s-%s", id, rand.Text())
	}
	for try := range 5 {
		ask, err := d.prepare(ctx, &spec, owner, try > 0, newAhead())
		if err != nil {
			out := d.refused(ctx, &spec, owner, err)
			return out, out.Err
		}
		ask.Job.RetryOf = id
		c := d.Store.Create(ctx, []store.Creation{ask.Creation})[0]
		if c.Stale {
			continue
		}
		out := Accepted{ID: c.ID, Duplicate: c.Duplicate, Phase: c.Phase, Err: c.Err}
		if c.Err == nil && !c.Duplicate {
			out.Made, out.Warnings = ask.Job, texts(ask.Job.Notes)
			d.tellAccepted(&ask)
		}
		if c.Err == nil && c.Phase == "" {
			out.Phase = d.phase(c.ID, c.Duplicate)
		}
		return out, c.Err
	}
	return Accepted{}, ares.Errorf(ares.Exhausted, "tenant %s changes too fast: try again", spec.Tenant)
}
