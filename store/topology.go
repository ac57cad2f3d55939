package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Topology reads the cluster's topology with a linearizable read. Before the first topology is
// written, the result is empty and has revision 0.
func (s *Store) Topology(ctx context.Context) (ares.Topology, error) {
	t, _, err := s.topology(ctx)
	return t, err
}

func (s *Store) topology(ctx context.Context) (ares.Topology, *storepb.Record, error) {
	got, err := s.get(ctx, topologyKey)
	if err != nil || len(got.Kvs) == 0 {
		return ares.Topology{}, nil, err
	}
	rec, err := unmarshal(topologyKey, got.Kvs[0].Value)
	if err != nil {
		return ares.Topology{}, nil, err
	}
	return *topologyOf(rec.GetTopology(), got.Kvs[0].ModRevision), rec, nil
}

// PutTopology replaces the whole topology if its revision is still t.Revision.
func (s *Store) PutTopology(ctx context.Context, t ares.Topology) (ares.Topology, error) {
	_, old, err := s.topology(ctx)
	if err != nil {
		return t, err
	}
	rec := topologyRecord(&t)
	if old != nil {
		copyUnknownFields(rec, old)
		copyUnknownFields(rec.GetTopology(), old.GetTopology())
	}
	value, err := marshal(rec)
	if err != nil {
		return t, err
	}
	if len(value) > ares.MaxTopologyBytes {
		return t, ares.Errorf(ares.TooLarge, "the topology has %d bytes, but the limit is %d bytes: use shorter names, or assign nodes by label instead of listing each node", len(value), ares.MaxTopologyBytes)
	}
	resp, err := s.txn(ctx, "write topology",
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(topologyKey), "=", t.Revision)},
		[]clientv3.Op{clientv3.OpPut(topologyKey, value)},
		[]clientv3.Op{clientv3.OpGet(topologyKey)})
	if err != nil {
		return t, err
	}
	if resp.Succeeded {
		t.Revision = resp.Header.Revision
		return t, nil
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && string(kvs[0].Value) == value {
		t.Revision = kvs[0].ModRevision // an earlier try succeeded
		return t, nil
	}
	return t, ares.Errorf(ares.Conflict, "the topology was changed by another request: read the topology again, and then repeat your request")
}
