package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// AcceptBinding lets a pending binding take effect and returns the binding before and after the change. Accepting a
// binding that is not pending changes nothing.
func (s *Store) AcceptBinding(ctx context.Context, b Binding, by string) (was, now Binding, err error) {
	key := bindingKey(&b)
	got, err := s.get(ctx, key)
	if err != nil {
		return b, b, err
	}
	if len(got.Kvs) == 0 {
		return b, b, NoBinding(b)
	}
	kv := got.Kvs[0]
	if was, err = bindingOf(key, kv.Value); err != nil || !was.Pending {
		return was, was, err
	}
	rec, err := unmarshal(key, kv.Value) // keeps the fields that a later version added
	if err != nil {
		return was, was, err
	}
	rec.GetBinding().Pending, rec.GetBinding().AcceptedBy = false, by
	value, err := marshal(rec)
	if err != nil {
		return was, was, err
	}
	resp, err := s.txn(ctx, "accept binding", []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)},
		[]clientv3.Op{clientv3.OpPut(key, value)}, nil)
	if err != nil {
		return was, was, err
	}
	if !resp.Succeeded {
		return was, was, ares.Errorf(ares.Conflict, "the role binding of %s was changed by another request: list the bindings again with `ares binding list`", b.Subject)
	}
	now = was
	now.Pending, now.AcceptedBy = false, by
	return was, now, nil
}
