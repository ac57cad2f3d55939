package store

import (
	"cmp"
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
	// Pending means that the binding has no effect, because the tenant of its subject has not accepted it.
	Pending bool
	// AcceptedBy is the caller that accepted the binding, or "" if no consent was needed.
	AcceptedBy string
}

// In a key, this text stands for all tenants or all queues. The text is not a
// valid name, so it cannot be confused with a tenant or a queue.
const everywhere = "*"

// bindingKey builds a binding's key from all fields of the binding. Equal bindings therefore
// have the same key, and the keys of a tenant's bindings are adjacent.
func bindingKey(b *Binding) string {
	return bindingsKey + cmp.Or(b.Tenant, everywhere) + "/" + cmp.Or(b.Queue, everywhere) + "/" + string(b.Role) + "/" + url.PathEscape(b.Subject)
}

// CreateBinding creates a role binding for a subject. Creating the same binding again changes
// nothing. The binding's tenant and queue must exist.
func (s *Store) CreateBinding(ctx context.Context, b Binding) (Binding, error) {
	key := bindingKey(&b)
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Binding{Binding: &storepb.Binding{
		Subject: b.Subject, CreatedBy: b.CreatedBy, CreatedAt: micros(b.CreatedAt), Pending: b.Pending, AcceptedBy: b.AcceptedBy,
	}}})
	if err != nil {
		return b, err
	}
	all := scopes{}
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

// A `scope` is a tenant or one of its queues, in which a binding applies.
type scope struct{ tenant, queue string }

// This type lists the tenants and queues that must exist for a binding.
type scopes []scope

// This method adds a scope to the list. The method omits the default queue,
// which always exists.
func (p *scopes) add(tenant, queue string) {
	at := []scope{{tenant: tenant}}
	if queue != "" && queue != ares.DefaultQueue {
		at = append(at, scope{tenant, queue})
	}
	for _, one := range at {
		if tenant != "" && !slices.Contains(*p, one) {
			*p = append(*p, one)
		}
	}
}

func (p scope) key() string {
	if p.queue == "" {
		return tenantKey(p.tenant)
	}
	return queueKey(p.tenant, p.queue)
}

// This method returns comparisons that check that all scopes exist.
func (p scopes) there() []clientv3.Cmp {
	var out []clientv3.Cmp
	for _, one := range p {
		out = append(out, clientv3.Compare(clientv3.CreateRevision(one.key()), ">", 0))
	}
	return out
}

// This method returns operations that read the scopes. From their results,
// another method finds out which scopes exist.
func (p scopes) look() []clientv3.Op {
	var out []clientv3.Op
	for _, one := range p {
		out = append(out, clientv3.OpGet(one.key(), clientv3.WithKeysOnly()))
	}
	return out
}

// This method returns an error that names the first scope that does not exist.
// The response must begin with the results of the operations that read the
// scopes.
func (p scopes) missing(answer *clientv3.TxnResponse) error {
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

// DeleteBinding deletes a binding and returns it.
func (s *Store) DeleteBinding(ctx context.Context, b Binding) (Binding, error) {
	was, err := s.deleteRecord(ctx, "unbind", bindingKey(&b))
	switch {
	case err != nil:
		return b, err
	case was == nil:
		return b, NoBinding(b)
	}
	m := was.GetBinding()
	b.CreatedBy, b.CreatedAt, b.Pending, b.AcceptedBy = m.GetCreatedBy(), fromMicros(m.GetCreatedAt()), m.GetPending(), m.GetAcceptedBy()
	return b, nil
}

// NoBinding is the error for a binding that does not exist or that the caller may not see.
func NoBinding(b Binding) error {
	return ares.Errorf(ares.NotFound, "%s does not have this role binding: run `ares binding list` to see all bindings", b.Subject).At("subject")
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
	b := Binding{
		Subject: m.GetSubject(), CreatedBy: m.GetCreatedBy(), CreatedAt: fromMicros(m.GetCreatedAt()), Pending: m.GetPending(), AcceptedBy: m.GetAcceptedBy(),
	}
	b.Binding, _, err = bindingScope(strings.TrimPrefix(key, bindingsKey))
	return b, err
}

// bindingScope reads a binding and its subject from the key of the binding, without the prefix of all bindings.
func bindingScope(key string) (b ares.Binding, subject string, err error) {
	parts := strings.SplitN(key, "/", 4)
	if len(parts) != 4 {
		return b, "", ares.Errorf(ares.Internal, "decode role binding %s: the key must consist of a tenant, a queue, a role and a subject", key)
	}
	if subject, err = url.PathUnescape(parts[3]); err != nil {
		return b, "", ares.Errorf(ares.Internal, "decode role binding %s: its subject cannot be read", key)
	}
	b.Role = ares.Role(parts[2])
	if parts[0] != everywhere {
		b.Tenant = parts[0]
	}
	if parts[1] != everywhere {
		b.Queue = parts[1]
	}
	return b, subject, nil
}
