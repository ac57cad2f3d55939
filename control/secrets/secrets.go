// Package secrets manages secrets: it encrypts their values before they reach the store, decrypts them for the agents that
// run a job, and encrypts all of them anew when the key is rotated. No function returns a value except Deliver.
package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/secret"
	"github.com/ares-scheduler/ares/store"
)

// Secrets manages the secrets of all tenants.
type Secrets struct {
	Store *store.Store
	Keys  secret.KeyWrapper
	Now   func() time.Time
}

// Value is one value of a secret, as a job's spec requests it. Either Env or File is set.
type Value struct {
	Env, File string
	Value     []byte
}

// Rotation is the result of Rotate.
type Rotation struct {
	KeyID     string
	Rewrapped int
}

// Put creates a secret or replaces its values with a new version. It returns the stored secret and whether it is new.
func (s *Secrets) Put(ctx context.Context, tenant, name string, data map[string][]byte, by string) (made store.Secret, isNew bool, err error) {
	if err = check(name, data); err != nil {
		return made, false, err
	}
	plain, err := json.Marshal(data)
	if err != nil {
		return made, false, err
	}
	defer clear(plain)
	made, err = s.Store.PutSecret(ctx, tenant, name, func(was *store.Secret, all []store.Secret) (store.Secret, error) {
		now := s.Now()
		next := store.Secret{Version: 1, Keys: slices.Sorted(maps.Keys(data)), CreatedAt: now, UpdatedAt: now, By: by}
		isNew = was == nil
		if was != nil {
			next.Version, next.CreatedAt = was.Version+1, was.CreatedAt
		} else if full := checkRoom(tenant, all); full != nil {
			return next, full
		}
		// A server without the keys of the others must not encrypt with a key of its own: the others could not deliver
		// the secret.
		for _, id := range keyIDs(all) {
			if err := s.Keys.Holds(ctx, id); err != nil {
				return next, err
			}
		}
		sealed, err := secret.Seal(ctx, s.Keys, secret.Identity{Tenant: tenant, Name: name, Version: next.Version}, plain)
		next.KeyID, next.WrappedKey, next.Ciphertext = sealed.KeyID, sealed.WrappedKey, sealed.Ciphertext
		return next, err
	})
	return made, isNew, err
}

