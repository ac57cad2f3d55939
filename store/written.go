package store

import (
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Written is the highest revision that this process is known to have written. Who
// shows what a watch has told shows no less than this process has answered when the
// watch has come so far.
func (s *Store) Written() int64 { return s.written.Load() }

// wrote notes a transaction, if it changed something: the revision of one that did
// not may be that of somebody else who uses the etcd, of which no watch tells.
func (s *Store) wrote(resp *clientv3.TxnResponse) {
	if !slices.ContainsFunc(resp.Responses, changed) {
		return
	}
	for {
		known := s.written.Load()
		if known >= resp.Header.GetRevision() || s.written.CompareAndSwap(known, resp.Header.GetRevision()) {
			return
		}
	}
}

// changed says whether an operation did, or any of those in a transaction within.
func changed(r *etcdserverpb.ResponseOp) bool {
	return r.GetResponsePut() != nil || r.GetResponseDeleteRange().GetDeleted() > 0 ||
		slices.ContainsFunc(r.GetResponseTxn().GetResponses(), changed)
}
