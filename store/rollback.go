package store

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Rollback is the record of a server that has noticed that the store was put back to an earlier time without a restore. While
// a store has this record, it has no leader, so that no fencing token is issued a second time. Only a restore removes it.
//
// Without the record, only servers whose own marks are higher than the store's revision would notice the rollback. If only a
// few revisions were lost, agents may write as many before the other servers compare, and one of those would lead.
//
// The record belongs to one identity, which is a part of its key. A restore gives the store a new identity. So the record of
// an earlier identity has no effect, whichever backup or program it comes from.
type Rollback struct {
	Server string // that has noticed it, "" for the server that has just noticed it
	Seen   int64  // the highest revision of the store that the server had seen
	Found  int64  // the revision that the store had. Invariant: Found < Seen.
	At     time.Time
}

// Refusal returns the error with which every server refuses to lead. The parameter `restore` is the last restore of the store,
// "" if there was none.
func (r *Rollback) Refusal(restore string) *ares.Error {
	how := "without `ares restore`"
	if restore != "" {
		how = "without `ares restore`, or `ares restore` ran with a --revision-bump that is too small"
	}
	who := "this server"
	if r.Server != "" {
		who = "server " + r.Server
	}
	return ares.Errorf(ares.Unavailable, "%s has seen revision %d of the store, but found it at revision %d%s: "+
		"the store was put back to an earlier time %s, and would issue fencing tokens a second time, so no server may lead. "+
		"Make a backup with `ares backup`, stop every server, restore that backup with `ares restore`, and start the servers again",
		who, r.Seen, r.Found, r.when(), how)
}

func (r *Rollback) when() string {
	if r.At.IsZero() {
		return ""
	}
	return " at " + r.At.UTC().Format(time.RFC3339)
}

// rollbackKey returns the key of the record for one identity.
func rollbackKey(id *Identity) string { return rollbacksKey + id.Store + "/" + id.Restore }

func rollbackOf(kv *mvccpb.KeyValue) (*Rollback, error) {
	rec, err := unmarshal(string(kv.Key), kv.Value)
	if err != nil {
		return nil, err
	}
	m := rec.GetRollback()
	return &Rollback{Server: m.GetServer(), Seen: m.GetSeen(), Found: m.GetFound(), At: fromMicros(m.GetAt())}, nil
}

// isCurrent returns a comparison that fails unless the store still has this identity, of this restore.
func (id *Identity) isCurrent() clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(identityKey), "=", id.record)
}

// isNotRolledBack returns a comparison that fails if a server has noticed a rollback of the store with this identity.
func (id *Identity) isNotRolledBack() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(rollbackKey(id)), "=", 0)
}

// NoteRollback records that a server has noticed a rollback of the store, and ends the term of the current leader. It returns
// the record that stands: if several servers notice the rollback, the first one's record stays. The identity must be the one
// that was read together with the revision that shows the rollback. If the store has another identity since, because it was
// restored, or because the connection leads to another store, nothing is written.
//
// The evidence must be the server's own. The report of an agent must never lead here, because whoever controls one node could
// then stop the whole cluster.
//
// The same transaction deletes the leader's key, and no server can create that key while the record stands (see campaign). So
// from this transaction on, no transaction of a leader succeeds, and no fencing token is issued. The old leader may not know
// that for a moment, but each of its plans is rejected.
func (s *Store) NoteRollback(ctx context.Context, id Identity, r Rollback) (*Rollback, error) {
	if r.Server == "" || r.Found >= r.Seen {
		return nil, ares.Errorf(ares.Invalid, "revision %d of the store, found by server %q after revision %d, is no rollback", r.Found, r.Server, r.Seen)
	}
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Rollback{Rollback: &storepb.Rollback{
		Server: r.Server, Seen: r.Seen, Found: r.Found, At: micros(r.At),
	}}})
	if err != nil {
		return nil, err
	}
	resp, err := s.txn(ctx, "note a rollback", []clientv3.Cmp{id.isCurrent(), id.isNotRolledBack()},
		[]clientv3.Op{clientv3.OpPut(rollbackKey(&id), value), clientv3.OpDelete(leaderKey)},
		[]clientv3.Op{clientv3.OpTxn([]clientv3.Cmp{id.isCurrent()}, []clientv3.Op{clientv3.OpGet(rollbackKey(&id))}, nil)})
	if err != nil {
		return nil, err
	}
	if resp.Succeeded {
		return &r, nil
	}
	for _, answer := range resp.Responses[0].GetResponseTxn().Responses {
		if kvs := answer.GetResponseRange().Kvs; len(kvs) > 0 {
			return rollbackOf(kvs[0])
		}
	}
	return nil, ares.Errorf(ares.Fenced, "the store was restored, or replaced by another one, since it was read: its rollback is not recorded")
}
