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

// PutSecret writes the secret that the function `build` returns. The function gets the secret that exists, or nil, and the
// secrets of all tenants. The write succeeds only if no secret has changed since then. So of two servers that create
// their first secret with different keys, the second one sees the other's key.
func (s *Store) PutSecret(ctx context.Context, tenant, name string, build func(was *Secret, all []Secret) (Secret, error)) (Secret, error) {
	return Retry(maxTries, func() (Secret, error) {
		all, revision, err := s.secrets(ctx, secretsKey)
		if err != nil {
			return Secret{}, err
		}
		var was *Secret
		if i := slices.IndexFunc(all, func(x Secret) bool { return x.Tenant == tenant && x.Name == name }); i >= 0 {
			was = &all[i]
		}
		next, err := build(was, all)
		if err != nil {
			return Secret{}, err
		}
		value, err := marshal(secretRecord(&next))
		if err != nil {
			return Secret{}, err
		}
		resp, err := s.txn(ctx, "write secret",
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(secretsKey), "<", revision+1).WithPrefix(), keyExists(tenantKey(tenant))},
			[]clientv3.Op{clientv3.OpPut(secretsOf(tenant)+name, value)},
			[]clientv3.Op{clientv3.OpGet(tenantKey(tenant), clientv3.WithKeysOnly())})
		if err != nil {
			return Secret{}, err
		}
		if resp.Succeeded {
			next.Tenant, next.Name, next.Revision = tenant, name, resp.Header.Revision
			return next, nil
		}
		if len(resp.Responses[0].GetResponseRange().Kvs) == 0 {
			return Secret{}, NoTenant(tenant)
		}
		return Secret{}, Conflict{ares.Errorf(ares.Exhausted, "the secrets keep changing: try again")}
	})
}

// ReplaceSecret writes a secret again if its revision is still x.Revision, and reports whether it did.
func (s *Store) ReplaceSecret(ctx context.Context, x Secret) (bool, error) {
	value, err := marshal(secretRecord(&x))
	if err != nil {
		return false, err
	}
	key := secretsOf(x.Tenant) + x.Name
	resp, err := s.txn(ctx, "rewrap secret", []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", x.Revision)},
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

// Secrets reads the secrets of one tenant, or of all tenants if the tenant is "". They are sorted by tenant and name.
func (s *Store) Secrets(ctx context.Context, tenant string) ([]Secret, error) {
	below := secretsKey
	if tenant != "" {
		below = secretsOf(tenant)
	}
	list, _, err := s.secrets(ctx, below)
	return list, err
}

func (s *Store) secrets(ctx context.Context, below string) ([]Secret, int64, error) {
	list, revision, err := s.records(ctx, below)
	out := make([]Secret, 0, len(list))
	for _, r := range list {
		out = append(out, secretOf(strings.TrimPrefix(below, secretsKey)+r.name, r.GetSecret(), r.revision))
	}
	return out, revision, err
}

// NoSecret is the error for a secret that does not exist or that the caller may not see.
func NoSecret(tenant, name string) error {
	return ares.Errorf(ares.NotFound, "tenant %s has no secret %q: list its secrets with `ares secret list`, or create it with `ares secret create`", tenant, name).At("name")
}

// ClaimedJob returns the job of a seat if the node has claimed the seat under the given session, and if session, fence and
// claim are all current at one revision. Values of secrets are given to no other caller.
func (s *Store) ClaimedJob(ctx context.Context, ref SeatRef, session int64) (*ares.Job, error) {
	current, err := underSession(ref.Node, session)
	if err != nil {
		return nil, err
	}
	resp, err := s.txn(ctx, "read claimed job", []clientv3.Cmp{current}, []clientv3.Op{
		clientv3.OpGet(jobKey(ref.Job)), clientv3.OpGet(runKey(ref.Job)), clientv3.OpGet(claimKey(ref.Job, ref.Rank)),
	}, nil)
	if err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		return nil, sessionGone(ref.Node)
	}
	var recs [3]*storepb.Record
	var revisions [3]int64
	for i, key := range []string{jobKey(ref.Job), runKey(ref.Job), claimKey(ref.Job, ref.Rank)} {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		if len(kvs) == 0 {
			return nil, notClaimed(ref)
		}
		if recs[i], err = unmarshal(key, kvs[0].Value); err != nil {
			return nil, err
		}
		revisions[i] = kvs[0].ModRevision
	}
	if recs[0].GetJob() == nil {
		return nil, notClaimed(ref) // archived
	}
	run := runOf(recs[1], revisions[1])
	claim := recs[2].GetClaim()
	a := run.Current()
	if a == nil || a.Fence != ref.Fence || claim.GetNode() != ref.Node || claim.GetSession() != session {
		return nil, notClaimed(ref)
	}
	if !slices.ContainsFunc(a.Seats, func(h ares.SeatStatus) bool {
		return h.Rank == ref.Rank && h.Node == ref.Node && h.State == ares.SeatClaimed
	}) {
		return nil, notClaimed(ref)
	}
	return jobOf(recs[0].GetJob(), ref.Job, revisions[0]), nil
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
