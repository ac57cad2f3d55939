package store

import (
	"context"
	"crypto/rand"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Identity distinguishes one store from another, and a restored store from the store before the restore.
type Identity struct {
	Store   string
	Restore string // ID of the last restore, "" before the first
	// RolledBack is set if a server has noticed that this store was put back to an earlier time. Then no server may lead.
	RolledBack *Rollback
	record     string // the encoded record, as it was read
}

// Identity reads this store's identity and current revision with a linearizable read. The same read says whether a server has
// noticed a rollback of this store. A store without an identity gets a new one.
func (s *Store) Identity(ctx context.Context) (id Identity, revision int64, err error) {
	id, err = Retry(maxTries, func() (Identity, error) {
		resp, err := s.txn(ctx, "read the identity", nil, []clientv3.Op{
			clientv3.OpGet(identityKey), clientv3.OpGet(rollbacksKey, clientv3.WithPrefix()),
		}, nil)
		if err != nil {
			return Identity{}, err
		}
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			revision = resp.Header.Revision
			return identityOf(kvs[0], resp.Responses[1].GetResponseRange().Kvs)
		}
		_, _, err = s.readOrCreate(ctx, "name the store", "the store's identity", identityKey, func() (*storepb.Record, error) {
			return identityRecord(Identity{Store: rand.Text()}), nil
		})
		if err != nil {
			return Identity{}, err
		}
		return Identity{}, Conflict{ares.Errorf(ares.Exhausted, "the store's identity keeps changing: try again")}
	})
	return id, revision, err
}

// identityOf decodes the record of the identity, and the record of a rollback of this store. Records of rollbacks that have
// another identity in their keys are of another store, or of this store before a restore: they have no effect.
func identityOf(kv *mvccpb.KeyValue, rollbacks []*mvccpb.KeyValue) (Identity, error) {
	rec, err := unmarshal(identityKey, kv.Value)
	if err != nil {
		return Identity{}, err
	}
	id := Identity{Store: rec.GetIdentity().GetStore(), Restore: rec.GetIdentity().GetRestore(), record: string(kv.Value)}
	for _, r := range rollbacks {
		if string(r.Key) == rollbackKey(&id) {
			id.RolledBack, err = rollbackOf(r)
		}
	}
	return id, err
}

// ObjectsIdentity returns the ID of the directory in which the servers of this store keep objects. If none is recorded yet, it
// records the given one. A server whose directory has another ID must not use it.
func (s *Store) ObjectsIdentity(ctx context.Context, mine string) (string, error) {
	rec, _, err := s.readOrCreate(ctx, "record the directory for objects", "the directory for objects", objectsKey, func() (*storepb.Record, error) {
		return identityRecord(Identity{Store: mine}), nil
	})
	return rec.GetIdentity().GetStore(), err
}

func identityRecord(id Identity) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Identity{Identity: &storepb.Identity{Store: id.Store, Restore: id.Restore}}}
}

// Hold is a record that a restore writes for the first leader after the restore. The leader
// must not place any job until the time in the record is over. Until then, processes that are
// not recorded in the store may still be alive.
type Hold struct {
	Restore    string
	RestoredAt time.Time // wall clock of the machine that restored it
	For        time.Duration
	Snapshot   int64 // revision of the backup
	revision   int64
}

// Hold reads the hold record that the last restore wrote. If the
// store has no such record, the method returns nil.
func (s *Store) Hold(ctx context.Context) (*Hold, error) {
	got, err := s.get(ctx, restoredKey)
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	rec, err := unmarshal(restoredKey, got.Kvs[0].Value)
	if err != nil {
		return nil, err
	}
	m := rec.GetRestored()
	return &Hold{
		Restore: m.GetRestore(), RestoredAt: fromMicros(m.GetRestoredAt()), For: time.Duration(m.GetHoldMs()) * time.Millisecond,
		Snapshot: m.GetSnapshotRevision(), revision: got.Kvs[0].ModRevision,
	}, nil
}

// EndHold records that a leader has waited for the whole time that a hold record requires. EndHold fails
// if another server has become leader. A replaced leader therefore cannot end the hold for its
// successor.
func (s *Store) EndHold(ctx context.Context, lead *Leadership, h *Hold) error {
	resp, err := s.txn(ctx, "end the wait after a restore",
		lead.and(clientv3.Compare(clientv3.ModRevision(restoredKey), "=", h.revision)),
		[]clientv3.Op{clientv3.OpDelete(restoredKey)}, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Fenced, "either this server is no longer the leader, or another server already ended the waiting period after the restore")
	}
	return err
}
