package store

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// ClusterMetadata is what one writer says about one cluster, in a hub or in a copy that a member keeps. Package
// federation/metadata says which of two entries counts.
type ClusterMetadata struct {
	Cluster string
	ByHub   bool // the hub has written it; otherwise the cluster itself
	// Incarnation and Revision are the version of the entry.
	Incarnation, Revision int64
	// Value is the hub's record of the cluster, or an encoded apipb.ClusterDescription.
	Value string
	Seal  string // proves to the hub that the value is its own
}

func (m *ClusterMetadata) key() string {
	if m.ByHub {
		return metadataKey + "hub/" + m.Cluster
	}
	return metadataKey + "own/" + m.Cluster
}

// ClusterMetadata reads what this store keeps about the clusters of a hub.
func (s *Store) ClusterMetadata(ctx context.Context, hub string) ([]ClusterMetadata, error) {
	list, _, err := s.records(ctx, metadataKey)
	var out []ClusterMetadata
	for _, r := range list {
		if e, is := metadataOf(r.name, r.GetClusterMetadata(), hub); is {
			out = append(out, e)
		}
	}
	return out, err
}

// These constants limit one transaction that writes metadata. A value has at most as many bytes as the hub's record of a cluster.
const (
	maxMetadataOnce  = 60
	maxMetadataBytes = 512 << 10
)

// ChangeClusterMetadata writes the entries that the function `change` returns. The function gets what the store has of the hub,
// and is called again if that changed in between. In a cluster, the hub must be the one that the cluster has joined; in a hub,
// the hub itself.
func (s *Store) ChangeClusterMetadata(ctx context.Context, hub string, change func(was []ClusterMetadata) []ClusterMetadata) error {
	own, _, err := s.Identity(ctx)
	if err != nil {
		return err
	}
	_, err = Retry(maxTries, func() (struct{}, error) {
		got, err := s.txn(ctx, "read metadata", nil, []clientv3.Op{clientv3.OpGet(metadataKey, clientv3.WithPrefix()), clientv3.OpGet(membershipKey)}, nil)
		if err != nil {
			return struct{}{}, err
		}
		member := clientv3.Compare(clientv3.CreateRevision(membershipKey), "=", 0)
		if own.Store != hub {
			member, err = ofHub(hub, got.Responses[1].GetResponseRange().Kvs)
		}
		if err != nil {
			return struct{}{}, err
		}
		var was []ClusterMetadata
		seen := map[string]int64{}
		for _, kv := range got.Responses[0].GetResponseRange().Kvs {
			key := string(kv.Key)
			rec, err := unmarshal(key, kv.Value)
			if err != nil {
				return struct{}{}, err
			}
			seen[key] = kv.ModRevision
			if e, is := metadataOf(strings.TrimPrefix(key, metadataKey), rec.GetClusterMetadata(), hub); is {
				was = append(was, e)
			}
		}
		return struct{}{}, s.putMetadata(ctx, hub, member, seen, change(was))
	})
	return err
}

// putMetadata writes entries whose keys have the given revisions, in as many transactions as that needs.
func (s *Store) putMetadata(ctx context.Context, hub string, member clientv3.Cmp, seen map[string]int64, list []ClusterMetadata) error {
	for len(list) > 0 {
		cmps, ops, size := []clientv3.Cmp{member}, []clientv3.Op(nil), 0
		for len(list) > 0 && len(ops) < maxMetadataOnce && (size == 0 || size+len(list[0].Value) <= maxMetadataBytes) {
			e := &list[0]
			value, err := marshal(&storepb.Record{Body: &storepb.Record_ClusterMetadata{ClusterMetadata: &storepb.ClusterMetadata{
				Hub: hub, Incarnation: e.Incarnation, Revision: e.Revision, Value: []byte(e.Value), Seal: []byte(e.Seal),
			}}})
			if err != nil {
				return err
			}
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(e.key()), "=", seen[e.key()]))
			ops = append(ops, clientv3.OpPut(e.key(), value))
			size, list = size+len(e.Value), list[1:]
		}
		resp, err := s.txn(ctx, "write metadata", cmps, ops, nil)
		if err == nil && !resp.Succeeded {
			err = Conflict{ares.Errorf(ares.Exhausted, "what this store keeps about the clusters of its hub keeps changing: try again")}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ofHub returns the condition that this cluster stays a member of a hub, or an error if it is none.
func ofHub(hub string, kvs []*mvccpb.KeyValue) (clientv3.Cmp, error) {
	if len(kvs) == 0 {
		return clientv3.Cmp{}, ares.Errorf(ares.Fenced, "this cluster has left its hub")
	}
	rec, err := unmarshal(membershipKey, kvs[0].Value)
	if err != nil {
		return clientv3.Cmp{}, err
	}
	if joined := rec.GetMembership().GetHubStore(); joined != hub {
		return clientv3.Cmp{}, ares.Errorf(ares.Fenced, "the message is of hub %s, and this cluster has joined hub %s", hub, joined)
	}
	return clientv3.Compare(clientv3.CreateRevision(membershipKey), "=", kvs[0].CreateRevision), nil
}

func metadataOf(name string, m *storepb.ClusterMetadata, hub string) (ClusterMetadata, bool) {
	writer, cluster, _ := strings.Cut(name, "/")
	return ClusterMetadata{
		Cluster: cluster, ByHub: writer == "hub", Incarnation: m.GetIncarnation(), Revision: m.GetRevision(),
		Value: string(m.GetValue()), Seal: string(m.GetSeal()),
	}, m.GetHub() == hub
}
