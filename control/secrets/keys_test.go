package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/secret"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func one(text string) map[string][]byte { return map[string][]byte{"value": []byte(text)} }

// withFile returns a server with the given content of its key file.
func withFile(t *testing.T, s *store.Store, text string) *Secrets {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets.key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := newSecrets(t, s)
	out.Keys = secret.NewKeyFile(path)
	return out
}

// TestAnotherKeyWithTheSameID gives a second server another key under the ID that the first one uses. The second server
// must notice this before it encrypts anything, because nobody else could decrypt it.
func TestAnotherKeyWithTheSameID(t *testing.T) {
	st := storetest.Embedded(t)
	tenant := storetest.NewTenant(t, st)
	first := withFile(t, st, "2027 "+strings.Repeat("A", 43)+"=\n")
	second := withFile(t, st, "2027 "+strings.Repeat("B", 42)+"A=\n")
	if err := first.CheckKeys(t.Context()); err != nil {
		t.Errorf("without secrets: %v", err)
	}
	first.put(t, tenant.ID, "hub", one("canary"))
	if err := first.CheckKeys(t.Context()); err != nil {
		t.Errorf("with its own key: %v", err)
	}
	_, _, put := second.Put(t.Context(), tenant.ID, "new", one("x"), "ann")
	_, rotate := second.Rotate(t.Context(), "")
	for what, err := range map[string]error{"check": second.CheckKeys(t.Context()), "create": put, "rotate": rotate} {
		if ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "is not the key with the same ID") || !strings.Contains(err.Error(), "copy secrets.key_file") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestALostKey loses the key file. The stored secrets are lost too. After they are deleted, new secrets can be created.
func TestALostKey(t *testing.T) {
	st := storetest.Embedded(t)
	tenant, other := storetest.NewTenant(t, st), storetest.NewTenant(t, st)
	newSecrets(t, st).put(t, other.ID, "old", one("x"))
	s := newSecrets(t, st)
	if err := s.CheckKeys(t.Context()); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "copy the file") {
		t.Errorf("at the start: %v", err)
	}
	if _, _, err := s.Put(t.Context(), tenant.ID, "new", one("x"), "ann"); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("while another tenant's secret needs the lost key: %v", err)
	}
	if _, err := st.DeleteSecret(t.Context(), other.ID, "old"); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckKeys(t.Context()); err != nil {
		t.Errorf("at a start when no secret uses the lost key: %v", err)
	}
	s.put(t, tenant.ID, "new", one("x"))
	if err := s.CheckKeys(t.Context()); err != nil {
		t.Errorf("at the next start: %v", err)
	}
}

// TestSecretsOfAnEarlierVersion stores a secret without the record of its key, as the first version did.
func TestSecretsOfAnEarlierVersion(t *testing.T) {
	st := storetest.Embedded(t)
	tenant := storetest.NewTenant(t, st)
	s := newSecrets(t, st)
	sealed, err := secret.Seal(t.Context(), s.Keys, secret.Identity{Tenant: tenant.ID, Name: "old", Version: 1}, []byte(`{"value":"eA=="}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.PutSecret(t.Context(), tenant.ID, "old", func(*store.TenantSecrets) (store.SecretPut, error) {
		return store.SecretPut{Secret: store.Secret{Version: 1, Keys: []string{"value"}, KeyID: sealed.KeyID, WrappedKey: sealed.WrappedKey, Ciphertext: sealed.Ciphertext}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = newSecrets(t, st).Put(t.Context(), tenant.ID, "new", one("x"), "ann"); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("a server without the key: %v", err)
	}
	done, err := s.Rotate(t.Context(), "")
	if err != nil || done.Rewrapped != 1 {
		t.Errorf("rotated %+v, %v", done, err)
	}
	keys, err := st.SecretKeys(t.Context())
	if err != nil || len(keys) != 1 || keys[0].ID != done.KeyID || keys[0].Sample == nil {
		t.Errorf("the records are %+v, %v", keys, err)
	}
}

// TestOneTenantsSecretsDoNotFillTheOthers lets tenants use all their secrets. Another tenant can still create secrets.
func TestOneTenantsSecretsDoNotFillTheOthers(t *testing.T) {
	s := newSecrets(t, storetest.Embedded(t))
	greedy, other := storetest.NewTenant(t, s.Store), storetest.NewTenant(t, s.Store)
	big := map[string][]byte{"value": bytes.Repeat([]byte("x"), ares.MaxSecretBytes)}
	made := 0
	for ; made < ares.MaxTenantSecrets; made++ {
		_, _, err := s.Put(t.Context(), greedy.ID, fmt.Sprintf("s%d", made), big, "ann")
		if ares.CodeOf(err) == ares.LimitReached && strings.Contains(err.Error(), "bytes together") {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if made < 40 || made > 60 {
		t.Errorf("the tenant could create %d secrets of the largest size", made)
	}
	s.put(t, greedy.ID, "s0", big) // no larger than before
	s.put(t, greedy.ID, "s0", one("x"))
	s.put(t, other.ID, "mine", big)
}

// The type `failing` is a key wrapper that fails after some calls of Wrap, as a rotation that is interrupted.
type failing struct {
	secret.KeyWrapper

	left int
}

func (f *failing) Wrap(ctx context.Context, dataKey, about []byte) (string, []byte, error) {
	if f.left--; f.left < 0 {
		return "", nil, errors.New("the service is down")
	}
	return f.KeyWrapper.Wrap(ctx, dataKey, about)
}

// TestAnInterruptedRotation checks that every secret can be read after a rotation has failed in the middle, and that the
// error says how to continue with the same key.
func TestAnInterruptedRotation(t *testing.T) {
	s := newSecrets(t, storetest.Embedded(t))
	tenant := storetest.NewTenant(t, s.Store)
	for i := range 4 {
		s.put(t, tenant.ID, fmt.Sprintf("s%d", i), one("x"))
	}
	file := s.Keys
	s.Keys = &failing{KeyWrapper: file, left: 3} // a sample and two secrets
	done, err := s.Rotate(t.Context(), "")
	if err == nil || done.Rewrapped != 2 || !strings.Contains(err.Error(), "rotate-key --key "+done.KeyID) {
		t.Fatalf("rotated %+v, %v", done, err)
	}
	s.Keys = file
	if err = s.CheckKeys(t.Context()); err != nil {
		t.Error(err)
	}
	for i := range 4 {
		x, err := s.Store.Secret(t.Context(), tenant.ID, fmt.Sprintf("s%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.open(t.Context(), &x); err != nil {
			t.Error(err)
		}
	}
	again, err := s.Rotate(t.Context(), done.KeyID)
	if err != nil || again.Rewrapped != 2 || again.KeyID != done.KeyID {
		t.Errorf("continued %+v, %v", again, err)
	}
	if keys, err := s.Store.SecretKeys(t.Context()); err != nil || len(keys) != 1 {
		t.Errorf("the records are %+v, %v", keys, err)
	}
}
