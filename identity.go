package ares

import (
	"slices"
	"time"
)

// Role is a set of permissions. A role binding grants a role to an identity within a scope.
type Role string

// These are the roles, ordered from the most to the fewest permissions.
const (
	PlatformAdmin Role = "platform-admin" // may call everything except the agents' methods
	TenantAdmin   Role = "tenant-admin"   // manages its tenant (queues, tokens, policies) and has the permissions of a submitter
	Submitter     Role = "submitter"      // submits jobs, and changes jobs of its tenant or queue
	Viewer        Role = "viewer"         // reads the jobs and objects of its tenant or queue
	Auditor       Role = "auditor"        // reads everything, including the audit log, and changes nothing
	AgentRole     Role = "agent"          // calls the agents' methods, for its own node only

	// MemberRole calls the methods of a federation's members. It comes only with the certificate of a cluster: no binding can
	// grant it, so Roles does not list it.
	MemberRole Role = "member"
)

// Roles lists every role.
func Roles() []Role {
	return []Role{PlatformAdmin, TenantAdmin, Submitter, Viewer, Auditor, AgentRole}
}

// Valid reports whether the role exists.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// A Binding grants an identity a role within a scope.
type Binding struct {
	Role   Role
	Tenant string // "" for all tenants
	Queue  string // "" for all queues of the tenant
}

// Identity is the authenticated caller of a method.
type Identity struct {
	// Name is unique among identities of all kinds: token:ci, oidc:<subject>, node:n1.
	Name     string
	Kind     IdentityKind
	Tenant   string // its default tenant, used for submissions that name no tenant
	Groups   []string
	Bindings []Binding
	Until    time.Time // when it expires, zero for never
	Node     string    // the only node that an agent acts for, "" for any
	Cluster  string    // the cluster that a member of a federation acts for, "" for everybody else
}

// IsPlatformAdmin reports whether the identity has the role platform-admin. That role always applies to all tenants, so a binding with a
// narrower scope does not count.
func (i *Identity) IsPlatformAdmin() bool {
	return slices.Contains(i.Bindings, Binding{Role: PlatformAdmin})
}

// IdentityKind is the way in which an identity was authenticated.
type IdentityKind string

// These are the kinds of authentication.
const (
	ByToken IdentityKind = "token"
	ByOIDC  IdentityKind = "oidc"
	ByCert  IdentityKind = "cert"
	ByHub   IdentityKind = "hub" // a user of the hub that this cluster has joined; the hub has authenticated the user
)
