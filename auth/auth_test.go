package auth

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// TestAuthCache checks how often the store is read, and how long the answer is cached.
func TestAuthCache(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var loads atomic.Int64
	var fail error
	tokens := []store.Token{{Name: "a", Hash: HashToken("ta"), Role: RoleAdmin}}
	a := New(Config{Now: func() time.Time { return now }, Tokens: func(context.Context) ([]store.Token, error) {
		loads.Add(1)
		return tokens, fail
	}})
	check := func(token string, want ares.Code, wantLoads int64) {
		t.Helper()
		who, err := a.Check(t.Context(), token)
		if ares.CodeOf(err) != want || loads.Load() != wantLoads {
			t.Errorf("check %s: %v after %d loads, want %q after %d", token, err, loads.Load(), want, wantLoads)
		}
		if err == nil && (who.Identity().Name == "" || len(who.Identity().Bindings) != 1) {
			t.Errorf("check %s found %+v", token, who.Identity())
		}
	}
	check("ta", "", 1)
	check("ta", "", 1)
	check("tb", ares.Unauthentic, 1) // the store was read just before
	now = now.Add(2 * time.Second)
	tokens = append(tokens, store.Token{Name: "b", Hash: HashToken("tb"), Role: RoleNode})
	check("tb", "", 2)
	check("tc", ares.Unauthentic, 2)
	now = now.Add(refreshAfter + time.Second)
	tokens = tokens[1:] // the token is revoked
	check("ta", ares.Unauthentic, 3)
	fail = errors.New("down")
	now = now.Add(refreshAfter + time.Second)
	check("tb", "", 4) // the store is down; its last answer is used for a while
	check("ta", ares.Unavailable, 4)
	now = now.Add(staleAfter)
	check("tb", ares.Unavailable, 5)
	check("", ares.Unauthentic, 5)
	token, hash := NewToken()
	if len(token) < 40 || string(hash) != string(HashToken(token)) {
		t.Errorf("NewToken made %s", token)
	}
}

// TestBindings checks that a token gets two kinds of bindings: those that are part of
// the token, and those in the store that name the token.
func TestBindings(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	tokens := []store.Token{
		{Name: "vision/ci", Hash: HashToken("ci"), Until: now.Add(time.Hour), Bindings: []ares.Binding{{Role: ares.Viewer, Tenant: "vision"}}},
		{Name: "old", Hash: HashToken("old"), Role: "viewer"}, // not one of the roles that servers give their own tokens
		{Name: "short", Hash: []byte("x"), Role: RoleAdmin},
	}
	bindings := []store.Binding{{Subject: "token:vision/ci", Binding: ares.Binding{Role: ares.Submitter, Tenant: "vision", Queue: "q"}}, {Subject: "vision/ci", Binding: ares.Binding{Role: ares.PlatformAdmin}}}
	a := New(Config{
		Now:      func() time.Time { return now },
		Tokens:   func(context.Context) ([]store.Token, error) { return tokens, nil },
		Bindings: func(context.Context) ([]store.Binding, error) { return bindings, nil },
	})
	who, err := a.Check(t.Context(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	if id := who.Identity(); id.Name != "token:vision/ci" || id.Tenant != "vision" || len(id.Bindings) != 2 || id.Bindings[1].Queue != "q" {
		t.Errorf("it is %+v", id)
	}
	if known, ok := a.CachedCaller("ci"); !ok || known.Identity().Name != "token:vision/ci" {
		t.Errorf("known as %v", known)
	}
	if none, checkErr := a.Check(t.Context(), "old"); checkErr != nil || len(none.Identity().Bindings) != 0 {
		t.Errorf("a role of nobody's gives %+v, %v", none.Identity(), checkErr)
	}
	bindings = nil
	a.Changed()
	if err = who.Refresh(t.Context()); err != nil || len(who.Identity().Bindings) != 1 {
		t.Errorf("unbound: %+v, %v", who.Identity().Bindings, err)
	}
	tokens = tokens[1:]
	now = now.Add(refreshAfter + time.Second) // another server revoked it
	if err = who.Refresh(t.Context()); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("revoked: %v", err)
	}
	tokens = []store.Token{{Name: "vision/ci", Hash: HashToken("ci"), Until: now.Add(time.Minute)}}
	a.Changed()
	if err = who.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	now = now.Add(time.Minute)
	if err = who.Refresh(t.Context()); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("expired: %v", err)
	}
}

func TestCheckSubject(t *testing.T) {
	for s, ok := range map[string]bool{
		"token:ci": true, "token:vision/ci": true, "oidc:auth0|7": true, "group:/ml/team a": true,
		"": false, "ci": false, "oidc:": false, "user:x": false, "oidc:a\x00b": false, "group:\xff": false, "node:n1": false,
	} {
		var p ares.Problems
		CheckSubject(&p, "subject", s)
		if (len(p) == 0) != ok {
			t.Errorf("%q: %v", s, p)
		}
	}
}
