package api

import (
	"context"
	"regexp"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/policy/roles"
)

// eyes are those of a call's maker: what of jobs, queues and tenants may be shown
// to them.
type eyes struct {
	who  *ares.Identity
	only string // tenant whose jobs alone are shown, "" for all that may be
}

func eyesOf(ctx context.Context) eyes { return eyes{who: identityOf(ctx)} }

// within are eyes that are told of no tenant but one, "" for any.
func (e eyes) within(tenant string) eyes {
	e.only = tenant
	return e
}

// sees says whether jobs of a tenant's queue may be shown; "" for all its queues.
func (e eyes) sees(tenant, queue string) bool {
	return (e.only == "" || e.only == tenant) && roles.Allows(e.who, roles.JobRead, tenant, queue)
}

func (e eyes) job(j *ares.Job) bool { return e.sees(j.Tenant, j.Queue) }

// tenant says whether a tenant may be shown: to who sees one of its queues.
func (e eyes) tenant(id string) bool { return e.sees(id, roles.Any) }

// tenants are those that may be shown, nil for all.
func (e eyes) tenants() []string {
	names, all := roles.Tenants(e.who, roles.JobRead)
	if all {
		return nil
	}
	return append([]string{}, names...) // none is not all
}

// scopes are where an identity has a verb, nil for everywhere.
func (e eyes) scopes(v roles.Verb) []history.Scope {
	out := []history.Scope{}
	for _, b := range e.who.Bindings {
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

// parts says whether of a tenant only some queues may be shown.
func (e eyes) parts() bool {
	for _, t := range e.tenants() {
		if !e.sees(t, "") {
			return true
		}
	}
	return false
}

// named says whether a job that another tells of may be named.
func (d *Doors) named(e eyes, tenant string, id ares.JobID) bool {
	if e.sees(tenant, "") {
		return true
	}
	there := d.cfg.View.Job(id)
	return there != nil && e.job(there.Job)
}

// reserved says whether a reservation may be shown: those for maintenance to all,
// others to who sees the tenant it is for.
func (e eyes) reserved(r *ares.Reservation) bool {
	switch {
	case r.Tenant == "":
		return true
	case r.Queue == "":
		return e.tenant(r.Tenant)
	}
	return e.sees(r.Tenant, r.Queue)
}

// foreign stands for a job that may not be named.
const foreign = "a job of another tenant"

var jobIDs = regexp.MustCompile(`(job )?job-[a-z2-7]{24}`)

// redact takes out of a text what may not be shown: the IDs of others' jobs, and
// for whom nodes are reserved. The engine writes for everybody.
func (d *Doors) redact(e eyes, text string) string {
	if strings.Contains(text, "job-") {
		text = jobIDs.ReplaceAllStringFunc(text, func(s string) string {
			id := ares.JobID(strings.TrimPrefix(s, "job "))
			if there := d.cfg.View.Job(id); there != nil && !e.job(there.Job) {
				return foreign
			}
			return s
		})
	}
	if !strings.Contains(text, "reserved ") {
		return text
	}
	for _, r := range d.cfg.View.Reservations() {
		if !e.reserved(r) {
			text = strings.ReplaceAll(text, r.For(), "for another tenant")
			text = strings.ReplaceAll(text, " (reservation "+r.Name+")", "")
		}
	}
	return text
}

// names are the IDs of those of some jobs that may be named, so many at most.
func (d *Doors) names(to eyes, ids []ares.JobID, most int) []string {
	var out []string
	for _, id := range ids {
		if there := d.cfg.View.Job(id); len(out) < most && (to.sees("", "") || there != nil && to.job(there.Job)) {
			out = append(out, string(id))
		}
	}
	return out
}

// share says whether a line of the shares may be shown: of a tenant, or of one of
// its queues.
func (e eyes) share(s ares.FairShare) bool {
	if s.Queue == "" {
		return e.tenant(s.Tenant)
	}
	return e.sees(s.Tenant, s.Queue)
}
