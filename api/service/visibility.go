package service

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/policy/roles"
)

// Visibility decides which jobs, queues and tenants may be shown to a caller.
type Visibility struct {
	Who  *ares.Identity
	only string // if not "", only jobs of this tenant are shown
}

func visibilityOf(ctx context.Context) Visibility { return Visibility{Who: pipeline.IdentityOf(ctx)} }

// The method `within` limits the visibility to one tenant. An empty tenant name removes this limit.
func (e Visibility) within(tenant string) Visibility {
	e.only = tenant
	return e
}

// The method `sees` reports whether jobs in a tenant's queue may be shown. An empty queue name
// means all queues of the tenant.
func (e Visibility) sees(tenant, queue string) bool {
	return (e.only == "" || e.only == tenant) && roles.Allows(e.Who, roles.JobRead, tenant, queue)
}

func (e Visibility) job(j *ares.Job) bool { return e.sees(j.Tenant, j.Queue) }

// The method `tenant` reports whether a tenant may be shown. A tenant may be shown if the caller
// may see at least one of its queues.
func (e Visibility) tenant(id string) bool { return e.sees(id, roles.Any) }

// The method `tenants` returns the tenants that may be shown, or nil if all tenants may be shown.
func (e Visibility) tenants() []string {
	names, all := roles.Tenants(e.Who, roles.JobRead)
	if all {
		return nil
	}
	return append([]string{}, names...) // never nil, because nil would mean all tenants
}

// The method `scopes` returns the scopes in which the caller has a permission, or nil if the caller
// has the permission in all tenants.
func (e Visibility) scopes(v roles.Verb) []history.Scope {
	out := []history.Scope{}
	for _, b := range e.Who.Bindings {
		switch {
		case !roles.Has(b.Role, v):
		case b.Tenant == "":
			return nil
		default:
			out = append(out, history.Scope{Tenant: b.Tenant, Queue: b.Queue})
		}
	}
	return out
}

// The method `parts` reports whether there is a tenant of which the caller may see only some queues.
func (e Visibility) parts() bool {
	for _, t := range e.tenants() {
		if !e.sees(t, "") {
			return true
		}
	}
	return false
}

// The method `named` reports whether the caller may see the ID of a job to which another object refers.
func (d *Services) named(e Visibility, tenant string, id ares.JobID) bool {
	if e.sees(tenant, "") {
		return true
	}
	there := d.Cfg.View.Job(id)
	return there != nil && e.job(there.Job)
}

// The method `shows` reports whether the caller may see a job, which may be archived.
func (d *Services) shows(ctx context.Context, e Visibility, id ares.JobID) bool {
	if there := d.Cfg.View.Job(id); there != nil {
		return e.job(there.Job)
	}
	if snap, err := d.Cfg.Store.Job(ctx, id); err == nil && snap.Job != nil {
		return e.job(snap.Job)
	}
	known, err := d.ArchivedJob(ctx, id)
	return err == nil && known != nil && e.job(known.Job)
}

// The method `reserved` reports whether a reservation may be shown. Everybody may see a reservation
// for maintenance. Other reservations are visible to callers that may see their tenant.
func (e Visibility) reserved(r *ares.Reservation) bool {
	return e.ref(r.Ref())
}

// The method `ref` reports whether a text may name an object. Nodes and reservations for
// maintenance have no tenant, so everybody may see them.
func (e Visibility) ref(r ares.Ref) bool {
	switch {
	case r.Kind == ares.RefJob:
		return e.sees(r.Tenant, r.Queue)
	case r.Tenant == "":
		return true
	case r.Queue == "":
		return e.tenant(r.Tenant)
	}
	return e.sees(r.Tenant, r.Queue)
}

// The method `names` returns the IDs of those jobs that the caller may see. The argument `most`
// limits the number of IDs.
func (d *Services) names(to Visibility, ids []ares.JobID, most int) []string {
	var out []string
	for _, id := range ids {
		if there := d.Cfg.View.Job(id); len(out) < most && (to.sees("", "") || there != nil && to.job(there.Job)) {
			out = append(out, string(id))
		}
	}
	return out
}

// The method `share` reports whether the fair share of a tenant or queue may be shown. A caller that may see only some
// queues of a tenant does not see the share of the tenant, because it counts the other queues too.
func (e Visibility) share(s ares.FairShare) bool { return e.sees(s.Tenant, s.Queue) }
