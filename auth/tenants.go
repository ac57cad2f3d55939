package auth

import (
	"context"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// The method `tenants` returns a function that reports whether a tenant exists. The platform, which has the empty name,
// always exists.
func (a *Auth) tenants(ctx context.Context) (exists func(tenant string) bool, err error) {
	if a.cfg.Tenants == nil {
		return func(string) bool { return true }, nil
	}
	names, err := a.cfg.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool, len(names))
	for _, n := range names {
		all[n] = true
	}
	return func(tenant string) bool { return tenant == "" || all[tenant] }, nil
}

// Apply follows the changes of the store and forgets deleted tokens and bindings, and those of deleted tenants, at once.
// The cache would otherwise accept them until its next read, and for several minutes while the store does not answer.
func (a *Auth) Apply(b ares.Batch) {
	if len(b.Lost) > 0 {
		a.mu.Lock()
		a.lose(b.Lost)
		a.mu.Unlock()
	}
	gone, there := map[string]bool{}, map[string]bool{}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Tenant != nil:
			there[e.Tenant.ID] = true
			delete(gone, e.Tenant.ID)
		case e.Gone.Kind == ares.KindTenant:
			gone[e.Gone.ID] = true
		}
	}
	switch {
	case b.Reset:
		a.forget(func(tenant string) bool { return !there[tenant] })
	case len(gone) > 0:
		a.forget(func(tenant string) bool { return gone[tenant] })
	}
}

// Ended returns a channel that is closed when tenants are forgotten or rights are lost. Open streams then check their callers again.
func (a *Auth) Ended() <-chan struct{} {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.ended
}

// The method `forget` removes the tokens of some tenants and the bindings in them from the cache. The next call with such
// a token reads the store.
func (a *Auth) forget(is func(tenant string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ends := func(b ares.Binding) bool { return b.Tenant != "" && is(b.Tenant) }
	holders := maps.Clone(a.holders)
	for hash, id := range holders { // order-free: each is independent
		if id.Tenant != "" && is(id.Tenant) {
			delete(holders, hash)
		} else if slices.ContainsFunc(id.Bindings, ends) {
			id.Bindings = slices.DeleteFunc(slices.Clone(id.Bindings), ends)
			holders[hash] = id
		}
	}
	bound := make(map[string][]ares.Binding, len(a.bound))
	for subject, list := range a.bound { // order-free: each is independent
		if left := slices.DeleteFunc(slices.Clone(list), ends); len(left) > 0 {
			bound[subject] = left
		}
	}
	a.holders, a.bound = holders, bound
	a.forgot++
	close(a.ended)
	a.ended = make(chan struct{})
	a.changed()
}
