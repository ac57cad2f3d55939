package auth

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// TestADeletedTenantEndsAtOnce checks that the tokens of a deleted tenant and the bindings in it end when the deletion is
// seen, also while the store does not answer. The tokens of a tenant that does not exist are never accepted.
func TestADeletedTenantEndsAtOnce(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	tenants, fail := []string{"red", "blue"}, error(nil)
	in := func(tenant string) ares.Binding { return ares.Binding{Role: ares.Viewer, Tenant: tenant} }
	a := New(Config{
		Now: func() time.Time { return now },
		Tokens: func(context.Context) ([]store.Token, error) {
			return []store.Token{
				{Name: "red/ci", Hash: HashToken("red"), Bindings: []ares.Binding{in("red")}},
				{Name: "blue/ci", Hash: HashToken("blue"), Bindings: []ares.Binding{in("blue"), in("red")}},
				{Name: "ghost/ci", Hash: HashToken("ghost"), Bindings: []ares.Binding{in("blue")}},
			}, fail
		},
		Bindings: func(context.Context) ([]store.Binding, error) {
			return []store.Binding{{Subject: "token:blue/ci", Binding: ares.Binding{Role: ares.Submitter, Tenant: "red"}},
				{Subject: "token:blue/ci", Binding: ares.Binding{Role: ares.Auditor, Tenant: "blue"}, Pending: true}}, nil
		},
		Tenants: func(context.Context) ([]string, error) { return tenants, nil },
	})
	check := func(token string, want ares.Code, bindings int) {
		t.Helper()
		who, err := a.Check(t.Context(), token)
		if ares.CodeOf(err) != want || err == nil && len(who.Identity().Bindings) != bindings {
			t.Errorf("%s: %v, %+v, want %q and %d bindings", token, err, who, want, bindings)
		}
	}
	check("red", "", 1)
	check("blue", "", 3)
	check("ghost", ares.Unauthentic, 0)
	ended := a.Ended()
	fail = errors.New("down")
	a.Apply(ares.Batch{Revision: 5, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "green"}}}})
	check("red", "", 1)
	a.Apply(ares.Batch{Revision: 6, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindTenant, ID: "red"}}}})
	select {
	case <-ended:
	default:
		t.Error("open streams are not told")
	}
	check("red", ares.Unavailable, 0) // the store does not answer, so nothing more is known
	check("blue", "", 1)
	fail, tenants = nil, slices.Delete(tenants, 0, 1)
	now = now.Add(2 * reloadAtMost)
	check("red", ares.Unauthentic, 0)
	check("blue", "", 1)
	a.Apply(ares.Batch{Reset: true, Revision: 9})
	if who, ok := a.CachedCaller("blue"); ok {
		t.Errorf("a snapshot without tenants leaves %+v", who.Identity())
	}
	check("blue", "", 1)
}

// TestAReadThatBeganBeforeADeletion checks that a read of the store that began before a deletion does not bring back what the
// deletion ended.
func TestAReadThatBeganBeforeADeletion(t *testing.T) {
	reads, tenants := 0, []string{"red"}
	var a *Auth
	a = New(Config{
		Tokens: func(context.Context) ([]store.Token, error) {
			return []store.Token{{Name: "red/ci", Hash: HashToken("red")}}, nil
		},
		Tenants: func(context.Context) ([]string, error) {
			was := tenants
			if reads++; reads == 1 {
				tenants = nil
				a.Apply(ares.Batch{Revision: 6, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindTenant, ID: "red"}}}})
			}
			return was, nil
		},
	})
	if _, err := a.Check(t.Context(), "red"); ares.CodeOf(err) != ares.Unauthentic || reads != 2 {
		t.Errorf("%v after %d reads", err, reads)
	}
}

// TestTenantOf checks which tenant a subject's token belongs to.
func TestTenantOf(t *testing.T) {
	for subject, want := range map[string]string{"token:red/ci": "red", "token:ci": "", "token:a/b/c": "a"} {
		if got, isToken := TenantOf(subject); got != want || !isToken {
			t.Errorf("%s: %q %v", subject, got, isToken)
		}
	}
	for _, subject := range []string{"oidc:token:red/ci", "group:red/x", ""} {
		if got, isToken := TenantOf(subject); got != "" || isToken {
			t.Errorf("%s: %q %v", subject, got, isToken)
		}
	}
}
