package secrets

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/secret"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSecrets(t *testing.T, s *store.Store) *Secrets {
	t.Helper()
	return &Secrets{Store: s, Keys: secret.NewKeyFile(filepath.Join(t.TempDir(), "secrets.key")), Now: func() time.Time { return storetest.Noon }}
}

func (s *Secrets) put(t *testing.T, tenant, name string, data map[string][]byte) store.Secret {
	t.Helper()
	made, _, err := s.Put(t.Context(), tenant, name, data, "ann")
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// claimed places a job with references to secrets on a node and claims its seat.
func claimed(t *testing.T, s *store.Store, tenant ares.Tenant, refs ...ares.SecretRef) (store.SeatRef, int64) {
	t.Helper()
	spec := storetest.Sleep()
	spec.Secrets = refs
	ask := storetest.JobOf(tenant, spec)
	if c := s.Create(t.Context(), []store.Creation{ask})[0]; c.Err != nil {
		t.Fatal(c.Err)
	}
	lead, resign := storetest.NewLead(t, s)
	defer resign()
	n := storetest.NewNode(t, s)
	seats := storetest.Place(t, s, lead, ask.Job, n)
	storetest.Claim(t, s, seats, n)
	return seats[0], n.Session
}

func TestSecrets(t *testing.T) {
	s := newSecrets(t, storetest.Embedded(t))
	tenant := storetest.NewTenant(t, s.Store)
	first := s.put(t, tenant.ID, "hub", map[string][]byte{"value": []byte("canary-one")})
	s.put(t, tenant.ID, "registry", map[string][]byte{"user": []byte("bob"), "password": {0, 1, 2}})
	ref, session := claimed(t, s.Store, tenant, ares.SecretRef{Name: "hub", Env: "TOKEN"}, ares.SecretRef{Name: "registry", Key: "password", File: "pw"})
	deliver := func(want string) {
		t.Helper()
		got, err := s.Deliver(t.Context(), ref, session)
		if err != nil || len(got) != 2 || got[0].Env != "TOKEN" || string(got[0].Value) != want || got[1].File != "pw" || !bytes.Equal(got[1].Value, []byte{0, 1, 2}) {
			t.Errorf("delivered %+v, %v", got, err)
		}
	}
	deliver("canary-one")
	second := s.put(t, tenant.ID, "hub", map[string][]byte{"value": []byte("canary-two")})
	if first.Version != 1 || second.Version != 2 || !second.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("versions %+v, %+v", first, second)
	}
	deliver("canary-two")
	done, err := s.Rotate(t.Context(), "")
	if err != nil || done.Rewrapped != 2 || done.KeyID == first.KeyID {
		t.Errorf("rotated %+v, %v", done, err)
	}
	deliver("canary-two")
	if again, err := s.Rotate(t.Context(), done.KeyID); err != nil || again.Rewrapped != 0 {
		t.Errorf("rotated again %+v, %v", again, err)
	}
	// A node that has no claim gets nothing.
	other := ref
	other.Node = "other"
	if _, err = s.Deliver(t.Context(), other, session); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("another node: %v", err)
	}
	if _, err = s.Deliver(t.Context(), ref, session+1); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("another session: %v", err)
	}
	// Nothing that the store gives out has a value.
	kept, err := s.Store.Secret(t.Context(), tenant.ID, "hub")
	if err != nil || len(kept.Ciphertext) == 0 || strings.Contains(fmt.Sprintf("%q", kept.Ciphertext), "canary") {
		t.Errorf("the store has the value: %v", err)
	}
	if _, err = s.Store.DeleteSecret(t.Context(), tenant.ID, "hub"); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Deliver(t.Context(), ref, session); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "hub was deleted") {
		t.Errorf("after the deletion: %v", err)
	}
	s.put(t, tenant.ID, "hub", map[string][]byte{"other": []byte("x"), "more": []byte("y")})
	if _, err = s.Deliver(t.Context(), ref, session); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "several keys: more, other") {
		t.Errorf("with other keys: %v", err)
	}
}

// changing calls a function once, while the first data key is decrypted.
type changing struct {
	secret.KeyWrapper
	change func()
}

func (c *changing) Unwrap(ctx context.Context, keyID string, wrapped, about []byte) ([]byte, error) {
	if change := c.change; change != nil {
		c.change = nil
		change()
	}
	return c.KeyWrapper.Unwrap(ctx, keyID, wrapped, about)
}

