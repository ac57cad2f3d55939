package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/loopback"
)

// These constants limit the size of an issuer's documents and tokens.
const (
	renewAfter  = 10 * time.Minute // so that removed keys become invalid
	verifyAgain = 5 * time.Minute  // how long a verified token is cached
	maxVerified = 10_000           // verified tokens that are cached
	maxGroups   = 256
	maxWord     = 256 // bytes of a subject or group
	// MaxSkew is the maximum value for OIDCConfig.Skew, the tolerated difference from the issuer's clock.
	MaxSkew = 5 * time.Minute
)

// OIDCConfig describes the issuer whose tokens are accepted, and the meaning of their claims.
type OIDCConfig struct {
	Issuer, Audience string
	// Algorithms are the algorithms with which a token may be signed. The algorithm "none" is never allowed.
	Algorithms []string
	// TenantClaim is the claim that names the holder's tenant. GroupsClaim is the claim that lists the holder's groups.
	// TenantClaim and GroupsClaim may be "".
	TenantClaim, GroupsClaim string
	// Roles maps a group to the role that its members get in the tenant that their token names. The roles
	// platform-admin and auditor apply to all tenants.
	Roles map[string]ares.Role
	// Skew is the tolerated difference from the issuer's clock.
	Skew time.Duration
	// TLS is the TLS configuration for the issuer. If TLS is nil, the system's certificate authorities are trusted.
	TLS *tls.Config
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// Algorithms lists the algorithms that an issuer may sign with. Algorithms with a shared secret are excluded, because a
// program that can check such a token could also forge one.
func Algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}
}

// OIDC checks the tokens of an issuer. An OIDC is safe for concurrent use.
type OIDC struct {
	cfg   OIDCConfig
	fetch *fetcher

	renewing sync.Mutex
	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil before the issuer was first reached
	renewed  time.Time
	verified map[[sha256.Size]byte]verifiedToken
}

// verifiedToken is a token that was verified.
type verifiedToken struct {
	id ares.Identity
	at time.Time
}

// NewOIDC returns an OIDC for one issuer. The issuer is not contacted before the first token must be verified.
func NewOIDC(cfg OIDCConfig) *OIDC {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &OIDC{cfg: cfg, fetch: newFetcher(cfg.TLS, cfg.Now), verified: map[[sha256.Size]byte]verifiedToken{}}
}

// oidcIdentity returns the identity of the holder of an issuer's token, with its bindings.
func (a *Auth) oidcIdentity(ctx context.Context, token string) (ares.Identity, error) {
	id, err := a.cfg.OIDC.identity(ctx, token)
	if err != nil {
		return id, err
	}
	a.mu.RLock()
	age := a.cfg.Now().Sub(a.loaded)
	a.mu.RUnlock()
	if age > refreshAfter {
		a.refresh(ctx, age > staleAfter)
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.cfg.Now().Sub(a.loaded) > staleAfter {
		return id, cannotCheck()
	}
	return a.withBindings(id), nil
}

// The method `identity` verifies a token and returns the identity in it.
func (o *OIDC) identity(ctx context.Context, token string) (ares.Identity, error) {
	now, hash := o.cfg.Now(), sha256.Sum256([]byte(token))
	o.mu.Lock()
	known, ok := o.verified[hash]
	o.mu.Unlock()
	if !ok || now.Sub(known.at) > verifyAgain {
		id, err := o.verify(ctx, token)
		if err != nil {
			return ares.Identity{}, err
		}
		known = verifiedToken{id, now}
		o.remember(hash, known)
	}
	if !now.Before(known.id.Until) {
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "this token expired at %s: get a new one from %s", known.id.Until.UTC().Format(time.RFC3339), o.cfg.Issuer)
	}
	return known.id, nil
}

func (o *OIDC) remember(hash [sha256.Size]byte, v verifiedToken) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.verified) >= maxVerified {
		clear(o.verified) // each token is verified again when it is next used
	}
	o.verified[hash] = v
}

func (o *OIDC) verify(ctx context.Context, token string) (ares.Identity, error) {
	verifier, err := o.current(ctx)
	if err != nil {
		return ares.Identity{}, ares.Errorf(ares.Unavailable, "the token cannot be checked, because its issuer %s does not respond correctly: try again", o.cfg.Issuer)
	}
	t, err := verifier.Verify(ctx, token)
	switch {
	case err != nil && (ctx.Err() != nil || o.fetch.failing()):
		return ares.Identity{}, ares.Errorf(ares.Unavailable, "the token cannot be checked, because the keys of its issuer %s cannot be read: try again", o.cfg.Issuer)
	case err != nil:
		return ares.Identity{}, badToken(strings.TrimPrefix(err.Error(), "oidc: "))
	}
	var claims map[string]json.RawMessage
	if err = t.Claims(&claims); err != nil {
		return ares.Identity{}, badToken("its claims cannot be read")
	}
	if err = o.inTime(t, claims); err != nil {
		return ares.Identity{}, err
	}
	return o.identityOf(t, claims)
}

