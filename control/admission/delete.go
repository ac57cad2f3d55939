package admission

import (
	"context"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
)

// deleteWithin is the longest time that a deletion waits for the cache.
const deleteWithin = 10 * time.Second

// DeleteTenant deletes a tenant that has no live jobs, and also deletes the tenant's queues. A job could be
// accepted between the check for live jobs and the deletion. Therefore DeleteTenant checks again after the
// deletion, when no job can be accepted any more. If the second check finds a job, DeleteTenant undoes the
// deletion.
func (a *Admission) DeleteTenant(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	t, err := a.Store.Tenant(ctx, id)
	if err != nil {
		return err
	}
	if id == ares.DefaultTenant {
		return ares.Errorf(ares.Conflict, "tenant %s is built in and cannot be deleted: lower its limits instead", id)
	}
	if t.Shared != nil { // its loan would be lost with it, and the next job of the hub would create it again
		return ares.Errorf(ares.Conflict, "tenant %s is a tenant of the hub: it can be deleted here after this cluster has left the hub with `ares cluster leave`", id)
	}
	if err := a.checkIdle(ctx, "tenant "+id, id, ""); err != nil {
		return err
	}
	if err := a.Store.DeleteTenant(ctx, id, t.Revision); err != nil {
		return err
	}
	if err := a.checkIdle(ctx, "tenant "+id, id, ""); err != nil {
		undo, done := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
		defer done()
		if _, again := a.Store.UndeleteTenant(undo, t); again != nil {
			return fmt.Errorf("%w; create the tenant again, because it was deleted and could not be restored: %w", err, again)
		}
		return err
	}
	// If the queues, tokens, bindings, policies and secrets cannot be deleted now, they stay in the store but have no
	// effect. They are deleted when a tenant with the same name is created.
	_ = a.Store.DropQueues(ctx, id)
	return nil
}

// DeleteQueue deletes a queue that has no live jobs and no child queues. Like DeleteTenant,
// DeleteQueue checks for live jobs again after the deletion. Deleting the default queue only resets
// its settings.
func (a *Admission) DeleteQueue(ctx context.Context, tenant, name string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteWithin)
	defer cancel()
	q, err := a.Store.Queue(ctx, tenant, name)
	if name == ares.DefaultQueue {
		if ares.CodeOf(err) == ares.NotFound {
			return ares.Errorf(ares.Conflict, "queue %s is built in and has no settings that could be deleted", ares.QueueID(tenant, name))
		}
		if err == nil {
			err = a.Store.DeleteQueue(ctx, tenant, name, q.Revision)
		}
		return err
	}
	if err != nil {
		return err
	}
	if err := a.checkIdle(ctx, "queue "+q.ID(), tenant, name); err != nil {
		return err
	}
	if err := a.Store.DeleteQueue(ctx, tenant, name, q.Revision); err != nil {
		return err
	}
	if err := a.checkIdle(ctx, "queue "+q.ID(), tenant, name); err != nil {
		undo, done := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
		defer done()
		if _, again := a.Store.UndeleteQueue(undo, q); again != nil {
			return fmt.Errorf("%w; the queue was deleted nevertheless: create it again (restoring it failed: %w)", err, again)
		}
		return err
	}
	return nil
}

// checkIdle returns an error if a tenant, or one of its queues, has live jobs. The error prevents the deletion.
// The cache that checkIdle reads is up to date with the store.
func (a *Admission) checkIdle(ctx context.Context, what, tenant, queue string) error {
	revision, err := a.Store.Revision(ctx)
	if err != nil {
		return err
	}
	if err := a.View.WaitFor(ctx, revision); err != nil {
		return err
	}
	live := 0
	for _, e := range a.View.Jobs(cache.Filter{Tenant: tenant}).Entries {
		if (queue == "" || queue == e.Job.Queue) && (!e.Run.Phase.Final() || !e.Run.Free()) {
			live++
		}
	}
	if live > 0 {
		return ares.Errorf(ares.Conflict, "%s has %d live jobs: cancel them first", what, live)
	}
	return nil
}
