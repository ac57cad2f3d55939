// Package roles says who may do what, where: which verbs each role has, whether
// an identity may do something in a tenant or queue, and what it may give to
// others. It is pure: identities, with their bindings, come in from outside.
//
// What is not listed is not allowed, and names match exactly.
package roles

import (
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Verb is something that one may do in a scope.
type Verb string

// The verbs. Those of tenants count in the tenants and queues an identity is
// bound to; those marked platform need a binding to all tenants.
const (
	JobRead   Verb = "job.read"   // jobs, their events, output and explanations; usage and shares
	JobSubmit Verb = "job.submit" // submit, plan and retry
	JobCancel Verb = "job.cancel"

	QueueRead    Verb = "queue.read"
	QueueWrite   Verb = "queue.write"
	TenantRead   Verb = "tenant.read"
	TokenRead    Verb = "token.read"
	TokenWrite   Verb = "token.write"
	BindingRead  Verb = "binding.read"
	BindingWrite Verb = "binding.write"
	PolicyRead   Verb = "policy.read"
	PolicyWrite  Verb = "policy.write"
	UsageRead    Verb = "usage.read"
	AuditRead    Verb = "audit.read"

	NodeRead         Verb = "node.read"        // nodes and topology, wherever one is bound
	ReservationRead  Verb = "reservation.read" // of its tenants, and those for maintenance
	ClusterRead      Verb = "cluster.read"     // platform: what concerns the tenants of all
	ServerRead       Verb = "server.read"      // platform: how servers and store are
	TenantWrite      Verb = "tenant.write"     // platform
	NodeWrite        Verb = "node.write"       // platform: cordon, drain, remove, join tokens
	TopologyWrite    Verb = "topology.write"   // platform
	ReservationWrite Verb = "reservation.write"
	PriceWrite       Verb = "price.write" // platform
	StoreRead        Verb = "store.read"  // platform: backups, dumps and recordings hold everything

	AgentAct Verb = "agent.act" // the agents' door
)

var (
	viewer    = []Verb{JobRead, QueueRead, TenantRead, UsageRead, NodeRead, ReservationRead, ClusterRead}
	submitter = append(slices.Clip(viewer), JobSubmit, JobCancel)
	oversight = []Verb{TokenRead, BindingRead, PolicyRead, AuditRead}
	tenant    = slices.Concat(submitter, oversight, []Verb{QueueWrite, TokenWrite, BindingWrite, PolicyWrite})
	platform  = append(slices.Clip(tenant), ServerRead, TenantWrite, NodeWrite, TopologyWrite, ReservationWrite, PriceWrite, StoreRead)
)

// verbs lists what each role has.
var verbs = map[ares.Role][]Verb{
	ares.PlatformAdmin: platform,
	ares.TenantAdmin:   tenant,
	ares.Submitter:     submitter,
	ares.Viewer:        viewer,
	ares.Auditor:       slices.Concat(viewer, oversight, []Verb{ServerRead}),
	ares.AgentRole:     {AgentAct},
}

// Verbs lists every verb there is, sorted.
func Verbs() []Verb {
	out := append(slices.Clone(platform), AgentAct)
	slices.Sort(out)
	return out
}

// Has says whether a role has a verb.
func Has(r ares.Role, v Verb) bool { return slices.Contains(verbs[r], v) }

// Any stands for a scope where one that an identity is bound to is enough: any
// tenant, or any queue of a tenant. It cannot be a name.
const Any = "*"

// covers says whether a binding reaches a scope: all tenants for "", all queues
// of a tenant for a queue "".
func covers(b ares.Binding, tenant, queue string) bool {
	switch {
	case tenant == Any || b.Tenant == "":
		return true
	case tenant == "" || b.Tenant != tenant:
		return false
	}
	return b.Queue == "" || queue == Any || b.Queue == queue
}

// Allows says whether an identity may do something in a scope.
func Allows(id *ares.Identity, v Verb, tenant, queue string) bool {
	for _, b := range id.Bindings {
		if Has(b.Role, v) && covers(b, tenant, queue) {
			return true
		}
	}
	return false
}

// Tenants lists the tenants in which an identity has a verb, sorted; all says
// that it has it in every one.
func Tenants(id *ares.Identity, v Verb) (names []string, all bool) {
	for _, b := range id.Bindings {
		switch {
		case !Has(b.Role, v):
		case b.Tenant == "":
			return nil, true
		case !slices.Contains(names, b.Tenant):
			names = append(names, b.Tenant)
		}
	}
	slices.Sort(names)
	return names, false
}

// MayGrant says whether an identity may give a binding to others, or take it
// away: it must be allowed to bind there, and have itself every verb of the
// role in that scope. Agents have a verb that nobody else has; who administers
// the platform appoints them.
func MayGrant(id *ares.Identity, b ares.Binding) bool {
	if !Allows(id, BindingWrite, b.Tenant, b.Queue) {
		return false
	}
	if b.Role == ares.AgentRole {
		return Allows(id, NodeWrite, b.Tenant, b.Queue)
	}
	return !slices.ContainsFunc(verbs[b.Role], func(v Verb) bool { return !Allows(id, v, b.Tenant, b.Queue) })
}

// Check reports what is wrong with a binding. field is where it stands.
func Check(p *ares.Problems, field string, b ares.Binding) {
	if !b.Role.Valid() {
		p.Add(field+"role", "%q is no role: use one of %s", clip(string(b.Role)), strings.Join(names(), ", "))
		return
	}
	if wide := b.Role == ares.PlatformAdmin || b.Role == ares.AgentRole; wide && b.Tenant+b.Queue != "" {
		p.Add(field+"tenant_id", "a %s is one for all tenants: leave tenant and queue out", b.Role)
	}
	if b.Tenant != "" && !ares.ValidName(b.Tenant) {
		p.Add(field+"tenant_id", "%q is not a name", clip(b.Tenant))
	}
	switch {
	case b.Queue == "":
	case b.Tenant == "":
		p.Add(field+"queue", "a queue is one of a tenant: name that too")
	case !ares.ValidName(b.Queue):
		p.Add(field+"queue", "%q is not a name", clip(b.Queue))
	}
}

func names() []string {
	var out []string
	for _, r := range ares.Roles() {
		out = append(out, string(r))
	}
	return out
}

// clip keeps what a caller sent from filling a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// String says a binding for people: submitter in vision/training.
func String(b ares.Binding) string {
	switch {
	case b.Tenant == "":
		return string(b.Role)
	case b.Queue == "":
		return string(b.Role) + " in " + b.Tenant
	}
	return string(b.Role) + " in " + ares.QueueID(b.Tenant, b.Queue)
}
