package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// CreateTenant creates a tenant and returns it with its revision. CreateTenant also deletes
// records that remain from an earlier tenant with the same name.
func (s *Store) CreateTenant(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	value, err := marshal(tenantRecord(&t))
	if err != nil {
		return t, err
	}
	if err = s.dropRightsElsewhere(ctx, t.ID); err != nil {
		return t, err
	}
	return s.putTenant(ctx, t, value, 0, append(dropQueues(t.ID), dropRights(t.ID)...)...)
}

// UndeleteTenant restores a tenant that was just deleted, with its queues, rights, policies and secrets.
func (s *Store) UndeleteTenant(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	value, err := marshal(tenantRecord(&t))
	if err != nil {
		return t, err
	}
	return s.putTenant(ctx, t, value, 0)
}

// UpdateTenant replaces a tenant if its revision is still t.Revision.
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
		copyUnknownFields(rec, old)
		copyUnknownFields(rec.GetTenant(), old.GetTenant())
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
		t.Revision = kvs[0].ModRevision // an earlier try succeeded
		return t, nil
	case seen == 0:
		return t, ares.Errorf(ares.Conflict, "tenant %s exists already: choose another id, or change the existing tenant with PATCH", t.ID).At("id")
	case len(kvs) == 0:
		return t, ares.Errorf(ares.NotFound, "there is no tenant %s", t.ID)
	default:
		return t, ares.Errorf(ares.Conflict, "tenant %s was changed by another request: read the tenant again, and then repeat your request", t.ID)
	}
}

// Tenant reads one tenant with a linearizable read.
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

// NoTenant is the error for a tenant that does not exist or that the caller may not see.
func NoTenant(id string) error {
	return ares.Errorf(ares.NotFound, "there is no tenant %s: list the tenants with `ares tenant list`, or create the tenant with `ares tenant create` or POST /api/v1/tenants", id).At("tenant_id")
}

// DeleteTenant deletes a tenant if its revision is unchanged. After the deletion, a concurrent
// submission of the tenant fails. The deletion may still be undone with UndeleteTenant, so everything else of the tenant stays.
// DropQueues deletes that, or CreateTenant if a tenant with the same name is created.
func (s *Store) DeleteTenant(ctx context.Context, id string, revision int64) error {
	resp, err := s.txn(ctx, "delete tenant",
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(tenantKey(id)), "=", revision)},
		[]clientv3.Op{clientv3.OpDelete(tenantKey(id))}, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Conflict, "tenant %s was changed by another request: read the tenant again, and then repeat your request", id)
	}
	return err
}
