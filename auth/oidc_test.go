package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// The type `issuer` is a small OpenID issuer that has keys, publishes them, and signs tokens.
type issuer struct {
	*httptest.Server
	t       *testing.T
	fetched atomic.Int64 // how often its keys were fetched
	down    atomic.Bool
	mu      sync.Mutex
	keys    []jose.JSONWebKey // private ones
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetched.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		set := jose.JSONWebKeySet{}
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	})
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	i.rotate(newKey(t, "k1", jose.RS256))
	return i
}

func newKey(t *testing.T, kid string, alg jose.SignatureAlgorithm) jose.JSONWebKey {
	t.Helper()
	var key crypto.Signer
	var err error
	if alg == jose.ES256 {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: kid, Algorithm: string(alg), Use: "sig"}
}

// The method `rotate` replaces the keys.
func (i *issuer) rotate(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// The function `sign` signs claims with a key.
func sign(t *testing.T, key jose.JSONWebKey, alg jose.SignatureAlgorithm, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := s.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The type `gate` is an Auth with a test issuer and a test clock.
type gate struct {
	*Auth
	*issuer
	now      time.Time
	bindings []store.Binding
}

func newGate(t *testing.T) *gate {
	g := &gate{issuer: newIssuer(t), now: time.Now()}
	clock := func() time.Time { return g.now }
	g.Auth = New(Config{
		Now:      clock,
		Tokens:   func(context.Context) ([]store.Token, error) { return nil, nil },
		Bindings: func(context.Context) ([]store.Binding, error) { return g.bindings, nil },
		OIDC: NewOIDC(OIDCConfig{
			Issuer: g.URL, Audience: "ares", Algorithms: []string{"RS256", "ES256"}, TenantClaim: "team", GroupsClaim: "groups",
			Roles: map[string]ares.Role{"writers": ares.Submitter, "roots": ares.PlatformAdmin}, Skew: time.Minute, Now: clock,
		}),
	})
	return g
}

// The method `claims` returns valid claims, with the given changes. A claim whose new value is nil is removed.
func (g *gate) claims(more map[string]any) map[string]any {
	out := map[string]any{
		"iss": g.URL, "aud": "ares", "sub": "alice", "team": "vision", "groups": []string{"writers", "readers"},
		"iat": g.now.Unix(), "nbf": g.now.Unix(), "exp": g.now.Add(time.Hour).Unix(),
	}
	maps.Copy(out, more)
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

func (g *gate) token(more map[string]any) string {
	return sign(g.t, g.keys[0], jose.RS256, g.claims(more))
}

func TestOIDC(t *testing.T) {
	g := newGate(t)
	g.bindings = []store.Binding{
		{Subject: "group:readers", Binding: ares.Binding{Role: ares.Viewer, Tenant: "sound"}},
		{Subject: "oidc:alice", Binding: ares.Binding{Role: ares.TenantAdmin, Tenant: "lab"}},
		{Subject: "group:others", Binding: ares.Binding{Role: ares.PlatformAdmin}},
		{Subject: "token:alice", Binding: ares.Binding{Role: ares.PlatformAdmin}},
	}
	who, err := g.Check(t.Context(), g.token(nil))
	if err != nil {
		t.Fatal(err)
	}
	id := who.Identity()
	want := []ares.Binding{{Role: ares.Submitter, Tenant: "vision"}, {Role: ares.TenantAdmin, Tenant: "lab"}, {Role: ares.Viewer, Tenant: "sound"}}
	if id.Name != "oidc:alice" || id.Kind != ares.ByOIDC || id.Tenant != "vision" || !slices.Equal(id.Bindings, want) || !slices.Equal(id.Groups, []string{"writers", "readers"}) {
		t.Errorf("it is %+v", id)
	}
	who, err = g.Check(t.Context(), g.token(map[string]any{"team": nil, "groups": "roots"}))
	if err != nil || who.Identity().Tenant != "" || !slices.Contains(who.Identity().Bindings, ares.Binding{Role: ares.PlatformAdmin}) {
		t.Errorf("an administrator is %+v, %v", who.Identity(), err)
	}
	who, err = g.Check(t.Context(), g.token(map[string]any{"team": nil, "sub": "bob", "groups": []string{"writers"}}))
	if err != nil || len(who.Identity().Bindings) != 0 {
		t.Errorf("who belongs to no tenant has %+v, %v", who.Identity().Bindings, err)
	}
	if g.fetched.Load() != 1 {
		t.Errorf("the keys were asked for %d times", g.fetched.Load())
	}
}

// TestOIDCRefuses makes one mistake at a time in a token, and checks that the token is rejected.
func TestOIDCRefuses(t *testing.T) {
	g := newGate(t)
	at := func(d time.Duration) int64 { return g.now.Add(d).Unix() }
	stranger := newKey(t, "k1", jose.RS256) // with the ID of a known key
	good := g.token(nil)
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	body := base64.RawURLEncoding.EncodeToString([]byte(strings.ReplaceAll(decode(t, parts[1]), "alice", "mallet")))
	public := g.keys[0].Public()
	der, err := public.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"alg none":            none + "." + parts[1] + ".",
		"alg none, signed":    none + "." + parts[1] + "." + parts[2],
		"alg HS256 by public": sign(t, jose.JSONWebKey{Key: der, KeyID: "k1"}, jose.HS256, g.claims(nil)),
		"another algorithm":   sign(t, g.keys[0], jose.RS512, g.claims(nil)),
		"re-signed":           sign(t, stranger, jose.RS256, g.claims(nil)),
		"changed":             parts[0] + "." + body + "." + parts[2],
		"no signature":        parts[0] + "." + parts[1] + ".",
		"unknown key":         sign(t, newKey(t, "k9", jose.RS256), jose.RS256, g.claims(nil)),
		"another issuer":      g.token(map[string]any{"iss": "https://evil.example"}),
		"no issuer":           g.token(map[string]any{"iss": nil}),
		"another audience":    g.token(map[string]any{"aud": "wiki"}),
		"audiences":           g.token(map[string]any{"aud": []string{"wiki", "mail"}}),
		"no audience":         g.token(map[string]any{"aud": nil}),
		"expired":             g.token(map[string]any{"exp": at(-61 * time.Second)}),
		"no expiry":           g.token(map[string]any{"exp": nil}),
		"not yet":             g.token(map[string]any{"nbf": at(62 * time.Second)}),
		"from tomorrow":       g.token(map[string]any{"iat": at(24 * time.Hour)}),
		"nbf a word":          g.token(map[string]any{"nbf": -5}),
		"no subject":          g.token(map[string]any{"sub": nil}),
		"long subject":        g.token(map[string]any{"sub": strings.Repeat("x", 300)}),
		"control characters":  g.token(map[string]any{"sub": "a\nb"}),
		"tenant a path":       g.token(map[string]any{"team": "../lab"}),
		"tenant a list":       g.token(map[string]any{"team": []string{"lab"}}),
		"groups a number":     g.token(map[string]any{"groups": 7}),
		"many groups":         g.token(map[string]any{"groups": slices.Repeat([]string{"g"}, 300)}),
		"long":                good + strings.Repeat("x", MaxTokenBytes),
		"rubbish":             "a.b.c",
		"dots":                "..",
	} {
		who, err := g.Check(t.Context(), token)
		if ares.CodeOf(err) != ares.Unauthentic || who != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (len(err.Error()) > 400 || strings.Contains(err.Error(), parts[1])) {
			t.Errorf("%s is told %s", name, err)
		}
	}
	for name, more := range map[string]map[string]any{
		"late within the skew":  {"exp": at(-59 * time.Second)},
		"early within the skew": {"nbf": at(58 * time.Second)},
		"one of two audiences":  {"aud": []string{"wiki", "ares"}},
	} {
		if _, err := g.Check(t.Context(), g.token(more)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func decode(t *testing.T, s string) string {
	t.Helper()
	out, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestOIDCRotation checks that a new key is fetched when the first token signed with it arrives. A removed key must
// become invalid. Tokens with unknown keys must not cause unlimited requests to the issuer.
func TestOIDCRotation(t *testing.T) {
	g := newGate(t)
	check := func(token string, want ares.Code, fetched int64) {
		t.Helper()
		var err error
		// Package oidc may answer a call with the keys of an earlier request whose goroutine has not ended yet. A few
		// more calls change nothing that is checked here, because requests to the issuer are limited.
		for range 1000 {
			_, err = g.Check(t.Context(), token)
			if ares.CodeOf(err) == want && g.fetched.Load() == fetched {
				return
			}
			runtime.Gosched()
		}
		t.Errorf("%v after the keys were asked for %d times, want %q after %d", err, g.fetched.Load(), want, fetched)
	}
	old := g.keys[0]
	check(g.token(nil), "", 1)
	second := newKey(t, "k2", jose.ES256)
	g.rotate(second, old)
	next := sign(t, second, jose.ES256, g.claims(map[string]any{"sub": "carol"}))
	check(next, ares.Unauthentic, 1) // the keys were fetched just before
	g.now = g.now.Add(fetchAtMost)
	check(next, "", 2)
	check(sign(t, old, jose.RS256, g.claims(nil)), "", 2) // both keys are valid for a while
	stranger := newKey(t, "k9", jose.RS256)
	for i := range 20 {
		check(sign(t, stranger, jose.RS256, g.claims(map[string]any{"jti": i})), ares.Unauthentic, 2)
	}
	g.rotate(second)
	before := sign(t, old, jose.RS256, g.claims(map[string]any{"exp": g.now.Add(24 * time.Hour).Unix()}))
	g.now = g.now.Add(renewAfter)
	check(before, ares.Unauthentic, 3) // the issuer no longer publishes its key
	g.now = g.now.Add(time.Minute)
	g.down.Store(true)
	check(sign(t, second, jose.ES256, g.claims(nil)), "", 3)
	check(sign(t, stranger, jose.RS256, g.claims(nil)), ares.Unavailable, 3)
	g.now = g.now.Add(renewAfter)
	check(sign(t, second, jose.ES256, g.claims(nil)), "", 3) // the last answer is used for a while
	g.now = g.now.Add(fetchStale + renewAfter)
	check(sign(t, second, jose.ES256, g.claims(nil)), ares.Unavailable, 3)
	g.down.Store(false)
	g.now = g.now.Add(fetchAtMost)
	check(sign(t, second, jose.ES256, g.claims(nil)), "", 4)
}

// TestOIDCAgain refreshes a caller, as a server does while a stream is open. The caller must get its current bindings,
// and must lose access when its token expires.
func TestOIDCAgain(t *testing.T) {
	g := newGate(t)
	who, err := g.Check(t.Context(), g.token(map[string]any{"groups": []string{"readers"}}))
	if err != nil || len(who.Identity().Bindings) != 0 {
		t.Fatal(err, who.Identity())
	}
	g.bindings = []store.Binding{{Subject: "group:readers", Binding: ares.Binding{Role: ares.Viewer, Tenant: "sound"}}}
	g.now = g.now.Add(refreshAfter + time.Second)
	if err = who.Refresh(t.Context()); err != nil || len(who.Identity().Bindings) != 1 {
		t.Errorf("bound while open: %v %+v", err, who.Identity())
	}
	g.now = g.now.Add(time.Hour + time.Minute)
	if err = who.Refresh(t.Context()); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("after its end: %v", err)
	}
}

// TestOIDCAtStart checks that service tokens work while the issuer does not answer, and that the issuer is tried again
// later.
func TestOIDCAtStart(t *testing.T) {
	g := newGate(t)
	g.down.Store(true)
	token := g.token(nil)
	if _, err := g.Check(t.Context(), token); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("answered %v", err)
	}
	g.down.Store(false)
	g.now = g.now.Add(fetchAtMost)
	if _, err := g.Check(t.Context(), token); err != nil {
		t.Errorf("answered %v", err)
	}
}

func TestCheckURL(t *testing.T) {
	for u, ok := range map[string]bool{
		"https://login.example.com": true, "https://login.example.com/realms/x": true, "http://127.0.0.1:80": true, "http://localhost": true,
		"http://login.example.com": false, "": false, "login.example.com": false, "https://a:b@login.example.com": false, "file:///etc/passwd": false, "http://127.0.0.1.evil.example": false,
	} {
		if err := CheckURL(u); (err == nil) != ok {
			t.Errorf("%s: %v", u, err)
		}
	}
	if slices.ContainsFunc(Algorithms(), func(a string) bool { return a == "none" || strings.HasPrefix(a, "HS") }) {
		t.Error("an algorithm that proves nothing is taken")
	}
}
