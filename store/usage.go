package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Usage reads what the archived jobs of a queue have used, linearizable. It is
// empty, at revision 0, before the first is archived.
func (s *Store) Usage(ctx context.Context, tenant, queue string) (ares.Usage, error) {
	u, _, err := s.usage(ctx, tenant, queue)
	return u, err
}

func (s *Store) usage(ctx context.Context, tenant, queue string) (ares.Usage, *storepb.Record, error) {
	key := usageOf(tenant) + queue
	got, err := s.get(ctx, key)
	if err != nil || len(got.Kvs) == 0 {
		return ares.Usage{Tenant: tenant, Queue: queue}, nil, err
	}
	rec, err := unmarshal(key, got.Kvs[0].Value)
	if err != nil {
		return ares.Usage{}, nil, err
	}
	return *usageRead(rec.GetUsage(), tenant, queue, got.Kvs[0].ModRevision), rec, nil
}

// book is the comparison and the write that put a usage in place of the one at
// its revision.
func (s *Store) book(ctx context.Context, u *ares.Usage) (seen clientv3.Cmp, put clientv3.Op, err error) {
	_, old, err := s.usage(ctx, u.Tenant, u.Queue)
	if err != nil {
		return seen, put, err
	}
	rec := usageRecord(u)
	if old != nil {
		carry(rec, old)
		carry(rec.GetUsage(), old.GetUsage())
	}
	key := usageOf(u.Tenant) + u.Queue
	value, err := marshal(rec)
	return clientv3.Compare(clientv3.ModRevision(key), "=", u.Revision), clientv3.OpPut(key, value), err
}
