package service

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
)

// reuseWithin is how long the creation of a tenant waits for the history database.
// Counting the jobs of a tenant takes seconds on a busy machine, and a retry would take as long again.
const reuseWithin = 10 * time.Second

// checkUnused returns an error if jobs of a deleted tenant are known under an ID. Jobs, usage, audit entries, learned runtimes
// and request IDs belong to the ID of a tenant, so a new tenant with this ID would get those of the deleted one. A job is
// written to history before it leaves the live state. So the live state is read first, and no job is missed in between.
func (d *tenantService) checkUnused(ctx context.Context, id string) error {
	if d.Cfg.ReuseTenants || d.Cfg.View.Tenant(id) != nil { // the store rejects an ID that is in use
		return nil
	}
	used := ares.Errorf(ares.Conflict, "a deleted tenant had the ID %s, and a new tenant with this ID would see its jobs: choose another ID, "+
		"or ask the operator of the server to set jobs.reuse_tenant_ids", ares.Clip(id)).At("id")
	if len(d.Cfg.View.Jobs(cache.Filter{Tenant: id, Limit: 1}).Entries) > 0 {
		return used
	}
	if d.Cfg.Accounting == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reuseWithin)
	defer cancel()
	n, err := d.Cfg.Accounting.History.Count(ctx, history.Filter{Tenant: id})
	switch {
	case err != nil:
		d.Cfg.Log.Warn("history cannot tell whether a tenant existed before", "tenant", id, "error", err)
		return ares.Errorf(ares.Unavailable, "it is not known whether a deleted tenant had the ID %s, because the history database does not answer: try again", ares.Clip(id))
	case n > 0:
		return used
	}
	return nil
}

// isFormer reports whether an audit entry is about a deleted tenant whose ID another tenant has now. The new tenant must not
// read it. An entry may be a little older than the change that it describes.
func (d *Services) isFormer(e *audit.Entry) bool {
	t := d.Cfg.View.Tenant(e.Tenant)
	return t != nil && e.Time.Before(t.CreatedAt.Add(-time.Second))
}
