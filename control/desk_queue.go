package control

import (
	"context"

	ares "github.com/ares-scheduler/ares"
)

// ahead counts the new jobs that were prepared before one for the same call:
// the view cannot know of them yet.
type ahead struct {
	all int
	by  map[string]int // by tenant, and by the ID of a queue
}

func newAhead() *ahead { return &ahead{by: map[string]int{}} }

func (a *ahead) add(tenant, queue string) {
	a.all++
	a.by[tenant]++
	a.by[ares.QueueID(tenant, queue)]++
}

// queue finds the queue a job names. The view may lag, so the store has the last
// word on one that is not there.
func (d *Desk) queue(ctx context.Context, tenant, name string, fresh bool) (*ares.Queue, error) {
	if q := d.View.Queue(tenant, name); q != nil && !fresh {
		return q, nil
	}
	if name == ares.DefaultQueue && !fresh {
		return new(ares.NewDefaultQueue(tenant)), nil
	}
	q, err := d.Store.Queue(ctx, tenant, name)
	switch {
	case ares.CodeOf(err) != ares.NotFound:
		return &q, err
	case name == ares.DefaultQueue:
		return new(ares.NewDefaultQueue(tenant)), nil
	}
	return nil, NoQueue(tenant, name)
}

// NoQueue is the answer to a submission for a queue that is not there, or that its
// caller may not know of.
func NoQueue(tenant, name string) error {
	return ares.Errorf(ares.Invalid, "queue: tenant %s has no queue %q: create it first (POST /api/v1/queues or `ares queue create`), or leave queue out", tenant, name).At("queue")
}

// admitQueue refuses what a queue, or one it is under, could never run, and what
// would make it too long. What exceeds only current use waits.
func (d *Desk) admitQueue(q *ares.Queue, spec ares.Spec, before *ahead) error {
	for level := 0; q != nil && level < ares.MaxQueueDepth; level++ {
		if what, asked, limit, over := q.Limits.Excess(spec.Asks()); over {
			return ares.Errorf(ares.Refused, "quota exceeded for queue %s: %s requested=%d, quota=%d", q.ID(), what, asked, limit).At("queue")
		}
		if limit := q.Limits.PendingJobs; limit < ares.Unlimited {
			if waiting := d.waitingUnder(q, before); waiting >= limit {
				return ares.Errorf(ares.Refused, "quota exceeded for queue %s: pending jobs requested=1, quota=%d, current=%d", q.ID(), limit, waiting).At("queue")
			}
		}
		if q.Parent == "" {
			return nil
		}
		q = d.View.Queue(q.Tenant, q.Parent)
	}
	return nil
}

// waitingUnder counts the jobs that wait in a queue and in those under it.
func (d *Desk) waitingUnder(q *ares.Queue, before *ahead) int {
	inside := map[string]bool{q.Name: true}
	queues := d.View.Queues(q.Tenant)
	for grown := true; grown; {
		grown = false
		for _, c := range queues {
			if !inside[c.Name] && c.Parent != "" && inside[c.Parent] {
				inside[c.Name], grown = true, true
			}
		}
	}
	total := 0
	for name := range inside { // order-free: a sum
		id := ares.QueueID(q.Tenant, name)
		_, waiting := d.View.Use(id)
		total += waiting + before.by[id]
	}
	return total
}

// Draft makes the job of a submission as it would be accepted now, and accepts
// nothing.
func (d *Desk) Draft(ctx context.Context, spec ares.Spec, owner string) (*ares.Job, error) {
	ask, err := d.prepare(ctx, &spec, owner, true, newAhead())
	if err == nil {
		_, err = d.feasible(ask.Job)
	}
	if err != nil {
		return nil, err
	}
	ask.Job.Spec = ask.Job.WithDefaults()
	return ask.Job, nil
}
