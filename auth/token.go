package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"strings"
	"unicode"

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

// IsGroup reports whether a subject is a group of an OpenID issuer.
func IsGroup(subject string) bool { return strings.HasPrefix(subject, groupSubject) }

// CheckSubject reports the mistakes in a subject.
func CheckSubject(p *ares.Problems, field, subject string) {
	kind, name, _ := strings.Cut(subject, ":")
	switch {
	case len(subject) > maxSubjectBytes:
		p.Add(field, "at most %d bytes, got %d", maxSubjectBytes, len(subject))
	case name == "" || !slices.Contains([]string{tokenSubject, oidcSubject, groupSubject}, kind+":"):
		p.Add(field, "want token:NAME, token:TENANT/NAME, oidc:SUBJECT or group:NAME")
	case strings.ContainsFunc(subject, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.ToValidUTF8(subject, "") != subject:
		// An administrator who accepts a binding decides by what the list shows, so a subject has no invisible characters.
		p.Add(field, "has characters that no name has")
	case strings.TrimSpace(name) != name:
		p.Add(field, "begins or ends with a space")
	case kind+":" == tokenSubject && !isTokenName(name):
		p.Add(field, "%q is not the name of a token: want token:NAME or token:TENANT/NAME", ares.Clip(name))
	}
}

// isTokenName reports whether a token can have a name. The names of the tokens that servers make for themselves have an @.
func isTokenName(name string) bool {
	tenant, rest, ok := strings.Cut(name, "/")
	if ok {
		return ares.ValidName(tenant) && ares.ValidName(rest)
	}
	role, server, made := strings.Cut(name, "@")
	return ares.ValidName(role) && (!made || server != "")
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
