package store

import (
	"context"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Secret is the stored version of a secret. Its value is encrypted, and the store has no key for it.
type Secret struct {
	Tenant, Name string
	Version      int64    // counted from 1
	Keys         []string // names of the values, sorted
	KeyID        string   // of the key-encryption key
	WrappedKey   []byte
	Ciphertext   []byte
	CreatedAt    time.Time
	UpdatedAt    time.Time
	By           string
	Revision     int64
}

// TenantSecrets is what the decision about a new version of a secret is based on.
type TenantSecrets struct {
	Was  *Secret  // the secret that is replaced, or nil
	Own  []Secret // all secrets of its tenant
	Keys []SecretKey
	// KeysInUse reads the secrets of all tenants and returns the IDs of their keys, sorted. It is for the rare cases in
	// which Keys does not tell enough.
	KeysInUse func(context.Context) ([]string, error)
}

// SecretPut is what PutSecret writes.
type SecretPut struct {
	Secret Secret
	Keys   []SecretKey // new or changed records of keys
	Drop   []string    // IDs of keys that no secret uses
}

// PutSecret writes the secret that the function `build` returns. It reads only the secrets of one tenant and the records of
// the keys, so that its cost does not depend on other tenants. The write succeeds only if neither has changed since then. So
// of two servers that create their first secret with different keys, the second one sees the other's key.
func (s *Store) PutSecret(ctx context.Context, tenant, name string, build func(*TenantSecrets) (SecretPut, error)) (Secret, error) {
	return Retry(maxTries, func() (Secret, error) {
		view, revision, err := s.tenantSecrets(ctx, tenant, name)
		if err != nil {
			return Secret{}, err
		}
		guarded := secretsOf(tenant)
		inUse := view.KeysInUse
		view.KeysInUse = func(ctx context.Context) ([]string, error) {
			guarded = secretsKey // the decision now depends on all secrets
			return inUse(ctx)
		}
		put, err := build(view)
		if err != nil {
			return Secret{}, err
		}
		value, err := marshal(secretRecord(&put.Secret))
		if err != nil {
			return Secret{}, err
		}
		cmps := append(unchangedKeys(view.Keys, revision), unchangedSince(guarded, revision), keyExists(tenantKey(tenant)))
		ops, err := secretKeyOps(put.Keys, put.Drop)
		if err != nil {
			return Secret{}, err
		}
		resp, err := s.txn(ctx, "write secret", cmps, append(ops, clientv3.OpPut(secretsOf(tenant)+name, value)),
			[]clientv3.Op{clientv3.OpGet(tenantKey(tenant), clientv3.WithKeysOnly())})
		if err != nil {
			return Secret{}, err
		}
		if resp.Succeeded {
			next := put.Secret
			next.Tenant, next.Name, next.Revision = tenant, name, resp.Header.Revision
			return next, nil
		}
		if len(resp.Responses[0].GetResponseRange().Kvs) == 0 {
			return Secret{}, NoTenant(tenant)
		}
		return Secret{}, Conflict{ares.Errorf(ares.Exhausted, "the secrets keep changing: try again")}
	})
}

// tenantSecrets reads the secrets of a tenant and the records of the keys at one revision.
func (s *Store) tenantSecrets(ctx context.Context, tenant, name string) (*TenantSecrets, int64, error) {
	resp, err := s.txn(ctx, "read secrets", nil, []clientv3.Op{
		clientv3.OpGet(secretsOf(tenant), clientv3.WithPrefix()), clientv3.OpGet(secretKeysKey, clientv3.WithPrefix()),
	}, nil)
	if err != nil {
		return nil, 0, err
	}
	revision := resp.Header.Revision
	view := &TenantSecrets{KeysInUse: func(ctx context.Context) ([]string, error) {
		all, _, err := s.secretsAt(ctx, secretsKey, revision)
		return KeysOf(all), err
	}}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		rec, err := unmarshal(string(kv.Key), kv.Value)
		if err != nil {
			return nil, 0, err
		}
		view.Own = append(view.Own, secretOf(strings.TrimPrefix(string(kv.Key), secretsKey), rec.GetSecret(), kv.ModRevision))
	}
	if i := slices.IndexFunc(view.Own, func(x Secret) bool { return x.Name == name }); i >= 0 {
		view.Was = &view.Own[i]
	}
	view.Keys, err = secretKeysOf(resp.Responses[1].GetResponseRange().Kvs)
	return view, revision, err
}

