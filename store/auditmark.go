package store

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/store/storepb"
)

// markOrigin names a mark in messages.
const markOrigin = "the mark in the store"

// AuditMark reads the position that the audit log of a server had reached when it was last marked. Without a mark, the
// sequence number is 0. AuditMark implements audit.MarkStore.
func (s *Store) AuditMark(ctx context.Context, server string) (audit.Mark, error) {
	m, _, err := s.auditMark(ctx, server)
	return m, err
}

func (s *Store) auditMark(ctx context.Context, server string) (m audit.Mark, revision int64, err error) {
	m = audit.Mark{Server: server, Origin: markOrigin}
	key := auditMarkKey(server)
	got, err := s.get(ctx, key)
	if err != nil || len(got.Kvs) == 0 {
		return m, 0, err
	}
	read, err := markOf(key, got.Kvs[0].Value)
	if err != nil {
		return m, 0, err
	}
	return read, got.Kvs[0].ModRevision, nil
}

// AuditMarks returns the marks of all servers that ever wrote to this store, including those that are gone.
func (s *Store) AuditMarks(ctx context.Context) ([]audit.Mark, error) {
	got, err := s.get(ctx, auditMarksKey, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	var out []audit.Mark
	for _, kv := range got.Kvs {
		m, err := markOf(string(kv.Key), kv.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// markOf reads the record of a mark.
func markOf(key string, value []byte) (audit.Mark, error) {
	rec, err := unmarshal(key, value)
	if err != nil {
		return audit.Mark{}, err
	}
	r := rec.GetAuditMark()
	return audit.Mark{
		Server: strings.TrimPrefix(key, auditMarksKey), Origin: markOrigin,
		Sequence: r.GetSequence(), Hash: r.GetHash(), Key: r.GetKey(), Time: fromMicros(r.GetAt()),
	}, nil
}

// MoveAuditMark replaces the mark `from` by the mark `to`. A mark never goes back: if the stored mark is another one,
// MoveAuditMark changes nothing and returns the code Conflict. MoveAuditMark implements audit.MarkStore.
func (s *Store) MoveAuditMark(ctx context.Context, from, to audit.Mark) error {
	stored, revision, err := s.auditMark(ctx, to.Server)
	switch {
	case err != nil:
		return err
	case stored.Sequence == to.Sequence && stored.Hash == to.Hash:
		return nil // an earlier try succeeded
	case stored.Sequence != from.Sequence || stored.Hash != from.Hash || to.Sequence <= stored.Sequence:
		return s.otherMark(&stored)
	}
	value, err := marshal(&storepb.Record{Body: &storepb.Record_AuditMark{AuditMark: &storepb.AuditMark{
		Sequence: to.Sequence, Hash: to.Hash, Key: to.Key, At: micros(to.Time),
	}}})
	if err != nil {
		return err
	}
	key := auditMarkKey(to.Server)
	resp, err := s.txn(ctx, "mark the audit log", []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)},
		[]clientv3.Op{clientv3.OpPut(key, value)}, nil)
	if err == nil && !resp.Succeeded {
		return s.otherMark(&stored)
	}
	return err
}

func (s *Store) otherMark(stored *audit.Mark) error {
	return ares.Errorf(ares.Conflict, "the mark of the audit log of server %s in the store was changed by another process, and is now entry %d: check that no other server has the same name",
		stored.Server, stored.Sequence)
}
