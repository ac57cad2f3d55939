package secrets

import (
	"context"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/secret"
	"github.com/ares-scheduler/ares/store"
)

func (s *Secrets) checkKey(ctx context.Context, k *store.SecretKey) error {
	if k.Sample == nil {
		return s.Keys.Holds(ctx, k.ID)
	}
	return secret.CheckSample(ctx, s.Keys, k.ID, k.Sample)
}

// The method `checkKeys` requires that this server holds every key that encrypts a secret. A server without the keys of the
// others must not encrypt with a key of its own: the others could not deliver the secret. The result has the changes of the
// records of keys. If a key is missing, all secrets are read, because the record of a key remains when its last secret is
// deleted. All secrets are read too if no key has a record. Then there are no secrets, or an earlier version wrote them.
func (s *Secrets) checkKeys(ctx context.Context, is *store.TenantSecrets) (put store.SecretPut, err error) {
	failed := map[string]error{}
	for i := range is.Keys {
		if err := s.checkKey(ctx, &is.Keys[i]); err != nil {
			failed[is.Keys[i].ID] = err
		}
	}
	if len(is.Keys) > 0 && len(failed) == 0 {
		return put, nil
	}
	used, err := is.KeysInUse(ctx)
	if err != nil {
		return put, err
	}
	for _, id := range used {
		if failed[id] != nil {
			return put, failed[id]
		}
		if hasRecord(is.Keys, id) {
			continue
		}
		if err = s.Keys.Holds(ctx, id); err != nil {
			return put, err
		}
		put.Keys = append(put.Keys, store.SecretKey{ID: id})
	}
	put.Drop = slices.Sorted(maps.Keys(failed)) // none is in use
	return put, nil
}

func hasRecord(keys []store.SecretKey, id string) bool {
	return slices.ContainsFunc(keys, func(k store.SecretKey) bool { return k.ID == id })
}

// recordKey adds the record of the key that encrypts the new version, if it has none.
func (s *Secrets) recordKey(ctx context.Context, is *store.TenantSecrets, put *store.SecretPut) error {
	id := put.Secret.KeyID
	if hasRecord(is.Keys, id) && !slices.Contains(put.Drop, id) {
		return nil
	}
	record, err := s.newRecord(ctx, id)
	put.Keys = append(slices.DeleteFunc(put.Keys, func(k store.SecretKey) bool { return k.ID == id }), record)
	put.Drop = slices.DeleteFunc(put.Drop, func(drop string) bool { return drop == id })
	return err
}

// newRecord returns the record of a key. If another key has become current just now, the record has no sample.
func (s *Secrets) newRecord(ctx context.Context, id string) (store.SecretKey, error) {
	current, sample, err := secret.NewSample(ctx, s.Keys)
	if current != id {
		sample = nil
	}
	return store.SecretKey{ID: id, Sample: sample}, err
}

// Rotate makes a key current, or a new key if the ID is "". It then wraps the data keys of all secrets with the current
// key. A secret that changes meanwhile is already wrapped with the current key. Rotate can be repeated after an error.
func (s *Secrets) Rotate(ctx context.Context, keyID string) (Rotation, error) {
	var done Rotation
	if err := s.CheckKeys(ctx); err != nil { // before the key file changes
		return done, err
	}
	var err error
	if done.KeyID, err = s.Keys.Rotate(ctx, keyID); err != nil {
		return done, err
	}
	if err = s.rewrapAll(ctx, &done); err != nil {
		// Without the ID, a repetition would create one more key.
		return done, ares.Errorf(ares.CodeOf(err), "key %s is current now, but only %d secrets were encrypted with it: run `ares secret rotate-key --key %s` to continue. The error was: %s",
			done.KeyID, done.Rewrapped, done.KeyID, err)
	}
	return done, nil
}

// CheckKeys reports a key of stored secrets that this server lacks, or that is another key on this server. The record of a key
// that no secret uses any more does not count.
func (s *Secrets) CheckKeys(ctx context.Context) error {
	keys, err := s.Store.SecretKeys(ctx)
	if err != nil {
		return err
	}
	all, _, err := s.Store.Secrets(ctx, "")
	if err != nil {
		return err
	}
	for _, id := range store.KeysOf(all) {
		k := store.SecretKey{ID: id}
		if i := slices.IndexFunc(keys, func(k store.SecretKey) bool { return k.ID == id }); i >= 0 {
			k = keys[i]
		}
		if err = s.checkKey(ctx, &k); err != nil {
			return err
		}
	}
	return nil
}

// rewrapAll wraps all data keys with the current key, and then deletes the records of the keys that are no longer used.
func (s *Secrets) rewrapAll(ctx context.Context, done *Rotation) error {
	const passes = 5 // each pass finds the secrets that changed during the one before
	for range passes {
		record, err := s.newRecord(ctx, done.KeyID)
		if err != nil {
			return err
		}
		if err = s.Store.AddSecretKey(ctx, record); err != nil {
			return err
		}
		all, revision, err := s.Store.Secrets(ctx, "")
		if err != nil {
			return err
		}
		left := 0
		for i := range all {
			if all[i].KeyID == done.KeyID {
				continue
			}
			left++
			ok, err := s.rewrap(ctx, all[i].Tenant, all[i].Name)
			if err != nil {
				return err
			}
			if ok {
				done.Rewrapped++
			}
		}
		if left == 0 {
			return s.dropUnused(ctx, done.KeyID, store.KeysOf(all), revision)
		}
	}
	return ares.Errorf(ares.Exhausted, "other calls keep changing the secrets: try again later")
}

func (s *Secrets) dropUnused(ctx context.Context, current string, used []string, revision int64) error {
	keys, err := s.Store.SecretKeys(ctx)
	if err != nil {
		return err
	}
	var unused []string
	for i := range keys {
		if keys[i].ID != current && !slices.Contains(used, keys[i].ID) {
			unused = append(unused, keys[i].ID)
		}
	}
	return s.Store.DropSecretKeys(ctx, unused, revision)
}

func (s *Secrets) rewrap(ctx context.Context, tenant, name string) (bool, error) {
	x, err := s.Store.Secret(ctx, tenant, name)
	if ares.CodeOf(err) == ares.NotFound {
		return false, nil // deleted meanwhile
	}
	if err != nil {
		return false, err
	}
	sealed, err := secret.Rewrap(ctx, s.Keys, identityOf(&x), sealedOf(&x))
	if err != nil {
		return false, ares.Errorf(ares.CodeOf(err), "secret %s of tenant %s cannot be encrypted with the new key: %s", name, tenant, err)
	}
	next := x
	next.KeyID, next.WrappedKey = sealed.KeyID, sealed.WrappedKey
	return s.Store.ReplaceSecret(ctx, next)
}
