package control

import (
	"context"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// deleteWithin bounds how long a deletion waits for the view.
const deleteWithin = 10 * time.Second

// DeleteTenant removes a tenant without live jobs, and its queues. A job
// accepted while it looks would be left without its tenant for ever, so it looks
// again when none can be accepted any more, and takes the deletion back.
func (d *Desk) DeleteTenant(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	t, err := d.Store.Tenant(ctx, id)
	if err != nil {
		return err
	}
	if id == ares.DefaultTenant {
		return ares.Errorf(ares.Conflict, "tenant %s is built in: lower its limits instead", id)
	}
	if err := d.idle(ctx, "tenant "+id, id, ""); err != nil {
		return err
	}
	if err := d.Store.DeleteTenant(ctx, id, t.Revision); err != nil {
		return err
	}
	if err := d.idle(ctx, "tenant "+id, id, ""); err != nil {
		undo, done := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
		defer done()
		if _, again := d.Store.UndeleteTenant(undo, t); again != nil {
			return fmt.Errorf("%w; and the tenant could not be put back (%w): create it again", err, again)
		}
		return err
	}
	// What this leaves nobody sees, and the next tenant of that name drops it.
	_ = d.Store.DropQueues(ctx, id)
	return nil
}

// DeleteQueue removes a queue without live jobs and without queues under it, as
// DeleteTenant does. The default queue only loses its settings.
func (d *Desk) DeleteQueue(ctx context.Context, tenant, name string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	q, err := d.Store.Queue(ctx, tenant, name)
	if name == ares.DefaultQueue {
		if ares.CodeOf(err) == ares.NotFound {
			return ares.Errorf(ares.Conflict, "queue %s is built in and has no settings that could be deleted", ares.QueueID(tenant, name))
		}
		if err == nil {
			err = d.Store.DeleteQueue(ctx, tenant, name, q.Revision)
		}
		return err
	}
	if err != nil {
		return err
	}
	if err := d.idle(ctx, "queue "+q.ID(), tenant, name); err != nil {
		return err
	}
	if err := d.Store.DeleteQueue(ctx, tenant, name, q.Revision); err != nil {
		return err
	}
	if err := d.idle(ctx, "queue "+q.ID(), tenant, name); err != nil {
		undo, done := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
		defer done()
		if _, again := d.Store.CreateQueue(undo, q); again != nil {
			return fmt.Errorf("%w; and the queue could not be put back (%w): create it again", err, again)
		}
		return err
	}
	return nil
}

// idle refuses while a tenant, or one of its queues, has live jobs, by a view as
// new as the store.
func (d *Desk) idle(ctx context.Context, what, tenant, queue string) error {
	revision, err := d.Store.Revision(ctx)
	if err != nil {
		return err
	}
	if err := d.View.WaitFor(ctx, revision); err != nil {
		return err
	}
	live := 0
	for _, e := range d.View.Jobs(Filter{Tenant: tenant}).Entries {
		if (queue == "" || queue == e.Job.Queue) && (!e.Run.Phase.Final() || !e.Run.Free()) {
			live++
		}
	}
	if live > 0 {
		return ares.Errorf(ares.Conflict, "%s has %d live jobs: cancel them first", what, live)
	}
	return nil
}