func unchangedSince(below string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(below), "<", revision+1).WithPrefix()
}

// ReplaceSecret writes a secret again if its revision is still x.Revision, and reports whether it did. The record of its
// key must exist, because a key without a record counts as unused.
func (s *Store) ReplaceSecret(ctx context.Context, x Secret) (bool, error) {
	value, err := marshal(secretRecord(&x))
	if err != nil {
		return false, err
	}
	key := secretsOf(x.Tenant) + x.Name
	resp, err := s.txn(ctx, "rewrap secret",
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", x.Revision), keyExists(secretKeysKey + x.KeyID)},
		[]clientv3.Op{clientv3.OpPut(key, value)}, nil)
	return err == nil && resp.Succeeded, err
}

// DeleteSecret deletes a secret and returns it.
func (s *Store) DeleteSecret(ctx context.Context, tenant, name string) (Secret, error) {
	was, err := s.deleteRecord(ctx, "delete secret", secretsOf(tenant)+name)
	switch {
	case err != nil:
		return Secret{}, err
	case was == nil:
		return Secret{}, NoSecret(tenant, name)
	}
	return secretOf(tenant+"/"+name, was.GetSecret(), was.revision), nil
}

// Secret reads one secret with a linearizable read.
func (s *Store) Secret(ctx context.Context, tenant, name string) (Secret, error) {
	key := secretsOf(tenant) + name
	got, err := s.get(ctx, key)
	if err != nil {
		return Secret{}, err
	}
	if len(got.Kvs) == 0 {
		return Secret{}, NoSecret(tenant, name)
	}
	rec, err := unmarshal(key, got.Kvs[0].Value)
	if err != nil {
		return Secret{}, err
	}
	return secretOf(tenant+"/"+name, rec.GetSecret(), got.Kvs[0].ModRevision), nil
}

// Secrets describes the secrets of one tenant, or of all tenants if the tenant is "". The descriptions have no ciphertexts.
// They are sorted by tenant and name. The second result is the revision at which they were read.
func (s *Store) Secrets(ctx context.Context, tenant string) ([]Secret, int64, error) {
	below := secretsKey
	if tenant != "" {
		below = secretsOf(tenant)
	}
	return s.secretsAt(ctx, below, 0)
}

// secretPage is the number of secrets in one read. A secret may have 32 KiB.
const secretPage = 50

