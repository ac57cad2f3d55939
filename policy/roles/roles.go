// Package roles decides which operations a caller may perform in which scope. Package roles defines which verbs
// each role has, and whether an identity may use a verb in a tenant or queue. It also defines which role bindings
// the identity may create for others. Package roles stores nothing; identities and their bindings are arguments.
//
// An operation that is not listed is forbidden, and names must match exactly.
package roles

import (
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Verb is a permission for one kind of operation in a scope.
type Verb string

// The verbs. Most verbs apply in the tenants and queues of an identity's bindings. A verb marked "platform" needs
// a binding to all tenants.
const (
	JobRead   Verb = "job.read"   // jobs, their events, output and explanations; usage and shares
	JobSubmit Verb = "job.submit" // submit, plan and retry
	JobCancel Verb = "job.cancel"
	JobExec   Verb = "job.exec" // sessions with running jobs that the identity submitted
	// JobExecAny allows sessions with running jobs of other users too.
	JobExecAny Verb = "job.exec_any"
	// SessionRead allows reading what was recorded of sessions.
	SessionRead Verb = "session.read"

	QueueRead    Verb = "queue.read"
	QueueWrite   Verb = "queue.write"
	TenantRead   Verb = "tenant.read"
	TokenRead    Verb = "token.read"
	TokenWrite   Verb = "token.write"
	BindingRead  Verb = "binding.read"
	BindingWrite Verb = "binding.write"
	PolicyRead   Verb = "policy.read"
	PolicyWrite  Verb = "policy.write"
	SecretRead   Verb = "secret.read" // names of secrets; no verb allows to read their values
	SecretWrite  Verb = "secret.write"
	UsageRead    Verb = "usage.read"
	AuditRead    Verb = "audit.read"

	NodeRead         Verb = "node.read"        // nodes and topology; any binding is enough
	ReservationRead  Verb = "reservation.read" // reservations of its tenants, and those for maintenance
	ClusterRead      Verb = "cluster.read"     // platform: data of all tenants
	ServerRead       Verb = "server.read"      // platform: state of servers and store
	TenantWrite      Verb = "tenant.write"     // platform
	NodeWrite        Verb = "node.write"       // platform: cordon, drain, remove, join tokens
	TopologyWrite    Verb = "topology.write"   // platform
	ReservationWrite Verb = "reservation.write"
	PriceWrite       Verb = "price.write"   // platform
	SecretRotate     Verb = "secret.rotate" // platform: the key that encrypts all secrets
	StoreRead        Verb = "store.read"    // platform: backups, dumps and recordings hold everything

	AgentAct  Verb = "agent.act"  // the agents' methods
	MemberAct Verb = "member.act" // the methods of a federation's members
)

var (
	viewer    = []Verb{JobRead, QueueRead, TenantRead, UsageRead, NodeRead, ReservationRead, ClusterRead}
	submitter = append(slices.Clip(viewer), JobSubmit, JobCancel, JobExec, SecretRead)
	oversight = []Verb{TokenRead, BindingRead, PolicyRead, AuditRead, SessionRead}
	tenant    = slices.Concat(submitter, oversight, []Verb{JobExecAny, QueueWrite, TokenWrite, BindingWrite, PolicyWrite, SecretWrite})
	platform  = append(slices.Clip(tenant), ServerRead, TenantWrite, NodeWrite, TopologyWrite, ReservationWrite, PriceWrite, SecretRotate, StoreRead)
)

// The map `verbs` lists the verbs of each role.
var verbs = map[ares.Role][]Verb{
	ares.PlatformAdmin: platform,
	ares.TenantAdmin:   tenant,
	ares.Submitter:     submitter,
	ares.Viewer:        viewer,
	ares.Auditor:       slices.Concat(viewer, oversight, []Verb{ServerRead}),
	ares.AgentRole:     {AgentAct},
	ares.MemberRole:    {MemberAct},
}

// Verbs lists every verb, sorted.
func Verbs() []Verb {
	out := append(slices.Clone(platform), AgentAct, MemberAct)
	slices.Sort(out)
	return out
}

// Has reports whether a role has a verb.
func Has(r ares.Role, v Verb) bool { return slices.Contains(verbs[r], v) }

// Any is a wildcard that can be given instead of the name of a tenant or queue. It matches every binding,
// whatever tenant or queue the binding names. This text is not a valid tenant or queue name.
const Any = "*"

// This function reports whether a role binding includes the given scope. An empty tenant stands for
// all tenants, and an empty queue for all queues of the tenant.
func covers(b ares.Binding, tenant, queue string) bool {
	switch {
	case tenant == Any || b.Tenant == "":
		return true
	case tenant == "" || b.Tenant != tenant:
		return false
	}
	return b.Queue == "" || queue == Any || b.Queue == queue
}

// Allows reports whether an identity has a verb in a scope.
func Allows(id *ares.Identity, v Verb, tenant, queue string) bool {
	for _, b := range id.Bindings {
		if Has(b.Role, v) && covers(b, tenant, queue) {
			return true
		}
	}
	return false
}

// Tenants lists the tenants in which an identity has a verb, sorted. If the identity has the verb
// in every tenant, the result "all" is true.
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

// MayGrant reports whether an identity may create or delete a binding. The identity must be allowed
// to create role bindings in that scope, and must itself have every verb of the role there. Only a
// platform-admin may create role bindings for agents, because no other role has the agents' verb.
func MayGrant(id *ares.Identity, b ares.Binding) bool {
	if !Allows(id, BindingWrite, b.Tenant, b.Queue) {
		return false
	}
	if b.Role == ares.AgentRole {
		return Allows(id, NodeWrite, b.Tenant, b.Queue)
	}
	return !slices.ContainsFunc(verbs[b.Role], func(v Verb) bool { return !Allows(id, v, b.Tenant, b.Queue) })
}

// Check adds the mistakes in a binding to a list. The argument "field" is the prefix of the field
// names in the error messages.
func Check(p *ares.Problems, field string, b ares.Binding) {
	if !b.Role.Valid() {
		p.Add(field+"role", "%q is not a role: use one of %s", ares.Clip(string(b.Role)), strings.Join(names(), ", "))
		return
	}
	if wide := b.Role == ares.PlatformAdmin || b.Role == ares.AgentRole; wide && b.Tenant+b.Queue != "" {
		p.Add(field+"tenant_id", "the role %s applies to all tenants: leave tenant and queue out", b.Role)
	}
	if b.Tenant != "" && !ares.ValidName(b.Tenant) {
		p.Add(field+"tenant_id", "%q is not a name", ares.Clip(b.Tenant))
	}
	switch {
	case b.Queue == "":
	case b.Tenant == "":
		p.Add(field+"queue", "a queue belongs to a tenant: give tenant too")
	case !ares.ValidName(b.Queue):
		p.Add(field+"queue", "%q is not a name", ares.Clip(b.Queue))
	}
}

func names() []string {
	var out []string
	for _, r := range ares.Roles() {
		out = append(out, string(r))
	}
	return out
}

// String describes a binding for people, such as "submitter in vision/training".
func String(b ares.Binding) string {
	switch {
	case b.Tenant == "":
		return string(b.Role)
	case b.Queue == "":
		return string(b.Role) + " in " + b.Tenant
	}
	return string(b.Role) + " in " + ares.QueueID(b.Tenant, b.Queue)
}
