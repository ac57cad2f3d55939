package store

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// suspendAuth turns etcd's own user accounts off while the store is edited, for
// a backup does not hold their passwords, and returns how to turn them on again.
func (s *Store) suspendAuth() (resume func() error) {
	auth := s.inside.etcd.Server.AuthStore()
	if !auth.IsAuthEnabled() {
		return func() error { return nil }
	}
	auth.AuthDisable()
	return auth.AuthEnable
}

// disarm takes back the alarms of the old members: they would keep the new ones
// from writing.
func (s *Store) disarm(ctx context.Context) error {
	if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("take alarms back: %w", err)
	}
	return nil
}

// dropRights deletes sessions, leadership, leases and claims.
func (s *Store) dropRights(ctx context.Context) error {
	leases, err := s.client.Leases(ctx)
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	for _, l := range leases.Leases {
		if _, err = s.client.Revoke(ctx, l.ID); err != nil && !isLeaseGone(err) {
			return fmt.Errorf("end a lease: %w", err)
		}
	}
	_, err = s.txn(ctx, "delete sessions and leases", nil, []clientv3.Op{
		clientv3.OpDelete(sessionsKey, clientv3.WithPrefix()), clientv3.OpDelete(leasesKey, clientv3.WithPrefix()),
		clientv3.OpDelete(progressKey, clientv3.WithPrefix()), clientv3.OpDelete(leaderKey), clientv3.OpDelete(restoredKey),
	}, nil)
	return err
}

// endRuns ends what was under way, makes final what history shows as ended, and
// finds the longest patience of any job.
func (s *Store) endRuns(ctx context.Context, r *Restoration, done *Restored) error {
	longest, err := s.longestOfTenants(ctx)
	if err != nil {
		return err
	}
	history, w := byAcceptance(r.Ended), s.write()
	err = s.each(ctx, jobsKey, func(key string, rec *storepb.Record, created int64) error {
		if rec.GetJob() == nil {
			return nil // a tombstone
		}
		_, name := rest(key)
		job := jobOf(rec.GetJob(), ares.JobID(name), created)
		longest = max(longest, job.LostAfter())
		run, bad := s.runOrNew(ctx, job)
		if bad != nil || run.Phase.Final() {
			return bad
		}
		for _, e := range history[job.ID] {
			if e.Accepted == job.Revision {
				done.Final++
				w.entomb(e)
				return w.flushFull(ctx)
			}
		}
		changed, bad := run.Restore(job, r.Now)
		if bad != nil {
			return fmt.Errorf("job %s: %w", job.ID, bad)
		}
		if changed {
			done.Lost++
			w.put(runKey(job.ID), runRecord(&run))
		}
		if !run.Phase.Final() {
			done.Jobs++
		}
		return w.flushFull(ctx)
	})
	if err != nil {
		return err
	}
	if done.Hold == 0 {
		done.Hold = longest
	}
	return w.flush(ctx)
}

func (s *Store) longestOfTenants(ctx context.Context) (time.Duration, error) {
	longest := ares.DefaultLostAfter
	err := s.each(ctx, tenantsKey, func(_ string, rec *storepb.Record, _ int64) error {
		longest = max(longest, time.Duration(rec.GetTenant().GetLostAfterSeconds())*time.Second)
		return nil
	})
	return longest, err
}

func (s *Store) runOrNew(ctx context.Context, job *ares.Job) (ares.Run, error) {
	got, err := s.get(ctx, runKey(job.ID))
	if err != nil || len(got.Kvs) == 0 {
		return ares.NewRun(job.AcceptedAt), err
	}
	rec, err := unmarshal(runKey(job.ID), got.Kvs[0].Value)
	if err != nil {
		return ares.Run{}, err
	}
	return runOf(rec, got.Kvs[0].ModRevision), nil
}

// rememberEnded leaves a tombstone for every job that was accepted after the
// backup and has ended: the same request must not run again.
func (s *Store) rememberEnded(ctx context.Context, r *Restoration, done *Restored) error {
	w := s.write()
	for id, list := range byAcceptance(r.Ended) { // order-free: each job for itself
		e := list[len(list)-1]
		if e.Accepted <= done.Snapshot {
			continue // the snapshot knows of it, or had forgotten it
		}
		got, err := s.get(ctx, jobKey(id))
		if err != nil {
			return err
		}
		if len(got.Kvs) > 0 {
			rec, bad := unmarshal(jobKey(id), got.Kvs[0].Value)
			if bad != nil {
				return bad
			}
			if rec.GetTombstone() == nil {
				continue // an older request of that name, which has not ended
			}
		}
		done.Final++
		w.entomb(e)
		if err = w.flushFull(ctx); err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

// each calls fn with every record below a prefix.
func (s *Store) each(ctx context.Context, room string, fn func(key string, rec *storepb.Record, created int64) error) error {
	from, end := room, clientv3.GetPrefixRangeEnd(room)
	for {
		got, err := s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			rec, err := unmarshal(string(kv.Key), kv.Value)
			if err != nil {
				return err
			}
			if err = fn(string(kv.Key), rec, kv.CreateRevision); err != nil {
				return err
			}
		}
		if !got.More {
			return nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// writer gathers writes of a store that nobody else uses, many to a transaction.
type writer struct {
	s    *Store
	ops  []clientv3.Op
	size int
	err  error
}

// What one transaction takes at most; etcd allows 128 operations, and the
// embedded one 4 MiB.
const (
	maxWriterOps   = 120
	maxWriterBytes = 1 << 20
)

func (s *Store) write() *writer { return &writer{s: s} }

func (w *writer) put(key string, rec *storepb.Record) {
	value, err := marshal(rec)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.ops, w.size = append(w.ops, clientv3.OpPut(key, value)), w.size+len(value)
}

// entomb leaves a tombstone of a job that has ended.
func (w *writer) entomb(e Ended) {
	w.put(jobKey(e.Job), &storepb.Record{Body: &storepb.Record_Tombstone{Tombstone: &storepb.Tombstone{
		Digest: e.Digest[:], Phase: string(e.Phase), EndedAt: e.At.Unix(),
	}}})
	w.ops = append(w.ops, clientv3.OpDelete(runKey(e.Job)), clientv3.OpDelete(awaitedOf(e.Job)), clientv3.OpDelete(forecastOf(e.Job)))
}

// flushFull writes when there is enough.
func (w *writer) flushFull(ctx context.Context) error {
	if len(w.ops) < maxWriterOps && w.size < maxWriterBytes {
		return nil
	}
	return w.flush(ctx)
}

func (w *writer) flush(ctx context.Context) error {
	if w.err != nil || len(w.ops) == 0 {
		return w.err
	}
	_, err := w.s.txn(ctx, "restore", nil, w.ops, nil)
	w.ops, w.size = nil, 0
	return err
}

func holdRecord(h *Hold) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Restored{Restored: &storepb.Restored{
		Restore: h.Restore, RestoredAt: micros(h.RestoredAt), HoldMs: h.For.Milliseconds(), SnapshotRevision: h.Snapshot,
	}}}
}
