package ares

import (
	"slices"
	"time"
)

// Role is what an identity may do, within the scope of its binding.
type Role string

// The roles, from the most to the least.
const (
	PlatformAdmin Role = "platform-admin" // everything but the agents' door
	TenantAdmin   Role = "tenant-admin"   // its tenant: queues, tokens, policies, and what submitters may
	Submitter     Role = "submitter"      // submits jobs and acts on those of its tenant or queue
	Viewer        Role = "viewer"         // reads what its tenant or queue has
	Auditor       Role = "auditor"        // reads everything, the audit too, and changes nothing
	AgentRole     Role = "agent"          // the agents' door, for its own node alone
)

// Roles lists every role.
func Roles() []Role {
	return []Role{PlatformAdmin, TenantAdmin, Submitter, Viewer, Auditor, AgentRole}
}

// Valid says whether the role is one of ours.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Binding gives an identity a role in a scope.
type Binding struct {
	Role   Role
	Tenant string // "" for all: platform-wide
	Queue  string // "" for all of the tenant
}

// Identity is who makes a call.
type Identity struct {
	// Name is unique among all kinds: token:ci, oidc:<subject>, node:n1.
	Name     string
	Kind     IdentityKind
	Tenant   string // its home: what it submits goes there unless it names another that it may
	Groups   []string
	Bindings []Binding
	Until    time.Time // zero for no end
	Node     string    // of an agent: the one node it speaks for, "" for any
}

// IdentityKind is what an identity was proven by.
type IdentityKind string

// What an identity is proven by.
const (
	ByToken IdentityKind = "token"
	ByOIDC  IdentityKind = "oidc"
	ByCert  IdentityKind = "cert"
)
