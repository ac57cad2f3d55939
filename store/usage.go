package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// Usage reads what the archived jobs of a queue have used, linearizable. It is
// empty, at revision 0, before the first is archived.
func (s *Store) Usage(ctx context.Context, tenant, queue string) (ares.Usage, error) {
	key := usageOf(tenant) + queue
	got, err := s.get(ctx, key)
	if err != nil || len(got.Kvs) == 0 {
		return ares.Usage{Tenant: tenant, Queue: queue}, err
	}
	rec, err := unmarshal(key, got.Kvs[0].Value)
	if err != nil {
		return ares.Usage{}, err
	}
	return *usageRead(rec.GetUsage(), tenant, queue, got.Kvs[0].ModRevision), nil
}

// book is the comparison and the write that put a usage in place of the one at
// its revision.
func book(u *ares.Usage) (clientv3.Cmp, clientv3.Op, error) {
	key := usageOf(u.Tenant) + u.Queue
	value, err := marshal(usageRecord(u))
	return clientv3.Compare(clientv3.ModRevision(key), "=", u.Revision), clientv3.OpPut(key, value), err
}
