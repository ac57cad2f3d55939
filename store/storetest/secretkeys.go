package storetest

import (
	"slices"
	"testing"

	"github.com/ares-scheduler/ares/store"
)

// secretsApart checks that a change of a secret depends on the secrets of its own tenant only.
func secretsApart(t *testing.T, s *store.Store) {
	tenant, other := NewTenant(t, s), NewTenant(t, s)
	if _, err := putSecret(t, s, tenant.ID, "mine", 1); err != nil {
		t.Fatal(err)
	}
	tries := 0
	_, err := s.PutSecret(t.Context(), tenant.ID, "hub", func(is *store.TenantSecrets) (store.SecretPut, error) {
		tries++
		if len(is.Own) != 1 || is.Own[0].Name != "mine" || is.Was != nil || len(is.Own[0].Ciphertext) == 0 {
			t.Errorf("read %+v", is.Own)
		}
		// Another tenant's secret changes at the same time. Its key has a record already.
		_, err := s.PutSecret(t.Context(), other.ID, "theirs", func(*store.TenantSecrets) (store.SecretPut, error) {
			return store.SecretPut{Secret: store.Secret{Version: 1, KeyID: "k1"}}, nil
		})
		return store.SecretPut{Secret: store.Secret{Version: 1, KeyID: "k1"}}, err
	})
	if err != nil || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
	list, _, err := s.Secrets(t.Context(), tenant.ID)
	if err != nil || len(list) != 2 || list[1].Ciphertext != nil || list[1].WrappedKey != nil {
		t.Errorf("the list has %+v, %v", list, err)
	}
}

// secretKeys checks that no write of a secret overtakes the deletion of its key's record.
func secretKeys(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	if _, err := putSecret(t, s, tenant.ID, "hub", 1); err != nil {
		t.Fatal(err)
	}
	has := func(id string) bool {
		keys, err := s.SecretKeys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(keys, func(k store.SecretKey) bool { return k.ID == id })
	}
	tries := 0
	put, err := s.PutSecret(t.Context(), tenant.ID, "second", func(is *store.TenantSecrets) (store.SecretPut, error) {
		if tries++; tries == 1 {
			_, revision, err := s.Secrets(t.Context(), "")
			if err == nil {
				err = s.DropSecretKeys(t.Context(), []string{"k1"}, revision) // a rotation ends
			}
			return store.SecretPut{Secret: store.Secret{Version: 1, KeyID: "k1"}}, err
		}
		if slices.ContainsFunc(is.Keys, func(k store.SecretKey) bool { return k.ID == "k1" }) {
			t.Error("the record is still there")
		}
		return store.SecretPut{Secret: store.Secret{Version: 1, KeyID: "k1"}, Keys: []store.SecretKey{{ID: "k1"}}}, nil
	})
	if err != nil || tries != 2 || !has("k1") {
		t.Errorf("%d tries, %v", tries, err)
	}
	_, revision, err := s.Secrets(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	put.KeyID = "k2"
	if ok, err := s.ReplaceSecret(t.Context(), put); ok || err != nil {
		t.Errorf("a key without a record is used: %v, %v", ok, err)
	}
	if err = s.AddSecretKey(t.Context(), store.SecretKey{ID: "k2"}); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.ReplaceSecret(t.Context(), put); !ok || err != nil {
		t.Errorf("rewrapped: %v, %v", ok, err)
	}
	if err = s.DropSecretKeys(t.Context(), []string{"k2"}, revision); err != nil || !has("k2") {
		t.Errorf("the record of a key was deleted after a secret had changed: %v", err)
	}
	_, err = s.PutSecret(t.Context(), tenant.ID, "third", func(is *store.TenantSecrets) (store.SecretPut, error) {
		used, err := is.KeysInUse(t.Context())
		if !slices.Contains(used, "k1") || !slices.Contains(used, "k2") {
			t.Errorf("in use are %v", used)
		}
		return store.SecretPut{Secret: store.Secret{Version: 1, KeyID: "k1"}, Drop: []string{"k3"}}, err
	})
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"hub", "second", "third"} { // for the tests that follow
		if _, err = s.DeleteSecret(t.Context(), tenant.ID, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, revision, err = s.Secrets(t.Context(), ""); err == nil {
		err = s.DropSecretKeys(t.Context(), []string{"k2"}, revision)
	}
	if err != nil || has("k2") {
		t.Errorf("the record of an unused key stays: %v", err)
	}
}
