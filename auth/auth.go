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

// How long what was read of tokens and bindings is believed.
const (
	reloadAtMost = time.Second      // for a token that is not known
	refreshAfter = 10 * time.Second // so that what was taken away ends
	staleAfter   = 5 * time.Minute  // while the store does not answer
	loadTimeout  = 2 * time.Second
	glance       = time.Second // of a caller who is known, while there is time
)

// MaxTokenBytes bounds a token. An issuer's may hold many groups.
const MaxTokenBytes = 16 << 10

// Config says what identities are made from.
type Config struct {
	// Tokens and Bindings read all that are stored. Without Bindings there are
	// none.
	Tokens   func(context.Context) ([]store.Token, error)
	Bindings func(context.Context) ([]store.Binding, error)
	// OIDC checks tokens of an issuer. Nil for none.
	OIDC *OIDC
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Auth knows who callers are. It is safe for concurrent use.
type Auth struct {
	cfg Config

	loading sync.Mutex // held while the store is asked
	mu      sync.RWMutex
	holders map[[sha256.Size]byte]ares.Identity
	bound   map[string][]ares.Binding // by subject
	tried   time.Time                 // when the store was last asked
	loaded  time.Time                 // when it last answered
	err     error                     // what it answered last
}

// New makes an Auth. It reads the tokens when it first needs them, again after a
// while, and when it meets one it does not know, at most once a second: another
// server may have registered it.
func New(cfg Config) *Auth {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Bindings == nil {
		cfg.Bindings = func(context.Context) ([]store.Binding, error) { return nil, nil }
	}
	return &Auth{cfg: cfg}
}

// Caller is somebody who was identified. What it is bound to may change while a
// stream is open, so it is asked again.
type Caller struct {
	now   atomic.Pointer[ares.Identity]
	again func(context.Context) (ares.Identity, error)
}

// NewCaller is somebody who is identified by a way of one's own, such as a
// certificate. prove is called now, and again while a stream is open.
func NewCaller(ctx context.Context, prove func(context.Context) (ares.Identity, error)) (*Caller, error) {
	id, err := prove(ctx)
	if err != nil {
		return nil, err
	}
	c := &Caller{again: prove}
	c.now.Store(&id)
	return c, nil
}

// Identity is who it is, as of when it was last asked.
func (c *Caller) Identity() *ares.Identity { return c.now.Load() }

// Again asks whether it is still who it was, and what it is bound to now.
func (c *Caller) Again(ctx context.Context) error {
	id, err := c.again(ctx)
	if err == nil {
		c.now.Store(&id)
	}
	return err
}

// Check finds who holds a token.
func (a *Auth) Check(ctx context.Context, token string) (*Caller, error) {
	if token == "" {
		return nil, ares.Errorf(ares.Unauthentic, "no token: send the header Authorization: Bearer <token> (`ares up` writes it to admin.token in its data directory)")
	}
	if len(token) > MaxTokenBytes {
		return nil, unknownToken()
	}
	if a.cfg.OIDC != nil && isJWT(token) {
		return NewCaller(ctx, func(ctx context.Context) (ares.Identity, error) { return a.vouched(ctx, token) })
	}
	hash := sha256.Sum256([]byte(token))
	return NewCaller(ctx, func(ctx context.Context) (ares.Identity, error) { return a.find(ctx, hash) })
}

// isJWT tells an issuer's token from one of ours, which has no dots.
func isJWT(token string) bool { return strings.Count(token, ".") == 2 }

// Known is who holds a token, as far as that is known without asking anybody.
func (a *Auth) Known(token string) (*Caller, bool) {
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

// Changed says that tokens or bindings were changed here: the next call reads
// them anew.
func (a *Auth) Changed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tried = time.Time{}
	if past := a.cfg.Now().Add(-refreshAfter - 1); a.loaded.After(past) {
		a.loaded = past
	}
}

func unknownToken() error {
	return ares.Errorf(ares.Unauthentic, "this token is not known: it may have been revoked or replaced; the server's own is in admin.token in its data directory")
}

// find is the identity of who holds the token with a hash.
func (a *Auth) find(ctx context.Context, hash [sha256.Size]byte) (ares.Identity, error) {
	id, ok, age := a.lookup(hash)
	if !ok || age > refreshAfter {
		a.refresh(ctx, !ok)
		id, ok, age = a.lookup(hash)
	}
	switch now := a.cfg.Now(); {
	case ok && age <= staleAfter && !id.Until.IsZero() && !now.Before(id.Until):
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "this token was good until %s: make another with `ares token create`", id.Until.UTC().Format(time.RFC3339))
	case ok && age <= staleAfter:
		return id, nil
	case a.broken():
		return ares.Identity{}, cannotCheck()
	}
	return ares.Identity{}, unknownToken()
}

func cannotCheck() error {
	return ares.Errorf(ares.Unavailable, "the token cannot be checked: the store does not answer; try again")
}

func (a *Auth) broken() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.err != nil
}

// lookup finds the identity of a token's holder with all it is bound to, and
// tells how old that knowledge is. A token is looked up by its hash, so how long
// that takes tells nothing of it.
func (a *Auth) lookup(hash [sha256.Size]byte) (id ares.Identity, ok bool, age time.Duration) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if id, ok = a.holders[hash]; ok {
		id = a.bind(id)
	}
	return id, ok, a.cfg.Now().Sub(a.loaded)
}

// bind adds what an identity and its groups are bound to, and finds its home if
// there is but one. The caller holds mu.
func (a *Auth) bind(id ares.Identity) ares.Identity {
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

// refresh asks the store. Of many who find that it is time, one asks and the
// others go on with what is known; who needs the answer waits for it.
func (a *Auth) refresh(ctx context.Context, wait bool) {
	if wait {
		a.loading.Lock()
	} else if !a.loading.TryLock() {
		return
	}
	defer a.loading.Unlock()
	a.mu.RLock()
	again, within := refreshAfter, glance // who is known is not kept waiting for a store that does not answer
	if wait || a.cfg.Now().Sub(a.loaded) > staleAfter/2 {
		again, within = reloadAtMost, loadTimeout
	}
	recent := !a.tried.IsZero() && a.cfg.Now().Sub(a.tried) < again
	a.mu.RUnlock()
	if recent {
		return
	}
	// The caller may give up, but the answer is for everybody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	asked := a.cfg.Now()
	holders, bound, err := a.load(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tried, a.err = asked, err
	if err == nil {
		a.holders, a.bound, a.loaded = holders, bound, asked
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
	holders := make(map[[sha256.Size]byte]ares.Identity, len(tokens))
	for i := range tokens {
		if len(tokens[i].Hash) == sha256.Size {
			holders[[sha256.Size]byte(tokens[i].Hash)] = identityOf(&tokens[i])
		}
	}
	bound := map[string][]ares.Binding{}
	for _, b := range bindings {
		bound[b.Subject] = append(bound[b.Subject], b.Binding)
	}
	return holders, bound, nil
}