// TestValuesAreOfOneVersion replaces a secret while it is delivered. The job must not get an empty value, nor values of two
// versions.
func TestValuesAreOfOneVersion(t *testing.T) {
	s := newSecrets(t, storetest.Embedded(t))
	tenant := storetest.NewTenant(t, s.Store)
	s.put(t, tenant.ID, "hub", map[string][]byte{"user": []byte("bob"), "password": []byte("old")})
	keys := &changing{KeyWrapper: s.Keys}
	s.Keys = keys
	ref, session := claimed(t, s.Store, tenant,
		ares.SecretRef{Name: "hub", Key: "user", Env: "NAME"}, ares.SecretRef{Name: "hub", Key: "password", Env: "PASSWORD"})
	keys.change = func() {
		s.put(t, tenant.ID, "hub", map[string][]byte{"user": []byte("eve"), "password": []byte("new"), "token": []byte("more")})
	}
	if got, err := s.Deliver(t.Context(), ref, session); err != nil || len(got) != 2 || string(got[0].Value) != "bob" || string(got[1].Value) != "old" {
		t.Errorf("delivered %+v, %v", got, err)
	}
	ref, session = claimed(t, s.Store, tenant,
		ares.SecretRef{Name: "hub", Key: "user", Env: "NAME"}, ares.SecretRef{Name: "hub", Key: "later", Env: "LATER"})
	keys.change = func() {
		s.put(t, tenant.ID, "hub", map[string][]byte{"user": []byte("eve"), "later": []byte("new")})
	}
	if got, err := s.Deliver(t.Context(), ref, session); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "has no key later") {
		t.Errorf("a key that the delivered version lacks: %+v, %v", got, err)
	}
}

// TestServersNeedTheSameKeys lets a second server with a key file of its own use the same store.
func TestServersNeedTheSameKeys(t *testing.T) {
	s := newSecrets(t, storetest.Embedded(t))
	tenant := storetest.NewTenant(t, s.Store)
	made := s.put(t, tenant.ID, "hub", map[string][]byte{"value": []byte("canary")})
	ref, session := claimed(t, s.Store, tenant, ares.SecretRef{Name: "hub", Env: "TOKEN"})
	other := newSecrets(t, s.Store)
	for what, try := range map[string]func() error{
		"deliver": func() error { _, err := other.Deliver(t.Context(), ref, session); return err },
		"create": func() error {
			_, _, err := other.Put(t.Context(), tenant.ID, "new", map[string][]byte{"value": []byte("x")}, "ann")
			return err
		},
		"rotate": func() error { _, err := other.Rotate(t.Context(), ""); return err },
	} {
		if err := try(); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), made.KeyID) || !strings.Contains(err.Error(), "copy the file") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A ciphertext that is moved to another name does not open.
	stolen, err := s.Store.PutSecret(t.Context(), tenant.ID, "thief", func(*store.TenantSecrets) (store.SecretPut, error) { return store.SecretPut{Secret: made}, nil })
	if err != nil {
		t.Fatal(err)
	}
	ref, session = claimed(t, s.Store, tenant, ares.SecretRef{Name: stolen.Name, Env: "TOKEN"})
	if got, err := s.Deliver(t.Context(), ref, session); err == nil {
		t.Errorf("a moved ciphertext opens: %+v", got)
	}
}

func TestCheck(t *testing.T) {
	s := newSecrets(t, storetest.Embedded(t))
	tenant, stranger := storetest.NewTenant(t, s.Store), storetest.NewTenant(t, s.Store)
	s.put(t, tenant.ID, "one", map[string][]byte{"value": []byte("x")})
	s.put(t, tenant.ID, "two", map[string][]byte{"a": []byte("x"), "b": []byte("y")})
	for _, c := range []struct {
		tenant, want string
		ref          ares.SecretRef
	}{
		{tenant.ID, "", ares.SecretRef{Name: "one", Env: "A"}},
		{tenant.ID, "", ares.SecretRef{Name: "one", Key: "value", Env: "A"}},
		{tenant.ID, "", ares.SecretRef{Name: "two", Key: "b", Env: "A"}},
		{tenant.ID, "secrets[0].key: is needed, because secret two has several keys: a, b", ares.SecretRef{Name: "two", Env: "A"}},
		{tenant.ID, "secrets[0].key: secret two has no key c, but: a, b", ares.SecretRef{Name: "two", Key: "c", Env: "A"}},
		{tenant.ID, `has no secret "none": list its secrets`, ares.SecretRef{Name: "none", Env: "A"}},
		{stranger.ID, `has no secret "one"`, ares.SecretRef{Name: "one", Env: "A"}},
	} {
		err := s.Check(t.Context(), c.tenant, []ares.SecretRef{c.ref})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.ref, err, c.want)
		}
	}
	big := bytes.Repeat([]byte("canary"), ares.MaxSecretBytes)
	for name, data := range map[string]map[string][]byte{
		"none": {}, "big": {"value": big}, "bad-key": {"a/b": []byte("canary")}, "empty": {"value": nil}, "a/b": {"value": []byte("canary")},
	} {
		if _, _, err := s.Put(t.Context(), tenant.ID, name, data, "ann"); ares.CodeOf(err) != ares.Invalid || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range ares.MaxTenantSecrets {
		if i >= 2 {
			s.put(t, tenant.ID, fmt.Sprintf("s%d", i), map[string][]byte{"value": []byte("x")})
		}
	}
	if _, _, err := s.Put(t.Context(), tenant.ID, "more", map[string][]byte{"value": []byte("x")}, "ann"); ares.CodeOf(err) != ares.LimitReached {
		t.Errorf("beyond the limit: %v", err)
	}
	s.put(t, tenant.ID, "one", map[string][]byte{"value": []byte("replaced")}) // a replacement needs no room
}
