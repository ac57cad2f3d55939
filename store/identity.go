package store

import (
	"context"
	"crypto/rand"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Identity tells one store from another, and a restored one from what it was
// before.
type Identity struct {
	Store   string
	Restore string // of the last restore, "" before the first
}

// Identity reads which store this is and its present revision, linearizable.
// A store that has no identity yet is given one.
func (s *Store) Identity(ctx context.Context) (Identity, int64, error) {
	for range maxTries {
		got, err := s.get(ctx, identityKey)
		if err != nil {
			return Identity{}, 0, err
		}
		if len(got.Kvs) > 0 {
			rec, readErr := unmarshal(identityKey, got.Kvs[0].Value)
			if readErr != nil {
				return Identity{}, 0, readErr
			}
			m := rec.GetIdentity()
			return Identity{Store: m.GetStore(), Restore: m.GetRestore()}, got.Header.Revision, nil
		}
		value, err := marshal(identityRecord(Identity{Store: rand.Text()}))
		if err != nil {
			return Identity{}, 0, err
		}
		_, err = s.txn(ctx, "name the store",
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(identityKey), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(identityKey, value)}, nil)
		if err != nil {
			return Identity{}, 0, err
		}
	}
	return Identity{}, 0, ares.Errorf(ares.Exhausted, "the store's identity does not stay: try again")
}

func identityRecord(id Identity) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Identity{Identity: &storepb.Identity{Store: id.Store, Restore: id.Restore}}}
}

// Hold is what a restore leaves for the first leader: so long nothing may be
// placed, because processes that the store does not know of may live.
type Hold struct {
	Restore    string
	RestoredAt time.Time // wall clock of whoever restored it
	For        time.Duration
	Snapshot   int64 // revision of the backup
	revision   int64
}

// Hold reads what a restore has left, nil when there is nothing to wait for.
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

// EndHold notes that a leader has waited. It compares leadership: whoever was
// replaced has not waited for its successor.
func (s *Store) EndHold(ctx context.Context, lead *Leadership, h *Hold) error {
	resp, err := s.txn(ctx, "end the wait after a restore",
		lead.and(clientv3.Compare(clientv3.ModRevision(restoredKey), "=", h.revision)),
		[]clientv3.Op{clientv3.OpDelete(restoredKey)}, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Fenced, "this server leads no more, or the wait was ended by another")
	}
	return err
}
