package auth

import (
	"context"
	"errors"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// TestARevokedTokenEndsAtOnce checks that a deleted token and a deleted binding end when the deletion is seen, also while the
// store does not answer, and that open streams are told, but not for each deletion of a series.
func TestARevokedTokenEndsAtOnce(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var fail error
	in := ares.Binding{Role: ares.Viewer, Tenant: "red"}
	a := New(Config{
		Now: func() time.Time { return now },
		Tokens: func(context.Context) ([]store.Token, error) {
			return []store.Token{{Name: "red/ci", Hash: HashToken("red")}, {Name: "red/other", Hash: HashToken("other")}}, fail
		},
		Bindings: func(context.Context) ([]store.Binding, error) {
			return []store.Binding{{Subject: "token:red/other", Binding: in}, {Subject: "token:red/ci", Binding: in}}, nil
		},
	})
	for _, token := range []string{"red", "other"} {
		if who, err := a.Check(t.Context(), token); err != nil || len(who.Identity().Bindings) != 1 {
			t.Fatalf("%s: %v", token, err)
		}
	}
	fail = errors.New("down")
	told := a.Ended()
	a.Apply(ares.Batch{Revision: 7, Lost: []ares.LostRight{{Token: "red/ci"}, {Subject: "token:red/other", Binding: in}}})
	select {
	case <-told:
	default:
		t.Error("open streams are not told")
	}
	if _, err := a.Check(t.Context(), "red"); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("a revoked token while the store does not answer: %v", err)
	}
	if who, err := a.Check(t.Context(), "other"); err != nil || len(who.Identity().Bindings) != 0 {
		t.Errorf("a token whose binding was deleted: %v", err)
	}
	told = a.Ended()
	for range 100 {
		a.Revoked("red/more")
	}
	select {
	case <-told:
		t.Error("open streams are told of every deletion")
	default:
	}
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Error("open streams are not told of the last deletion")
	}
}

// TestAReadThatBeganBeforeAChange checks that a read of the store that began before a revocation or a change does not keep the
// old state in the cache.
func TestAReadThatBeganBeforeAChange(t *testing.T) {
	reads, now := 0, time.Unix(1_700_000_000, 0)
	var a *Auth
	tokens := []store.Token{{Name: "red/ci", Hash: HashToken("red")}, {Name: "red/stays", Hash: HashToken("stays")}}
	var bindings []store.Binding
	a = New(Config{
		Now:    func() time.Time { return now },
		Tokens: func(context.Context) ([]store.Token, error) { return tokens, nil },
		Bindings: func(context.Context) ([]store.Binding, error) {
			was := bindings
			if reads++; reads == 1 { // both happen while the first read is under way
				bindings = []store.Binding{{Subject: "token:red/stays", Binding: ares.Binding{Role: ares.Viewer, Tenant: "red"}}}
				a.Changed()
				tokens = tokens[1:]
				a.Revoked("red/ci")
			}
			return was, nil
		},
	})
	if _, err := a.Check(t.Context(), "red"); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("a token that was revoked during the first read: %v", err)
	}
	if who, err := a.Check(t.Context(), "stays"); err != nil || len(who.Identity().Bindings) != 1 {
		t.Errorf("a binding that was created during the first read is not seen after %d reads: %v", reads, err)
	}
}