// The function `check` finds mistakes in a new secret. Its errors never repeat a value.
func check(name string, data map[string][]byte) error {
	var p ares.Problems
	if !ares.ValidName(name) {
		p.Add("name", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", ares.Clip(name))
	}
	if len(data) == 0 || len(data) > ares.MaxSecretKeys {
		p.Add("data", "must have 1 to %d values, got %d", ares.MaxSecretKeys, len(data))
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !ares.ValidName(key) {
			p.Add("data", "%q is not the name of a value: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", ares.Clip(key))
		}
		if len(data[key]) == 0 {
			p.Add("data", "the value %s is empty", ares.Clip(key))
		}
		size += len(data[key])
	}
	if size > ares.MaxSecretBytes {
		p.Add("data", "the values must have at most %d bytes together, got %d", ares.MaxSecretBytes, size)
	}
	return p.Err()
}

func checkRoom(tenant string, all []store.Secret) error {
	if len(all) >= ares.MaxSecrets {
		return ares.Errorf(ares.LimitReached, "there are %d secrets, which is the limit: delete some", len(all))
	}
	own := 0
	for i := range all {
		if all[i].Tenant == tenant {
			own++
		}
	}
	if own >= ares.MaxTenantSecrets {
		return ares.Errorf(ares.LimitReached, "tenant %s has %d secrets, which is the limit: delete some", tenant, own)
	}
	return nil
}

func keyIDs(all []store.Secret) []string {
	ids := map[string]bool{}
	for i := range all {
		ids[all[i].KeyID] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// Check reports which references of a job to secrets of its tenant cannot be resolved now.
func (s *Secrets) Check(ctx context.Context, tenant string, refs []ares.SecretRef) error {
	var p ares.Problems
	known := map[string]store.Secret{}
	for i := range refs {
		r, at := &refs[i], fmt.Sprintf("secrets[%d].", i)
		x, ok := known[r.Name]
		if !ok {
			var err error
			if x, err = s.Store.Secret(ctx, tenant, r.Name); ares.CodeOf(err) == ares.NotFound {
				p.Add(at+"name", "tenant %s has no secret %q: list its secrets with `ares secret list`, or create it with `ares secret create %s`", tenant, r.Name, r.Name)
				continue
			} else if err != nil {
				return err
			}
			known[r.Name] = x
		}
		if _, err := keyOf(&x, r.Key); err != nil {
			p.Add(at+"key", "%s", err)
		}
	}
	return p.Err()
}

// keyOf returns the key that a reference means: the given key, or the only one.
func keyOf(x *store.Secret, key string) (string, error) {
	switch {
	case key == "" && len(x.Keys) == 1:
		return x.Keys[0], nil
	case key == "":
		return "", errors.New("is needed, because secret " + x.Name + " has several keys: " + strings.Join(x.Keys, ", "))
	case !slices.Contains(x.Keys, key):
		return "", errors.New("secret " + x.Name + " has no key " + key + ", but: " + strings.Join(x.Keys, ", "))
	}
	return key, nil
}

// Deliver decrypts the values that a job requests, for a node that has claimed one of its seats under its current session.
// Any other caller gets the code Fenced.
func (s *Secrets) Deliver(ctx context.Context, ref store.SeatRef, session int64) ([]Value, error) {
	job, err := s.Store.ClaimedJob(ctx, ref, session)
	if err != nil {
		return nil, err
	}
	opened := map[string]map[string][]byte{}
	var out []Value
	for _, r := range job.Secrets {
		x, err := s.Store.Secret(ctx, job.Tenant, r.Name)
		if ares.CodeOf(err) == ares.NotFound {
			return nil, ares.Errorf(ares.NotFound, "secret %s was deleted after the job was submitted: create it again and retry the job", r.Name)
		}
		if err != nil {
			return nil, err
		}
		key, err := keyOf(&x, r.Key)
		if err != nil {
			return nil, ares.Errorf(ares.NotFound, "secret %s was changed after the job was submitted: key %s", r.Name, err)
		}
		if opened[r.Name] == nil {
			if opened[r.Name], err = s.open(ctx, &x); err != nil {
				return nil, err
			}
		}
		out = append(out, Value{Env: r.Env, File: r.File, Value: opened[r.Name][key]})
	}
	return out, nil
}

func (s *Secrets) open(ctx context.Context, x *store.Secret) (map[string][]byte, error) {
	plain, err := secret.Open(ctx, s.Keys, identityOf(x), sealedOf(x))
	if err != nil {
		code := ares.CodeOf(err)
		return nil, ares.Errorf(code, "secret %s of tenant %s cannot be decrypted: %s", x.Name, x.Tenant, err)
	}
	defer clear(plain)
	var data map[string][]byte
	if json.Unmarshal(plain, &data) != nil { // the error could repeat the value
		return nil, ares.Errorf(ares.Internal, "secret %s of tenant %s has an unknown form", x.Name, x.Tenant)
	}
	return data, nil
}

// Rotate makes a key current, or a new key if the ID is "". It then wraps the data keys of all secrets with the current
// key. A secret that changes meanwhile is already wrapped with the current key. Rotate can be repeated after an error.
func (s *Secrets) Rotate(ctx context.Context, keyID string) (Rotation, error) {
	all, err := s.Store.Secrets(ctx, "")
	if err != nil {
		return Rotation{}, err
	}
	for _, id := range keyIDs(all) { // before the key file changes
		if err = s.Keys.Holds(ctx, id); err != nil {
			return Rotation{}, err
		}
	}
	var done Rotation
	if done.KeyID, err = s.Keys.Rotate(ctx, keyID); err != nil {
		return done, err
	}
	const passes = 5 // each pass finds the secrets that changed during the one before
	for range passes {
		if all, err = s.Store.Secrets(ctx, ""); err != nil {
			return done, err
		}
		left := 0
		for i := range all {
			if all[i].KeyID == done.KeyID {
				continue
			}
			left++
			ok, err := s.rewrap(ctx, &all[i])
			if err != nil {
				return done, err
			}
			if ok {
				done.Rewrapped++
			}
		}
		if left == 0 {
			return done, nil
		}
	}
	return done, ares.Errorf(ares.Exhausted, "the secrets keep changing: run `ares secret rotate-key --key %s` again", done.KeyID)
}

func (s *Secrets) rewrap(ctx context.Context, x *store.Secret) (bool, error) {
	sealed, err := secret.Rewrap(ctx, s.Keys, identityOf(x), sealedOf(x))
	if err != nil {
		return false, ares.Errorf(ares.CodeOf(err), "secret %s of tenant %s cannot be encrypted with the new key: %s", x.Name, x.Tenant, err)
	}
	next := *x
	next.KeyID, next.WrappedKey = sealed.KeyID, sealed.WrappedKey
	return s.Store.ReplaceSecret(ctx, next)
}

func identityOf(x *store.Secret) secret.Identity {
	return secret.Identity{Tenant: x.Tenant, Name: x.Name, Version: x.Version}
}

func sealedOf(x *store.Secret) secret.Sealed {
	return secret.Sealed{KeyID: x.KeyID, WrappedKey: x.WrappedKey, Ciphertext: x.Ciphertext}
}