func badToken(why string) error {
	if len(why) > 200 {
		why = ares.Truncate(why, 200) + "…"
	}
	return ares.Errorf(ares.Unauthentic, "this token is not valid: %s", why)
}

// inTime rejects a token that is not valid yet or no longer valid, with a tolerance of Skew.
func (o *OIDC) inTime(t *oidc.IDToken, claims map[string]json.RawMessage) error {
	now := o.cfg.Now()
	if t.Expiry.Unix() <= 0 {
		return badToken("it has no expiry (exp)")
	}
	if !now.Before(t.Expiry.Add(o.cfg.Skew)) {
		return badToken("it expired at " + t.Expiry.UTC().Format(time.RFC3339) + ": get a new one")
	}
	for _, name := range []string{"nbf", "iat"} {
		raw, ok := claims[name]
		if !ok {
			continue
		}
		var seconds float64
		if json.Unmarshal(raw, &seconds) != nil || seconds < 0 || seconds > 1<<40 {
			return badToken(name + " is not a time")
		}
		if at := time.Unix(int64(seconds), 0); now.Add(o.cfg.Skew).Before(at) {
			return badToken(fmt.Sprintf("it is not valid before %s (%s)", at.UTC().Format(time.RFC3339), name))
		}
	}
	return nil
}

// identityOf reads the identity from a token.
func (o *OIDC) identityOf(t *oidc.IDToken, claims map[string]json.RawMessage) (ares.Identity, error) {
	if !plain(t.Subject) {
		return ares.Identity{}, badToken("its subject (sub) is empty, too long, or no plain text")
	}
	id := ares.Identity{Name: oidcSubject + t.Subject, Kind: ares.ByOIDC, Until: t.Expiry.Add(o.cfg.Skew)}
	if raw, ok := claims[o.cfg.TenantClaim]; ok && o.cfg.TenantClaim != "" {
		if json.Unmarshal(raw, &id.Tenant) != nil || !ares.ValidName(id.Tenant) {
			return ares.Identity{}, badToken("its claim " + o.cfg.TenantClaim + " is not the name of a tenant")
		}
	}
	var err error
	if id.Groups, err = o.groups(claims); err != nil {
		return ares.Identity{}, err
	}
	for _, g := range id.Groups {
		role, ok := o.cfg.Roles[g]
		switch {
		case !ok:
		case role == ares.PlatformAdmin || role == ares.Auditor:
			id.Bindings = append(id.Bindings, ares.Binding{Role: role})
		case id.Tenant != "":
			id.Bindings = append(id.Bindings, ares.Binding{Role: role, Tenant: id.Tenant})
		}
	}
	return id, nil
}

func (o *OIDC) groups(claims map[string]json.RawMessage) ([]string, error) {
	raw, ok := claims[o.cfg.GroupsClaim]
	if !ok || o.cfg.GroupsClaim == "" {
		return nil, nil
	}
	var groups []string
	if json.Unmarshal(raw, &groups) != nil {
		var one string
		if json.Unmarshal(raw, &one) != nil {
			return nil, badToken("its claim " + o.cfg.GroupsClaim + " is neither a list of groups nor one")
		}
		groups = []string{one}
	}
	if len(groups) > maxGroups || slices.ContainsFunc(groups, func(g string) bool { return !plain(g) }) {
		return nil, badToken(fmt.Sprintf("its claim %s has more than %d groups, or one that is no plain text of at most %d bytes", o.cfg.GroupsClaim, maxGroups, maxWord))
	}
	return groups, nil
}

func plain(s string) bool {
	return s != "" && len(s) <= maxWord && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// The method `current` returns the verifier of token signatures. The issuer is contacted regularly, so that keys that
// it has removed become invalid. While the issuer does not answer, its last answer is used for a while.
func (o *OIDC) current(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	o.renewing.Lock()
	defer o.renewing.Unlock()
	now := o.cfg.Now()
	if o.verifier != nil && now.Sub(o.renewed) < renewAfter {
		return o.verifier, nil
	}
	// The request continues even if this caller gives up, because all callers use the answer.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), o.fetch.client())
	provider, err := oidc.NewProvider(ctx, o.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", o.cfg.Issuer, err)
	}
	var said struct {
		Keys string `json:"jwks_uri"`
	}
	if err = errors.Join(provider.Claims(&said), CheckURL(said.Keys)); err != nil {
		return nil, fmt.Errorf("keys of %s: %w", o.cfg.Issuer, err)
	}
	o.verifier = provider.VerifierContext(ctx, &oidc.Config{
		ClientID: o.cfg.Audience, SupportedSigningAlgs: o.cfg.Algorithms, SkipExpiryCheck: true, // inTime checks it
	})
	o.renewed = now
	return o.verifier, nil
}

// CheckURL rejects an issuer's address unless it uses https. An address on this machine may use http.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil {
		return fmt.Errorf("%q is not a valid issuer URL: use a URL such as https://issuer.example.com", s)
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback.Host(u.Hostname())) {
		return fmt.Errorf("%q must begin with https://", s)
	}
	return nil
}
