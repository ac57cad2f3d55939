package store

import (
	"context"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// TenantIDs reads the IDs of all tenants, sorted.
func (s *Store) TenantIDs(ctx context.Context) ([]string, error) {
	got, err := s.get(ctx, tenantsKey, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	out := make([]string, len(got.Kvs))
	for i, kv := range got.Kvs {
		out[i] = strings.TrimPrefix(string(kv.Key), tenantsKey)
	}
	return out, nil
}

// lostRight returns the token or binding that was deleted. Its second result is false for every other change.
func lostRight(e *clientv3.Event) (ares.LostRight, bool) {
	if e.Type != clientv3.EventTypeDelete {
		return ares.LostRight{}, false
	}
	key := string(e.Kv.Key)
	if name, ok := strings.CutPrefix(key, tokensKey); ok {
		return ares.LostRight{Token: name}, true
	}
	rest, ok := strings.CutPrefix(key, bindingsKey)
	if !ok {
		return ares.LostRight{}, false
	}
	b, subject, err := bindingScope(rest)
	return ares.LostRight{Subject: subject, Binding: b}, err == nil
}

// dropRights returns operations that remove a deleted tenant's tokens, policies and secrets, and all bindings to that
// tenant. A later tenant with the same name must not inherit any of them.
func dropRights(tenant string) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpDelete(bindingsKey+tenant+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(tokensKey+tenant+"/", clientv3.WithPrefix()),
		clientv3.OpDelete(policyKey(ares.PolicyID(tenant, "")), clientv3.WithPrefix()),
		clientv3.OpDelete(secretsOf(tenant), clientv3.WithPrefix()),
	}
}

// dropRightsElsewhere removes what a tenant that does not exist has left outside of it: the bindings of its tokens in other
// tenants, and the roles in the tenant that are part of other tokens. Nothing is removed if the tenant exists.
func (s *Store) dropRightsElsewhere(ctx context.Context, tenant string) error {
	var ops []clientv3.Op
	bindings, err := s.Bindings(ctx)
	if err != nil {
		return err
	}
	for i := range bindings {
		if strings.HasPrefix(bindings[i].Subject, "token:"+tenant+"/") {
			ops = append(ops, clientv3.OpDelete(bindingKey(&bindings[i])))
		}
	}
	const most = 100 // a transaction holds 128 operations
	for part := range slices.Chunk(ops, most) {
		if _, err = s.txn(ctx, "unbind tenant", []clientv3.Cmp{absent(tenantKey(tenant))}, part, nil); err != nil {
			return err
		}
	}
	return s.dropGrants(ctx, tenantKey(tenant), func(g *storepb.Grant) bool { return g.GetTenant() == tenant })
}

// dropQueueRights removes the bindings to a queue that does not exist, and the roles in it that are part of tokens. A later
// queue with the same name must not inherit them. Nothing is removed if the queue exists.
func (s *Store) dropQueueRights(ctx context.Context, tenant, queue string) error {
	key := queueKey(tenant, queue)
	_, err := s.txn(ctx, "unbind queue", []clientv3.Cmp{absent(key)},
		[]clientv3.Op{clientv3.OpDelete(bindingsKey+tenant+"/"+queue+"/", clientv3.WithPrefix())}, nil)
	if err != nil {
		return err
	}
	return s.dropGrants(ctx, key, func(g *storepb.Grant) bool { return g.GetTenant() == tenant && g.GetQueue() == queue })
}

// dropGrants removes roles from tokens, while the object with the given key does not exist.
func (s *Store) dropGrants(ctx context.Context, key string, drops func(*storepb.Grant) bool) error {
	_, err := Retry(maxTries, func() (none struct{}, err error) {
		tokens, _, err := s.records(ctx, tokensKey)
		if err != nil {
			return none, err
		}
		for _, r := range tokens {
			m, was := r.GetToken(), len(r.GetToken().GetGrants())
			if m.Grants = slices.DeleteFunc(m.GetGrants(), drops); len(m.Grants) == was {
				continue
			}
			value, err := marshal(r.Record)
			if err != nil {
				return none, err
			}
			resp, err := s.txn(ctx, "remove roles of tokens", []clientv3.Cmp{
				absent(key), clientv3.Compare(clientv3.ModRevision(tokensKey+r.name), "=", r.revision),
			}, []clientv3.Op{clientv3.OpPut(tokensKey+r.name, value)}, []clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())})
			switch {
			case err != nil:
				return none, err
			case resp.Succeeded:
			case len(resp.Responses[0].GetResponseRange().Kvs) > 0:
				return none, nil // the object exists now, so these roles are its own
			default: // for example, another object is created that had a role in the same token
				return none, Conflict{ares.Errorf(ares.Exhausted, "the tokens keep changing: try again")}
			}
		}
		return none, nil
	})
	return err
}

// The function `absent` is the condition that a key does not exist.
func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }
