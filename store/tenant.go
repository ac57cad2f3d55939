package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// CreateTenant adds a tenant. It returns the tenant with its revision. What an
// earlier one of that name left behind goes.
func (s *Store) CreateTenant(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	value, err := marshal(tenantRecord(&t))
	if err != nil {
		return t, err
	}
	return s.putTenant(ctx, t, value, 0, append(dropQueues(t.ID), dropRights(t.ID)...)...)
}

// UndeleteTenant puts a tenant back that was just deleted, with its queues.
func (s *Store) UndeleteTenant(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	value, err := marshal(tenantRecord(&t))
	if err != nil {
		return t, err
	}
	return s.putTenant(ctx, t, value, 0)
}

// UpdateTenant replaces a tenant that is still at t.Revision.
func (s *Store) UpdateTenant(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	rec := tenantRecord(&t)
	got, err := s.get(ctx, tenantKey(t.ID))
	if err != nil {
		return t, err
	}
	if len(got.Kvs) > 0 {
		old, bad := unmarshal(tenantKey(t.ID), got.Kvs[0].Value)
		if bad != nil {
			return t, bad
		}
		carry(rec, old)
		carry(rec.GetTenant(), old.GetTenant())
	}
	value, err := marshal(rec)
	if err != nil {
		return t, err
	}
	return s.putTenant(ctx, t, value, t.Revision)
}

func (s *Store) putTenant(ctx context.Context, t ares.Tenant, value string, seen int64, also ...clientv3.Op) (ares.Tenant, error) {
	resp, err := s.txn(ctx, "write tenant",
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(tenantKey(t.ID)), "=", seen)},
		append(also, clientv3.OpPut(tenantKey(t.ID), value)),
		[]clientv3.Op{clientv3.OpGet(tenantKey(t.ID))})
	if err != nil {
		return t, err
	}
	if resp.Succeeded {
		t.Revision = resp.Header.Revision
		return t, nil
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	switch {
	case len(kvs) > 0 && string(kvs[0].Value) == value:
		t.Revision = kvs[0].ModRevision // an earlier try of ours got through
		return t, nil
	case seen == 0:
		return t, ares.Errorf(ares.Conflict, "tenant %s exists already: choose another id, or change it with PATCH", t.ID).At("id")
	case len(kvs) == 0:
		return t, ares.Errorf(ares.NotFound, "there is no tenant %s", t.ID)
	default:
		return t, ares.Errorf(ares.Conflict, "tenant %s was changed by somebody else: read it again and repeat", t.ID)
	}
}

// Tenant reads one tenant; the answer is linearizable.
func (s *Store) Tenant(ctx context.Context, id string) (ares.Tenant, error) {
	got, err := s.get(ctx, tenantKey(id))
	if err != nil {
		return ares.Tenant{}, err
	}
	if len(got.Kvs) == 0 {
		return ares.Tenant{}, NoTenant(id)
	}
	rec, err := unmarshal(tenantKey(id), got.Kvs[0].Value)
	if err != nil {
		return ares.Tenant{}, err
	}
	return *tenantOf(rec.GetTenant(), id, got.Kvs[0].ModRevision), nil
}

// NoTenant is the answer for a tenant that is not there, and for one that
// whoever asks may not know of.
func NoTenant(id string) error {
	return ares.Errorf(ares.NotFound, "there is no tenant %s: see `ares tenant list`, or create it first (POST /api/v1/tenants, `ares tenant create`)", id).At("tenant_id")
}

// DeleteTenant removes a tenant that is still at revision. A submission that
// relied on it fails its comparison.
func (s *Store) DeleteTenant(ctx context.Context, id string, revision int64) error {
	resp, err := s.txn(ctx, "delete tenant",
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(tenantKey(id)), "=", revision)},
		// One that is made anew later does not inherit its policies.
		[]clientv3.Op{clientv3.OpDelete(tenantKey(id)), clientv3.OpDelete(policyKey(ares.PolicyID(id, "")), clientv3.WithPrefix())}, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Conflict, "tenant %s was changed by somebody else: read it again and repeat", id)
	}
	return err
}
