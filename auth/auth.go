package auth

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// These constants define how long tokens and bindings are cached.
const (
	reloadAtMost = time.Second      // minimum time between two reads because of unknown tokens
	refreshAfter = 10 * time.Second // so that deleted tokens and bindings stop working
	staleAfter   = 5 * time.Minute  // how long the cache is used while the store does not answer
	loadTimeout  = 2 * time.Second
	glance       = time.Second // longest time that a known caller waits for a refresh
)

// MaxTokenBytes is the maximum length of a token. An issuer's token may hold many groups.
const MaxTokenBytes = 16 << 10

// Config names the sources of identities.
type Config struct {
	// Tokens and Bindings read all tokens and all bindings from the store.
	// Bindings may be nil.
	Tokens   func(context.Context) ([]store.Token, error)
	Bindings func(context.Context) ([]store.Binding, error)
	// Tenants reads the IDs of all tenants. A token of a tenant that does not exist is not accepted, and a binding in such a
	// tenant has no effect. If Tenants is nil, every tenant exists.
	Tenants func(context.Context) ([]string, error)
	// OIDC checks the tokens of an OpenID issuer. If OIDC is nil, no tokens of an issuer are accepted.
	OIDC *OIDC
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// Auth authenticates callers. An Auth is safe for concurrent use.
type Auth struct {
	cfg Config

	loading sync.Mutex // held while the store is read
	mu      sync.RWMutex
	holders map[[sha256.Size]byte]ares.Identity
	bound   map[string][]ares.Binding // by subject
	tried   time.Time                 // when the store was last read
	loaded  time.Time                 // when it last answered
	err     error                     // error of the last read
	forgot  int                       // how often tenants were forgotten; a read that began before is read again
	ended   chan struct{}             // closed and replaced when tenants are forgotten or rights are lost
	changes int                       // how often Changed was called; a read that began before is not the newest state
	reading bool                      // a read of the store is under way
	lost    []ares.LostRight          // lost while the read is under way, which may still have them
	rang    time.Time                 // when `ended` was last closed because of lost rights
	ringing bool                      // `ended` will be closed soon
}

// New returns an Auth. Auth reads the tokens when it first needs them, and again when its cache is too old. Auth also
// reads the store when it sees an unknown token, because another server may have registered the token. Unknown tokens
// cause at most one read per second.
func New(cfg Config) *Auth {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Bindings == nil {
		cfg.Bindings = func(context.Context) ([]store.Binding, error) { return nil, nil }
	}
	return &Auth{cfg: cfg, ended: make(chan struct{})}
}

// Caller is an authenticated caller. A caller's bindings may change while a stream is open, so they are refreshed.
type Caller struct {
	now   atomic.Pointer[ares.Identity]
	again func(context.Context) (ares.Identity, error)
}

// NewCaller returns a caller that is authenticated in another way, such as by a certificate. The function `prove`
// authenticates the caller. It is called now, and again while a stream is open.
func NewCaller(ctx context.Context, prove func(context.Context) (ares.Identity, error)) (*Caller, error) {
	id, err := prove(ctx)
	if err != nil {
		return nil, err
	}
	c := &Caller{again: prove}
	c.now.Store(&id)
	return c, nil
}

// Identity returns the caller's identity as of the last refresh.
func (c *Caller) Identity() *ares.Identity { return c.now.Load() }

// Refresh authenticates the caller again and reads its bindings.
func (c *Caller) Refresh(ctx context.Context) error {
	id, err := c.again(ctx)
	if err == nil {
		c.now.Store(&id)
	}
	return err
}

// Check authenticates the holder of a token.
func (a *Auth) Check(ctx context.Context, token string) (*Caller, error) {
	if token == "" {
		return nil, ares.Errorf(ares.Unauthentic, "the request has no token: send the header `Authorization: Bearer <token>`; the file admin.token in the server's data directory contains a token")
	}
	if len(token) > MaxTokenBytes {
		return nil, unknownToken()
	}
	if a.cfg.OIDC != nil && isJWT(token) {
		return NewCaller(ctx, func(ctx context.Context) (ares.Identity, error) { return a.oidcIdentity(ctx, token) })
	}
	hash := sha256.Sum256([]byte(token))
	return NewCaller(ctx, func(ctx context.Context) (ares.Identity, error) { return a.find(ctx, hash) })
}

// isJWT reports whether a token comes from an issuer. A service token of Ares has no dots.
func isJWT(token string) bool { return strings.Count(token, ".") == 2 }

// CachedCaller returns the holder of a token if it is cached.
func (a *Auth) CachedCaller(token string) (*Caller, bool) {
	if token == "" || len(token) > MaxTokenBytes || isJWT(token) {
		return nil, false
	}
	hash := sha256.Sum256([]byte(token))
	id, ok, age := a.lookup(hash)
	if !ok || age > staleAfter {
		return nil, false
	}
	c := &Caller{again: func(ctx context.Context) (ares.Identity, error) { return a.find(ctx, hash) }}
	c.now.Store(&id)
	return c, true
}

// Changed invalidates the cache after this server has changed tokens or bindings, so that the next call
// reads them again.
func (a *Auth) Changed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed()
}

// The method `changed` is Changed for a caller that holds mu.
func (a *Auth) changed() {
	a.changes++
	a.stale()
}

