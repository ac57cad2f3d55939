package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// The roles of tokens that servers make for themselves.
const (
	RoleAdmin = "admin" // a platform-admin
	RoleNode  = "node"  // an agent, for any node
)

// The kinds of subjects that can be bound.
const (
	tokenSubject = "token:"
	oidcSubject  = "oidc:"
	groupSubject = "group:"
)

// maxSubjectBytes bounds a subject, as it is part of a key.
const maxSubjectBytes = 512

// NewToken makes a token and the hash to register for it. It has 260 random
// bits, so a plain hash of it can be kept: there is nothing to guess.
func NewToken() (token string, hash []byte) {
	token = "ares-" + strings.ToLower(rand.Text()+rand.Text())
	return token, HashToken(token)
}

// HashToken is what the store keeps of a token.
func HashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Subject is what a token of that name is called in bindings, and its identity's
// name.
func Subject(token string) string { return tokenSubject + token }

// CheckSubject reports what is wrong with a subject.
func CheckSubject(p *ares.Problems, field, subject string) {
	kind, name, _ := strings.Cut(subject, ":")
	switch {
	case len(subject) > maxSubjectBytes:
		p.Add(field, "at most %d bytes, got %d", maxSubjectBytes, len(subject))
	case name == "" || !slices.Contains([]string{tokenSubject, oidcSubject, groupSubject}, kind+":"):
		p.Add(field, "want token:NAME, token:TENANT/NAME, oidc:SUBJECT or group:NAME")
	case strings.ContainsFunc(subject, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.ToValidUTF8(subject, "") != subject:
		p.Add(field, "has characters that no name has")
	}
}

// identityOf is the identity of a token's holder, without what it is bound to
// beside.
func identityOf(t *store.Token) ares.Identity {
	return ares.Identity{Name: Subject(t.Name), Kind: ares.ByToken, Tenant: t.Tenant(), Until: t.Until, Bindings: BindingsOf(t)}
}

// BindingsOf is what a token itself allows. A role that is none allows nothing.
func BindingsOf(t *store.Token) []ares.Binding {
	switch t.Role {
	case RoleAdmin:
		return []ares.Binding{{Role: ares.PlatformAdmin}}
	case RoleNode:
		return []ares.Binding{{Role: ares.AgentRole}}
	}
	return t.Bindings
}
