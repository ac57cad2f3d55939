package store

import (
	"context"
	"net/url"
	"slices"
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

// CreateBinding binds a subject. The same binding again is the one before. The
// tenant and the queue that are named must be there.
func (s *Store) CreateBinding(ctx context.Context, b Binding) (Binding, error) {
	key := bindingKey(&b)
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Binding{Binding: &storepb.Binding{
		Subject: b.Subject, CreatedBy: b.CreatedBy, CreatedAt: micros(b.CreatedAt),
	}}})
	if err != nil {
		return b, err
	}
	all := places{}
	all.add(b.Tenant, b.Queue)
	resp, err := s.txn(ctx, "bind", append(all.there(), clientv3.Compare(clientv3.CreateRevision(key), "=", 0)),
		[]clientv3.Op{clientv3.OpPut(key, value)}, append(all.look(), clientv3.OpGet(key)))
	if err != nil || resp.Succeeded {
		return b, err
	}
	if kvs := resp.Responses[len(all)].GetResponseRange().Kvs; len(kvs) > 0 {
		return bindingOf(string(kvs[0].Key), kvs[0].Value)
	}
	return b, all.missing(resp)
}

// place is where a right counts: a tenant, or one queue of it.
type place struct{ tenant, queue string }

// places are what must be there for a right to be given.
type places []place

// add names a place. The default queue is every tenant's, made or not.
func (p *places) add(tenant, queue string) {
	at := []place{{tenant: tenant}}
	if queue != "" && queue != ares.DefaultQueue {
		at = append(at, place{tenant, queue})
	}
	for _, one := range at {
		if tenant != "" && !slices.Contains(*p, one) {
			*p = append(*p, one)
		}
	}
}

func (p place) key() string {
	if p.queue == "" {
		return tenantKey(p.tenant)
	}
	return queueKey(p.tenant, p.queue)
}

// there compares that all are.
func (p places) there() []clientv3.Cmp {
	var out []clientv3.Cmp
	for _, one := range p {
		out = append(out, clientv3.Compare(clientv3.CreateRevision(one.key()), ">", 0))
	}
	return out
}

// look reads which are there, for missing.
func (p places) look() []clientv3.Op {
	var out []clientv3.Op
	for _, one := range p {
		out = append(out, clientv3.OpGet(one.key(), clientv3.WithKeysOnly()))
	}
	return out
}

// missing names the first that is not there. The answer begins with those to look.
func (p places) missing(answer *clientv3.TxnResponse) error {
	for i, one := range p {
		switch {
		case len(answer.Responses[i].GetResponseRange().Kvs) > 0:
		case one.queue == "":
			return NoTenant(one.tenant)
		default:
			return NoQueue(one.tenant, one.queue).At("queue")
		}
	}
	return nil
}

// DeleteBinding takes a binding away, and returns it as it was.
func (s *Store) DeleteBinding(ctx context.Context, b Binding) (Binding, error) {
	was, err := s.take(ctx, "unbind", bindingKey(&b))
	switch {
	case err != nil:
		return b, err
	case was == nil:
		return b, NoBinding(b)
	}
	b.CreatedBy, b.CreatedAt = was.GetBinding().GetCreatedBy(), fromMicros(was.GetBinding().GetCreatedAt())
	return b, nil
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
