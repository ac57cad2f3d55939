package server

import (
	"crypto/tls"
	"maps"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/store"
)

// AuthConfig configures authentication.
type AuthConfig struct {
	OIDC OIDCConfig `yaml:"oidc"`
}

// OIDCConfig names an OpenID issuer. Ares accepts the tokens of this issuer in
// addition to service tokens. Default: none.
type OIDCConfig struct {
	// Issuer is the address of the issuer, such as
	// https://login.example.com/realms/ml. It must equal the claim iss of
	// tokens.
	Issuer string `yaml:"issuer"`
	// Audience is the audience that tokens must name (aud).
	Audience string `yaml:"audience"`
	// Algorithms are the allowed signature algorithms of tokens. Default RS256,
	// ES256.
	Algorithms []string `yaml:"algorithms"`
	// TenantClaim is the claim with the home tenant of a user. Default empty:
	// users have tenants only by bindings.
	TenantClaim string `yaml:"tenant_claim"`
	// GroupsClaim is the claim with the groups of a user. Bindings can name
	// them. Default groups.
	GroupsClaim string `yaml:"groups_claim"`
	// Roles are the roles of groups, such as {ml-team: submitter}, in the tenant
	// of the claim; platform-admin and auditor apply to all tenants.
	Roles map[string]string `yaml:"roles"`
	// ClockSkewSeconds is the tolerated difference to the issuer's clock.
	// Default 60, 0 to 300.
	ClockSkewSeconds int `yaml:"clock_skew_seconds"`
	// CAFile contains the certificate authorities for the issuer's certificate.
	// Default: those of the system.
	CAFile string `yaml:"ca_file"`
}

func defaultAuth() AuthConfig {
	return AuthConfig{OIDC: OIDCConfig{Algorithms: []string{"RS256", "ES256"}, GroupsClaim: "groups", ClockSkewSeconds: 60}}
}

func (c *OIDCConfig) check(p *ares.Problems) {
	if c.ClockSkewSeconds < 0 || c.ClockSkewSeconds > int(auth.MaxSkew/time.Second) {
		p.Add("auth.oidc.clock_skew_seconds", "must be between 0 and %d, got %d", int(auth.MaxSkew/time.Second), c.ClockSkewSeconds)
	}
	for _, a := range c.Algorithms {
		if !slices.Contains(auth.Algorithms(), a) {
			p.Add("auth.oidc.algorithms", "%q is not an allowed algorithm: use some of %s", a, strings.Join(auth.Algorithms(), ", "))
		}
	}
	for _, group := range slices.Sorted(maps.Keys(c.Roles)) {
		if role := ares.Role(c.Roles[group]); !role.Valid() || role == ares.AgentRole {
			p.Add("auth.oidc.roles", "%s: %q is not a role for people: use platform-admin, tenant-admin, submitter, viewer or auditor", group, role)
		}
	}
	if c.Issuer == "" {
		if c.Audience != "" || c.TenantClaim != "" || len(c.Roles) > 0 {
			p.Add("auth.oidc.issuer", "is required with the other keys of auth.oidc")
		}
		return
	}
	if err := auth.CheckURL(c.Issuer); err != nil {
		p.Add("auth.oidc.issuer", "%s", err)
	}
	if c.Audience == "" {
		p.Add("auth.oidc.audience", "is required: without it a token issued for another service would be accepted")
	}
	if len(c.Algorithms) == 0 {
		p.Add("auth.oidc.algorithms", "is empty: name at least one, such as RS256")
	}
}

// This method returns the authenticator that identifies callers.
func (c *AuthConfig) open(s *store.Store) (*auth.Auth, error) {
	cfg := auth.Config{Tokens: s.Tokens, Bindings: s.Bindings, Tenants: s.TenantIDs}
	if o := &c.OIDC; o.Issuer != "" {
		var trust *tls.Config
		if o.CAFile != "" {
			pool, err := readCA(o.CAFile)
			if err != nil {
				return nil, err
			}
			trust = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
		}
		roles := map[string]ares.Role{}
		for group, role := range o.Roles {
			roles[group] = ares.Role(role)
		}
		cfg.OIDC = auth.NewOIDC(auth.OIDCConfig{
			Issuer: o.Issuer, Audience: o.Audience, Algorithms: o.Algorithms, TenantClaim: o.TenantClaim, GroupsClaim: o.GroupsClaim,
			Roles: roles, Skew: time.Duration(o.ClockSkewSeconds) * time.Second, TLS: trust,
		})
	}
	return auth.New(cfg), nil
}
