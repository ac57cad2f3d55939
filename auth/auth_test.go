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

// TestAuthCache: how often the store is asked, and how long its word counts.
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
	check("tb", ares.Unauthentic, 1) // the store was just asked
	now = now.Add(2 * time.Second)
	tokens = append(tokens, store.Token{Name: "b", Hash: HashToken("tb"), Role: RoleNode})
	check("tb", "", 2)
	check("tc", ares.Unauthentic, 2)
	now = now.Add(refreshAfter + time.Second)
	tokens = tokens[1:] // taken away
	check("ta", ares.Unauthentic, 3)
	fail = errors.New("down")
	now = now.Add(refreshAfter + time.Second)
	check("tb", "", 4) // the store is down, its last word counts for a while
	check("ta", ares.Unavailable, 4)
	now = now.Add(staleAfter)
	check("tb", ares.Unavailable, 5)
	check("", ares.Unauthentic, 5)
	token, hash := NewToken()
	if len(token) < 40 || string(hash) != string(HashToken(token)) {
		t.Errorf("NewToken made %s", token)
	}
}