// The method `stale` makes the next call read the store. The caller holds mu.
func (a *Auth) stale() {
	a.tried = time.Time{}
	if past := a.cfg.Now().Add(-refreshAfter - 1); a.loaded.After(past) {
		a.loaded = past
	}
}

func unknownToken() error {
	return ares.Errorf(ares.Unauthentic, "this token is unknown or was revoked: use another token, for example the one in admin.token in the server's data directory")
}

// The method `find` returns the identity of a token's holder. The token is given by its hash.
func (a *Auth) find(ctx context.Context, hash [sha256.Size]byte) (ares.Identity, error) {
	id, ok, age := a.lookup(hash)
	if !ok || age > refreshAfter {
		a.refresh(ctx, !ok)
		id, ok, age = a.lookup(hash)
	}
	switch now := a.cfg.Now(); {
	case ok && age <= staleAfter && !id.Until.IsZero() && !now.Before(id.Until):
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "this token expired at %s: create a new one with `ares token create`", id.Until.UTC().Format(time.RFC3339))
	case ok && age <= staleAfter:
		return id, nil
	case a.hasFailed():
		return ares.Identity{}, cannotCheck()
	}
	return ares.Identity{}, unknownToken()
}

func cannotCheck() error {
	return ares.Errorf(ares.Unavailable, "the token cannot be checked, because the store does not respond: try again")
}

func (a *Auth) hasFailed() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.err != nil
}

// The method `lookup` returns the identity of a token's holder with its bindings. The third result is the age of the
// cache. The token is looked up by its hash, so the duration of the lookup reveals nothing about the token.
func (a *Auth) lookup(hash [sha256.Size]byte) (id ares.Identity, ok bool, age time.Duration) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if id, ok = a.holders[hash]; ok {
		id = a.withBindings(id)
	}
	return id, ok, a.cfg.Now().Sub(a.loaded)
}

// withBindings adds the bindings of an identity and of its groups. If all bindings are in one tenant, withBindings
// makes it the identity's home tenant. The caller holds mu.
func (a *Auth) withBindings(id ares.Identity) ares.Identity {
	id.Bindings = slices.Concat(id.Bindings, a.bound[id.Name])
	for _, g := range id.Groups {
		id.Bindings = append(id.Bindings, a.bound[groupSubject+g]...)
	}
	if id.Tenant != "" || len(id.Bindings) == 0 {
		return id
	}
	home := id.Bindings[0].Tenant
	for _, b := range id.Bindings {
		if b.Tenant != home {
			return id
		}
	}
	id.Tenant = home
	return id
}

// The method `refresh` reads tokens and bindings from the store. When several callers find the cache too old, one of
// them reads the store and the others continue with the cached data. A caller that cannot continue without fresh data
// waits for the store's answer.
func (a *Auth) refresh(ctx context.Context, wait bool) {
	if wait {
		a.loading.Lock()
	} else if !a.loading.TryLock() {
		return
	}
	defer a.loading.Unlock()
	a.mu.RLock()
	again, within := refreshAfter, glance // a known caller does not wait for a store that does not answer
	if wait || a.cfg.Now().Sub(a.loaded) > staleAfter/2 {
		again, within = reloadAtMost, loadTimeout
	}
	recent := !a.tried.IsZero() && a.cfg.Now().Sub(a.tried) < again
	a.mu.RUnlock()
	if recent {
		return
	}
	// The read continues even if this caller gives up, because other callers need the answer too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	for {
		a.mu.Lock()
		forgot, changes := a.forgot, a.changes
		a.reading, a.lost = true, nil
		a.mu.Unlock()
		asked := a.cfg.Now()
		holders, bound, err := a.load(ctx)
		a.mu.Lock()
		a.reading = false
		if a.forgot != forgot && err == nil { // it may have what was forgotten meanwhile
			a.mu.Unlock()
			continue
		}
		a.tried, a.err = asked, err
		if err == nil {
			a.holders, a.bound, a.loaded = holders, bound, asked
			a.drop(a.lost) // the read may have begun before they were lost
		}
		if a.changes != changes { // the read may have begun before the change, so the next call reads again
			a.stale()
		}
		a.mu.Unlock()
		return
	}
}

func (a *Auth) load(ctx context.Context) (map[[sha256.Size]byte]ares.Identity, map[string][]ares.Binding, error) {
	tokens, err := a.cfg.Tokens(ctx)
	if err != nil {
		return nil, nil, err
	}
	bindings, err := a.cfg.Bindings(ctx)
	if err != nil {
		return nil, nil, err
	}
	exists, err := a.tenants(ctx) // read last, so that it has the tenant of every token that was read
	if err != nil {
		return nil, nil, err
	}
	holders := make(map[[sha256.Size]byte]ares.Identity, len(tokens))
	for i := range tokens {
		if len(tokens[i].Hash) == sha256.Size && exists(tokens[i].Tenant()) {
			id := identityOf(&tokens[i])
			id.Bindings = slices.DeleteFunc(slices.Clone(id.Bindings), func(b ares.Binding) bool { return !exists(b.Tenant) })
			holders[[sha256.Size]byte(tokens[i].Hash)] = id
		}
	}
	bound := map[string][]ares.Binding{}
	for _, b := range bindings {
		if !b.Pending && exists(b.Tenant) {
			bound[b.Subject] = append(bound[b.Subject], b.Binding)
		}
	}
	return holders, bound, nil
}
