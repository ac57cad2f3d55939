package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ares-scheduler/ares/store/storepb"
)

// ClusterKey is the key and certificate with which the servers of a member call the hub. All servers of the member share them.
// Package pki encrypts and decrypts the key.
type ClusterKey struct {
	Certificate, Authority []byte // DER
	Key                    []byte
	Salt                   []byte // nil when the key is not sealed
}

// ClusterKey reads this cluster's key and certificate. The result is nil if it has none.
func (s *Store) ClusterKey(ctx context.Context) (*ClusterKey, error) {
	got, err := s.get(ctx, clusterCertKey)
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	rec, err := unmarshal(clusterCertKey, got.Kvs[0].Value)
	if err != nil {
		return nil, err
	}
	m := rec.GetClusterKey()
	return &ClusterKey{Certificate: m.GetCertificate(), Authority: m.GetAuthority(), Key: m.GetKey(), Salt: m.GetSalt()}, nil
}

// PutClusterKey writes this cluster's key and certificate.
func (s *Store) PutClusterKey(ctx context.Context, k ClusterKey) error {
	value, err := marshal(&storepb.Record{Body: &storepb.Record_ClusterKey{ClusterKey: &storepb.ClusterKey{
		Certificate: k.Certificate, Authority: k.Authority, Key: k.Key, Salt: k.Salt,
	}}})
	if err != nil {
		return err
	}
	_, err = s.txn(ctx, "write the cluster's certificate", nil, []clientv3.Op{clientv3.OpPut(clusterCertKey, value)}, nil)
	return err
}

// DeleteClusterKey deletes this cluster's key and certificate.
func (s *Store) DeleteClusterKey(ctx context.Context) error {
	_, err := s.txn(ctx, "delete the cluster's certificate", nil, []clientv3.Op{clientv3.OpDelete(clusterCertKey)}, nil)
	return err
}
