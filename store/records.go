package store

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ares-scheduler/ares/store/storepb"
)

// This type is a stored record with its name. The name is the part of the record's key that follows
// a given prefix.
type named struct {
	*storepb.Record

	name     string
	revision int64 // revision of its last change
}

// deletedRecord is a record that was just deleted.
type deletedRecord struct {
	*storepb.Record

	revision int64 // revision of its last change
	gone     int64 // revision of the deletion
}

// deleteRecord deletes a record and runs other operations in the same transaction. If the record
// does not exist, deleteRecord changes nothing and returns nil.
func (s *Store) deleteRecord(ctx context.Context, what, key string, others ...clientv3.Op) (*deletedRecord, error) {
	ops := append([]clientv3.Op{clientv3.OpDelete(key, clientv3.WithPrevKV())}, others...)
	resp, err := s.txn(ctx, what, []clientv3.Cmp{keyExists(key)}, ops, nil)
	if err != nil || !resp.Succeeded {
		return nil, err
	}
	was := resp.Responses[0].GetResponseDeleteRange().GetPrevKvs()[0]
	rec, err := unmarshal(key, was.Value)
	if err != nil {
		return nil, err
	}
	return &deletedRecord{rec, was.ModRevision, resp.Header.Revision}, nil
}

// This method reads all records whose keys begin with a prefix, with a
// linearizable read. The records are sorted by name. The second result is the
// revision at which they were read.
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
