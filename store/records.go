package store

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ares-scheduler/ares/store/storepb"
)

// named is a record with its name below a prefix.
type named struct {
	*storepb.Record

	name     string
	revision int64 // of its last change
}

// taken is a record that was deleted, as it was.
type taken struct {
	*storepb.Record

	revision int64 // of its last change
	gone     int64 // at which it went
}

// take deletes a record, and does the others' work with it. It returns nil, and
// nothing is done, when there is no such record.
func (s *Store) take(ctx context.Context, what, key string, others ...clientv3.Op) (*taken, error) {
	ops := append([]clientv3.Op{clientv3.OpDelete(key, clientv3.WithPrevKV())}, others...)
	resp, err := s.txn(ctx, what, []clientv3.Cmp{isThere(key)}, ops, nil)
	if err != nil || !resp.Succeeded {
		return nil, err
	}
	was := resp.Responses[0].GetResponseDeleteRange().GetPrevKvs()[0]
	rec, err := unmarshal(key, was.Value)
	if err != nil {
		return nil, err
	}
	return &taken{rec, was.ModRevision, resp.Header.Revision}, nil
}

// records reads everything below a prefix in the order of its names, and the
// revision it was read at; the answer is linearizable.
func (s *Store) records(ctx context.Context, below string) ([]named, int64, error) {
	got, err := s.get(ctx, below, clientv3.WithPrefix())
	if err != nil {
		return nil, 0, err
	}
	out := make([]named, 0, len(got.Kvs))
	for _, kv := range got.Kvs {
		rec, err := unmarshal(string(kv.Key), kv.Value)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, named{rec, strings.TrimPrefix(string(kv.Key), below), kv.ModRevision})
	}
	return out, got.Header.Revision, nil
}
