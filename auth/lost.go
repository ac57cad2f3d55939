package auth

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// ringEvery is the minimum time between two notices to the open streams that rights were lost. Every stream checks its
// caller then, and a tenant can delete its own tokens and bindings as often as it likes.
const ringEvery = time.Second

// Revoked forgets a service token at once, after this server has deleted it. The token's open streams end. Other servers
// learn of it from the watch of the store.
func (a *Auth) Revoked(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lose([]ares.LostRight{{Token: token}})
}

// The method `lose` forgets deleted tokens and bindings, and lets open streams check their callers. The caller holds mu.
func (a *Auth) lose(lost []ares.LostRight) {
	if a.reading {
		a.lost = append(a.lost, lost...)
	}
	a.drop(lost)
	a.changed() // a token or binding with the same name may exist again
	now := a.cfg.Now()
	switch wait := a.rang.Add(ringEvery).Sub(now); {
	case a.ringing:
	case wait <= 0:
		a.ring(now)
	default:
		a.ringing = true
		time.AfterFunc(wait, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.ringing = false
			a.ring(a.cfg.Now())
		})
	}
}

// The method `ring` lets open streams check their callers. The caller holds mu.
func (a *Auth) ring(now time.Time) {
	a.rang = now
	close(a.ended)
	a.ended = make(chan struct{})
}

// The method `drop` removes tokens and bindings from the cache. The caller holds mu.
func (a *Auth) drop(lost []ares.LostRight) {
	names := map[string]bool{}
	for i := range lost {
		if l := &lost[i]; l.Token != "" {
			names[Subject(l.Token)] = true
		} else if list := a.bound[l.Subject]; len(list) > 0 {
			is := func(b ares.Binding) bool { return b == l.Binding }
			a.bound[l.Subject] = slices.DeleteFunc(slices.Clone(list), is) // identities may share the old list
		}
	}
	if len(names) == 0 {
		return
	}
	for hash, id := range a.holders { // order-free: each is independent
		if names[id.Name] {
			delete(a.holders, hash)
		}
	}
}
