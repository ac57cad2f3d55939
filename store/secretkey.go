package store

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ares-scheduler/ares/store/storepb"
)

// SecretKey is the record of a key that encrypts secrets. The key itself is not in the store. With the records, a server
// can check its keys without reading the secrets.
type SecretKey struct {
	ID       string
	Sample   []byte // random bytes that the key has encrypted, or nil for a key of an earlier version
	Revision int64
}

// SecretKeys reads the records of all keys that may encrypt secrets, sorted by ID.
func (s *Store) SecretKeys(ctx context.Context) ([]SecretKey, error) {
	got, err := s.get(ctx, secretKeysKey, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	return secretKeysOf(got.Kvs)
}

// AddSecretKey writes the record of a key, unless it exists. A key needs its record before it encrypts the first secret.
func (s *Store) AddSecretKey(ctx context.Context, k SecretKey) error {
	ops, err := secretKeyOps([]SecretKey{k}, nil)
	if err != nil {
		return err
	}
	_, err = s.txn(ctx, "add secret key", []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(secretKeysKey+k.ID), "=", 0)}, ops, nil)
	return err
}

// DropSecretKeys deletes the records of keys that no secret used at the given revision. It changes nothing if a secret has
// changed since then, because the new version may use one of these keys.
func (s *Store) DropSecretKeys(ctx context.Context, ids []string, revision int64) error {
	if len(ids) == 0 {
		return nil
	}
	ops, err := secretKeyOps(nil, ids)
	if err != nil {
		return err
	}
	_, err = s.txn(ctx, "drop secret keys", []clientv3.Cmp{unchangedSince(secretsKey, revision)}, ops, nil)
	return err
}

// secretKeyOps returns the operations that write and delete records of keys. A record has the form of a secret without a
// value.
func secretKeyOps(put []SecretKey, drop []string) ([]clientv3.Op, error) {
	var ops []clientv3.Op
	for _, k := range put {
		value, err := marshal(&storepb.Record{Body: &storepb.Record_Secret{Secret: &storepb.Secret{KeyId: k.ID, WrappedKey: k.Sample}}})
		if err != nil {
			return nil, err
		}
		ops = append(ops, clientv3.OpPut(secretKeysKey+k.ID, value))
	}
	for _, id := range drop {
		ops = append(ops, clientv3.OpDelete(secretKeysKey+id))
	}
	return ops, nil
}

func secretKeysOf(kvs []*mvccpb.KeyValue) ([]SecretKey, error) {
	out := make([]SecretKey, 0, len(kvs))
	for _, kv := range kvs {
		rec, err := unmarshal(string(kv.Key), kv.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, SecretKey{strings.TrimPrefix(string(kv.Key), secretKeysKey), rec.GetSecret().GetWrappedKey(), kv.ModRevision})
	}
	return out, nil
}

// unchangedKeys requires that the records of the keys are those that were read at a revision. A comparison of the newest
// change alone would miss a deleted record.
func unchangedKeys(read []SecretKey, revision int64) []clientv3.Cmp {
	cmps := []clientv3.Cmp{unchangedSince(secretKeysKey, revision)}
	for _, k := range read {
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(secretKeysKey+k.ID), "=", k.Revision))
	}
	return cmps
}

// KeysOf returns the IDs of the keys that encrypt the given secrets, sorted.
func KeysOf(all []Secret) []string {
	ids := map[string]bool{}
	for i := range all {
		ids[all[i].KeyID] = true
	}
	return slices.Sorted(maps.Keys(ids))
}
