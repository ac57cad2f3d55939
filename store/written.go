package store

import (
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Written returns the highest store revision that this process is known to have written. A view
// that has reached this revision includes every change that this process has acknowledged.
func (s *Store) Written() int64 { return s.written.Load() }

// This method records the revision of a transaction that changed a key. If a transaction
// changed nothing, its revision may come from another program that uses the same etcd. No
// watch would report that revision.
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

// This function reports whether an operation, or an operation nested in it, changed a key.
func changed(r *etcdserverpb.ResponseOp) bool {
	return r.GetResponsePut() != nil || r.GetResponseDeleteRange().GetDeleted() > 0 ||
		slices.ContainsFunc(r.GetResponseTxn().GetResponses(), changed)
}