// secretsAt describes all secrets below a key at one revision, or at the newest if the revision is 0.
func (s *Store) secretsAt(ctx context.Context, below string, revision int64) ([]Secret, int64, error) {
	var out []Secret
	from, end := below, clientv3.GetPrefixRangeEnd(below)
	for {
		got, err := s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(secretPage), clientv3.WithRev(revision))
		if err != nil {
			return nil, 0, err
		}
		if revision == 0 {
			revision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			rec, err := unmarshal(string(kv.Key), kv.Value)
			if err != nil {
				return nil, 0, err
			}
			x := secretOf(strings.TrimPrefix(string(kv.Key), secretsKey), rec.GetSecret(), kv.ModRevision)
			x.WrappedKey, x.Ciphertext = nil, nil
			out = append(out, x)
		}
		if !got.More {
			return out, revision, nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// NoSecret is the error for a secret that does not exist or that the caller may not see.
func NoSecret(tenant, name string) error {
	return ares.Errorf(ares.NotFound, "tenant %s has no secret %q: list its secrets with `ares secret list`, or create it with `ares secret create`", tenant, name).At("name")
}

// ClaimedJob returns the job and the attempt of a seat if the node has claimed the seat under the given session, and if session, fence and
// claim are all current at one revision. Values of secrets are given to no other caller.
func (s *Store) ClaimedJob(ctx context.Context, ref SeatRef, session int64) (*ares.Job, *ares.Attempt, error) {
	return s.jobOfClaim(ctx, ref, session, false)
}

// HeldJob is like ClaimedJob, but the node may have claimed the seat in an earlier session: it holds a seat also after its agent was
// restarted or has changed to another server. The session itself must be current.
func (s *Store) HeldJob(ctx context.Context, ref SeatRef, session int64) (*ares.Job, *ares.Attempt, error) {
	return s.jobOfClaim(ctx, ref, session, true)
}

func (s *Store) jobOfClaim(ctx context.Context, ref SeatRef, session int64, orEarlier bool) (*ares.Job, *ares.Attempt, error) {
	current, err := underSession(ref.Node, session)
	if err != nil {
		return nil, nil, err
	}
	resp, err := s.txn(ctx, "read claimed job", []clientv3.Cmp{current}, []clientv3.Op{
		clientv3.OpGet(jobKey(ref.Job)), clientv3.OpGet(runKey(ref.Job)), clientv3.OpGet(claimKey(ref.Job, ref.Rank)),
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	if !resp.Succeeded {
		return nil, nil, sessionGone(ref.Node)
	}
	var recs [3]*storepb.Record
	var revisions [3]int64
	for i, key := range []string{jobKey(ref.Job), runKey(ref.Job), claimKey(ref.Job, ref.Rank)} {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		if len(kvs) == 0 {
			return nil, nil, notClaimed(ref)
		}
		if recs[i], err = unmarshal(key, kvs[0].Value); err != nil {
			return nil, nil, err
		}
		revisions[i] = kvs[0].ModRevision
	}
	if recs[0].GetJob() == nil {
		return nil, nil, notClaimed(ref) // archived
	}
	run := runOf(recs[1], revisions[1])
	claim := recs[2].GetClaim()
	if orEarlier {
		session = claim.GetSession()
	}
	a := run.Current()
	if a == nil || a.Fence != ref.Fence || claim.GetNode() != ref.Node || claim.GetSession() != session {
		return nil, nil, notClaimed(ref)
	}
	if !slices.ContainsFunc(a.Seats, func(h ares.SeatStatus) bool {
		return h.Rank == ref.Rank && h.Node == ref.Node && h.State == ares.SeatClaimed
	}) {
		return nil, nil, notClaimed(ref)
	}
	return jobOf(recs[0].GetJob(), ref.Job, revisions[0]), a, nil
}

func notClaimed(ref SeatRef) error {
	return ares.Errorf(ares.Fenced, "node %s has no current claim on rank %d of job %s", ref.Node, ref.Rank, ref.Job)
}

func secretRecord(x *Secret) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Secret{Secret: &storepb.Secret{
		Version: x.Version, Keys: x.Keys, KeyId: x.KeyID, WrappedKey: x.WrappedKey, Ciphertext: x.Ciphertext,
		CreatedAt: micros(x.CreatedAt), UpdatedAt: micros(x.UpdatedAt), By: x.By,
	}}}
}

func secretOf(id string, m *storepb.Secret, revision int64) Secret {
	tenant, name, _ := strings.Cut(id, "/")
	return Secret{
		Tenant: tenant, Name: name, Version: m.GetVersion(), Keys: slices.Clone(m.GetKeys()), KeyID: m.GetKeyId(),
		WrappedKey: m.GetWrappedKey(), Ciphertext: m.GetCiphertext(), CreatedAt: fromMicros(m.GetCreatedAt()),
		UpdatedAt: fromMicros(m.GetUpdatedAt()), By: m.GetBy(), Revision: revision,
	}
}
