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
