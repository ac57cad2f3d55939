package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Usage reads the usage of a queue's archived jobs with a linearizable read. Before the first job
// is archived, the usage is empty and has revision 0.
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

// usageWrite returns a comparison and a write. Together they replace the stored usage if its
// revision is unchanged.
func (s *Store) usageWrite(ctx context.Context, u *ares.Usage) (seen clientv3.Cmp, put clientv3.Op, err error) {
	_, old, err := s.usage(ctx, u.Tenant, u.Queue)
	if err != nil {
		return seen, put, err
	}
	rec := usageRecord(u)
	if old != nil {
		copyUnknownFields(rec, old)
		copyUnknownFields(rec.GetUsage(), old.GetUsage())
	}
	key := usageOf(u.Tenant) + u.Queue
	value, err := marshal(rec)
	return clientv3.Compare(clientv3.ModRevision(key), "=", u.Revision), clientv3.OpPut(key, value), err
}
