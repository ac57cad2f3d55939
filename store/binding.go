package store

import (
	"context"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Binding gives a subject a role in a scope.
type Binding struct {
	ares.Binding

	Subject   string // token:NAME, oidc:SUBJECT or group:NAME
	CreatedBy string
	CreatedAt time.Time
}

// everywhere stands for all tenants, or all queues, in a key. It is no name.
const everywhere = "*"

// bindingKey names a binding by all that it says, so that the same one is the
// same key, and those of a tenant lie together.
func bindingKey(b *Binding) string {
	return bindingsKey + either(b.Tenant, everywhere) + "/" + either(b.Queue, everywhere) + "/" + string(b.Role) + "/" + url.PathEscape(b.Subject)
}

func either(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// CreateBinding binds a subject. The same binding again is the one before. A
// tenant that is named must be there.
func (s *Store) CreateBinding(ctx context.Context, b Binding) (Binding, error) {
	key := bindingKey(&b)
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Binding{Binding: &storepb.Binding{
		Subject: b.Subject, CreatedBy: b.CreatedBy, CreatedAt: micros(b.CreatedAt),
	}}})
	if err != nil {
		return b, err
	}
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}
	if b.Tenant != "" {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(tenantKey(b.Tenant)), ">", 0))
	}
	resp, err := s.txn(ctx, "bind", cmps, []clientv3.Op{clientv3.OpPut(key, value)}, []clientv3.Op{clientv3.OpGet(key)})
	if err != nil || resp.Succeeded {
		return b, err
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return b, NoTenant(b.Tenant)
	}
	return bindingOf(string(kvs[0].Key), kvs[0].Value)
}

// DeleteBinding takes a binding away.
func (s *Store) DeleteBinding(ctx context.Context, b Binding) error {
	key := bindingKey(&b)
	resp, err := s.txn(ctx, "unbind", []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)},
		[]clientv3.Op{clientv3.OpDelete(key)}, nil)
	if err == nil && !resp.Succeeded {
		return NoBinding(b)
	}
	return err
}

// NoBinding is the answer for a binding that is not there, and for one that
// whoever asks may not know of.
func NoBinding(b Binding) error {
	return ares.Errorf(ares.NotFound, "%s has no such binding: see `ares binding list`", b.Subject).At("subject")
}

// Bindings reads every binding, sorted by its key.
func (s *Store) Bindings(ctx context.Context) ([]Binding, error) {
	got, err := s.get(ctx, bindingsKey, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	out := make([]Binding, 0, len(got.Kvs))
	for _, kv := range got.Kvs {
		b, err := bindingOf(string(kv.Key), kv.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func bindingOf(key string, value []byte) (Binding, error) {
	rec, err := unmarshal(key, value)
	if err != nil {
		return Binding{}, err
	}
	m := rec.GetBinding()
	b := Binding{Subject: m.GetSubject(), CreatedBy: m.GetCreatedBy(), CreatedAt: fromMicros(m.GetCreatedAt())}
	parts := strings.SplitN(strings.TrimPrefix(key, bindingsKey), "/", 4)
	if len(parts) != 4 {
		return b, ares.Errorf(ares.Internal, "decode %s: want a tenant, a queue, a role and a subject", key)
	}
	b.Role = ares.Role(parts[2])
	if parts[0] != everywhere {
		b.Tenant = parts[0]
	}
	if parts[1] != everywhere {
		b.Queue = parts[1]
	}
	return b, nil
}

// dropRights removes what a tenant that is gone has left: its tokens, and who was
// bound to it. The next tenant of that name is somebody else's.
func dropRights(tenant string) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpDelete(bindingsKey+tenant+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(tokensKey+tenant+"/", clientv3.WithPrefix()),
	}
}
