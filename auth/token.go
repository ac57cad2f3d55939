package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Servers create tokens with these roles for themselves.
const (
	RoleAdmin = "admin" // a platform-admin
	RoleNode  = "node"  // an agent, for any node
)

// These kinds of subjects can be bound to a role.
const (
	tokenSubject = "token:"
	oidcSubject  = "oidc:"
	groupSubject = "group:"
)

// maxSubjectBytes is the maximum length of a subject, which is part of a key in the store.
const maxSubjectBytes = 512

// NewToken creates a token and the hash to register for it. A token has 260 random bits, so it cannot be guessed.
// Therefore an unsalted hash is safe.
func NewToken() (token string, hash []byte) {
	token = "ares-" + strings.ToLower(rand.Text()+rand.Text())
	return token, HashToken(token)
}

// HashToken returns the hash under which the store records a token.
func HashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Subject returns the subject that names a token in bindings. The subject is also the name of the token's identity.
func Subject(token string) string { return tokenSubject + token }

// TenantOf returns the tenant of the token that a subject names. The result "isToken" is false for users and groups. The
// tenant is "" for a token of the platform.
func TenantOf(subject string) (tenant string, isToken bool) {
	name, isToken := strings.CutPrefix(subject, tokenSubject)
	if !isToken {
		return "", false
	}
	tenant, _, ok := strings.Cut(name, "/")
	if !ok {
		return "", true
	}
	return tenant, true
}

// CheckSubject reports the mistakes in a subject.
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

// identityOf returns the identity of a token's holder, without the bindings from the store.
func identityOf(t *store.Token) ares.Identity {
	return ares.Identity{Name: Subject(t.Name), Kind: ares.ByToken, Tenant: t.Tenant(), Until: t.Until, Bindings: BindingsOf(t)}
}

// BindingsOf returns the bindings that are part of the token itself. An unknown
// role allows nothing.
func BindingsOf(t *store.Token) []ares.Binding {
	switch t.Role {
	case RoleAdmin:
		return []ares.Binding{{Role: ares.PlatformAdmin}}
	case RoleNode:
		return []ares.Binding{{Role: ares.AgentRole}}
	}
	return t.Bindings
}
