package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	ares "github.com/ares-scheduler/ares"
)

// Limits of what an issuer may say.
const (
	renewAfter  = 10 * time.Minute // keys that the issuer no longer names end
	verifyAgain = 5 * time.Minute  // a token that was found good
	maxVerified = 10_000           // tokens found good that are remembered
	maxGroups   = 256
	maxWord     = 256 // bytes of a subject or group
	// MaxSkew bounds how far the issuer's clock may be off.
	MaxSkew = 5 * time.Minute
)

// OIDCConfig says whose tokens are taken and what their claims mean.
type OIDCConfig struct {
	Issuer, Audience string
	// Algorithms a token may be signed with. None is never one of them.
	Algorithms []string
	// TenantClaim holds the tenant its holder belongs to, and GroupsClaim the
	// groups; "" for neither.
	TenantClaim, GroupsClaim string
	// Roles are what the members of a group have in the tenant of their claim;
	// platform-admin and auditor are for all tenants.
	Roles map[string]ares.Role
	// Skew is how far the issuer's clock may be off.
	Skew time.Duration
	// TLS to the issuer. Nil for the system's authorities.
	TLS *tls.Config
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Algorithms lists those that an issuer may sign with. Those with a shared secret
// are not among them: who can check a token could make one.
func Algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}
}

// OIDC checks the tokens of an issuer. It is safe for concurrent use.
type OIDC struct {
	cfg   OIDCConfig
	fetch *fetcher

	renewing sync.Mutex
	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil before the issuer was first reached
	renewed  time.Time
	verified map[[sha256.Size]byte]vouching
}

// vouching is a token that was found good.
type vouching struct {
	id ares.Identity
	at time.Time
}

// NewOIDC makes an OIDC. The issuer is asked when the first token comes.
func NewOIDC(cfg OIDCConfig) *OIDC {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &OIDC{cfg: cfg, fetch: newFetcher(cfg.TLS, cfg.Now), verified: map[[sha256.Size]byte]vouching{}}
}

// vouched is the identity of who holds an issuer's token, with all it is bound
// to.
func (a *Auth) vouched(ctx context.Context, token string) (ares.Identity, error) {
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
	return a.bind(id), nil
}

// identity is what a token says, once it is found good.
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
		known = vouching{id, now}
		o.remember(hash, known)
	}
	if !now.Before(known.id.Until) {
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "this token was good until %s: get a new one from %s", known.id.Until.UTC().Format(time.RFC3339), o.cfg.Issuer)
	}
	return known.id, nil
}

func (o *OIDC) remember(hash [sha256.Size]byte, v vouching) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.verified) >= maxVerified {
		clear(o.verified) // they are found good again, one by one
	}
	o.verified[hash] = v
}

func (o *OIDC) verify(ctx context.Context, token string) (ares.Identity, error) {
	verifier, err := o.current(ctx)
	if err != nil {
		return ares.Identity{}, ares.Errorf(ares.Unavailable, "the token cannot be checked: its issuer %s does not answer as it should; try again", o.cfg.Issuer)
	}
	t, err := verifier.Verify(ctx, token)
	switch {
	case err != nil && (ctx.Err() != nil || o.fetch.failing()):
		return ares.Identity{}, ares.Errorf(ares.Unavailable, "the token cannot be checked: the keys of its issuer %s cannot be read; try again", o.cfg.Issuer)
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
		why = strings.ToValidUTF8(why[:200], "") + "…"
	}
	return ares.Errorf(ares.Unauthentic, "this token is not good: %s", why)
}

// inTime refuses a token before and after its time, but for the skew of clocks.
func (o *OIDC) inTime(t *oidc.IDToken, claims map[string]json.RawMessage) error {
	now := o.cfg.Now()
	if t.Expiry.Unix() <= 0 {
		return badToken("it has no expiry (exp)")
	}
	if !now.Before(t.Expiry.Add(o.cfg.Skew)) {
		return badToken("it was good until " + t.Expiry.UTC().Format(time.RFC3339) + ": get a new one")
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
			return badToken(fmt.Sprintf("it is good from %s on (%s)", at.UTC().Format(time.RFC3339), name))
		}
	}
	return nil
}

// identityOf reads who a token is about.
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

// current is what checks signatures. The issuer is asked anew now and then, so
// that keys which it no longer names end; while it does not answer, what it said
// before counts for a while.
func (o *OIDC) current(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	o.renewing.Lock()
	defer o.renewing.Unlock()
	now := o.cfg.Now()
	if o.verifier != nil && now.Sub(o.renewed) < renewAfter {
		return o.verifier, nil
	}
	// The caller may leave, but the answer is for everybody.
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

// CheckURL refuses an issuer's address that others on the way could answer for.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil {
		return fmt.Errorf("%q is no address such as https://issuer.example.com", s)
	}
	ip := net.ParseIP(u.Hostname())
	if loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme != "https" && !(u.Scheme == "http" && loopback) {
		return fmt.Errorf("%q must begin with https://", s)
	}
	return nil
}
