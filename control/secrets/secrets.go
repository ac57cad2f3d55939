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
	"sync"
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

	mu        sync.Mutex
	delivered map[store.SeatRef]int // how often this server has delivered the secrets of a seat
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

// Put creates a secret or replaces its values with a new version. It returns the stored secret and the one
// that it replaces, or nil.
func (s *Secrets) Put(ctx context.Context, tenant, name string, data map[string][]byte, by string) (made store.Secret, was *store.Secret, err error) {
	if err = check(name, data); err != nil {
		return made, nil, err
	}
	plain, err := json.Marshal(data)
	if err != nil {
		return made, nil, err
	}
	defer clear(plain)
	made, err = s.Store.PutSecret(ctx, tenant, name, func(is *store.TenantSecrets) (store.SecretPut, error) {
		now := s.Now().UTC().Truncate(time.Microsecond) // as stored, so that the returned secret has the digest of the stored one
		next := store.Secret{Version: 1, Keys: slices.Sorted(maps.Keys(data)), CreatedAt: now, UpdatedAt: now, By: by}
		if was = is.Was; was != nil {
			next.Version, next.CreatedAt = was.Version+1, was.CreatedAt
		}
		put, err := s.checkKeys(ctx, is)
		if err != nil {
			return put, err
		}
		sealed, err := secret.Seal(ctx, s.Keys, secret.Identity{Tenant: tenant, Name: name, Version: next.Version}, plain)
		if err != nil {
			return put, err
		}
		next.KeyID, next.WrappedKey, next.Ciphertext = sealed.KeyID, sealed.WrappedKey, sealed.Ciphertext
		put.Secret = next
		if err = checkRoom(tenant, is, &next); err != nil {
			return put, err
		}
		return put, s.recordKey(ctx, is, &put)
	})
	return made, was, err
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

// checkRoom compares a new version with the limits of its tenant. A version that is no larger than the one before is always
// accepted.
func checkRoom(tenant string, is *store.TenantSecrets, next *store.Secret) error {
	if is.Was == nil && len(is.Own) >= ares.MaxTenantSecrets {
		return ares.Errorf(ares.LimitReached, "tenant %s has %d secrets, which is the limit: delete some", tenant, len(is.Own))
	}
	size := len(next.Ciphertext)
	for i := range is.Own {
		if &is.Own[i] != is.Was {
			size += len(is.Own[i].Ciphertext)
		}
	}
	if grows := is.Was == nil || len(next.Ciphertext) > len(is.Was.Ciphertext); grows && size > ares.MaxTenantSecretBytes {
		return ares.Errorf(ares.LimitReached, "the secrets of tenant %s would have %d bytes together, encrypted, but the limit is %d: delete some", tenant, size, ares.MaxTenantSecretBytes)
	}
	return nil
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
	job, attempt, err := s.Store.ClaimedJob(ctx, ref, session)
	if err != nil {
		return nil, err
	}
	if err = s.checkDelivery(ref, attempt); err != nil {
		return nil, err
	}
	known := map[string]*openSecret{} // all values of a secret are of one version
	var out []Value
	for _, r := range job.Secrets {
		x := known[r.Name]
		if x == nil {
			if x, err = s.read(ctx, job.Tenant, r.Name); err != nil {
				return nil, err
			}
			known[r.Name] = x
		}
		key, err := keyOf(&x.Secret, r.Key)
		if err != nil {
			return nil, ares.Errorf(ares.NotFound, "secret %s was changed after the job was submitted: key %s", r.Name, err)
		}
		value, ok := x.values[key]
		if !ok {
			return nil, ares.Errorf(ares.Internal, "secret %s of tenant %s lacks its key %s", r.Name, job.Tenant, key)
		}
		out = append(out, Value{Env: r.Env, File: r.File, Value: value})
	}
	return out, nil
}

// openSecret is one version of a secret with its values.
type openSecret struct {
	store.Secret
	values map[string][]byte
}

// The method `read` reads and decrypts a secret that a job refers to.
func (s *Secrets) read(ctx context.Context, tenant, name string) (*openSecret, error) {
	x, err := s.Store.Secret(ctx, tenant, name)
	if ares.CodeOf(err) == ares.NotFound {
		return nil, ares.Errorf(ares.NotFound, "secret %s was deleted after the job was submitted: create it again and retry the job", name)
	}
	if err != nil {
		return nil, err
	}
	values, err := s.open(ctx, &x)
	return &openSecret{x, values}, err
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

func identityOf(x *store.Secret) secret.Identity {
	return secret.Identity{Tenant: x.Tenant, Name: x.Name, Version: x.Version}
}

func sealedOf(x *store.Secret) secret.Sealed {
	return secret.Sealed{KeyID: x.KeyID, WrappedKey: x.WrappedKey, Ciphertext: x.Ciphertext}
}
