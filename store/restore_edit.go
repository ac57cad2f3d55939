package store

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// suspendAuth turns off etcd's user accounts while the store is edited. A backup does not hold the
// passwords of these accounts. The method returns a function that turns the user accounts on
// again.
func (s *Store) suspendAuth() (resume func() error) {
	auth := s.inside.etcd.Server.AuthStore()
	if !auth.IsAuthEnabled() {
		return func() error { return nil }
	}
	auth.AuthDisable()
	return auth.AuthEnable
}

// This method clears the alarms of the old members. These alarms would prevent the new members
// from writing.
func (s *Store) disarm(ctx context.Context) error {
	if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("clear alarms: %w", err)
	}
	return nil
}

// dropRights deletes all sessions, leases and claims, the record of the current leader, and the records of rollbacks, which
// prevent that a leader is elected.
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
		clientv3.OpDelete(rollbacksKey, clientv3.WithPrefix()),
	}, nil)
	return err
}

// endRuns ends the attempts that were running. For each job that has ended according to
// history, endRuns sets the final phase. The method also finds the longest lost_after of all
// jobs.
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
		_, name := splitKey(key)
		job := jobOf(rec.GetJob(), ares.JobID(name), created)
		longest = max(longest, job.LostAfter())
		run, bad := s.runOrNew(ctx, job)
		if bad != nil || run.Phase.Final() && !(r.AsCopy && job.Origin != nil) {
			return bad
		}
		if r.AsCopy && job.Origin != nil {
			done.Granted++
			w.drop(job.ID)
			return w.flushFull(ctx)
		}
		for _, e := range history[job.ID] {
			if e.Accepted == job.Revision {
				done.Final++
				w.putTombstone(e)
				w.putFloorOf(job, &run, e)
				return w.flushFull(ctx)
			}
		}
		changed, bad := restoreRun(job, &run, r, done)
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
	if done.Hold == 0 && !done.Asks { // a hub places nothing
		done.Hold = longest
	}
	return w.flush(ctx)
}

func (s *Store) longestOfTenants(ctx context.Context) (time.Duration, error) {
	// A job that was accepted after the backup is unknown here. It may have the default of an earlier version.
	longest := max(ares.DefaultLostAfter, ares.EarlierLostAfter)
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

// rememberEnded writes a tombstone for every job that was accepted after the backup and has ended.
// A repeated request then does not run the job again.
func (s *Store) rememberEnded(ctx context.Context, r *Restoration, done *Restored) error {
	w := s.write()
	for id, list := range byAcceptance(r.Ended) { // order-free: each job is handled separately
		e := list[len(list)-1]
		if e.Accepted <= done.Snapshot {
			continue // the snapshot has the job, or its tombstone was already removed
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
				continue // an older request with that ID that has not ended
			}
		}
		done.Final++
		w.putTombstone(e)
		if err = w.flushFull(ctx); err != nil {
			return err
		}
	}
	return w.flush(ctx)
}

// This method calls the function `fn` with every record whose key begins with a prefix.
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

// A `writer` batches writes into transactions. A `writer` may be used only while nothing else uses
// the store.
type writer struct {
	s    *Store
	ops  []clientv3.Op
	size int
	err  error
}

// A writer's transaction must not exceed these limits. In one transaction, etcd
// allows 128 operations. The embedded etcd allows 4 MiB.
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

// putTombstone writes a tombstone for a job that has ended.
func (w *writer) putTombstone(e Ended) {
	w.put(jobKey(e.Job), &storepb.Record{Body: &storepb.Record_Tombstone{Tombstone: &storepb.Tombstone{
		Digest: e.Digest[:], Phase: string(e.Phase), EndedAt: e.At.Unix(),
	}}})
	w.ops = append(w.ops, clientv3.OpDelete(runKey(e.Job)), clientv3.OpDelete(awaitedKeyOf(e.Job)), clientv3.OpDelete(forecastKeyOf(e.Job)), clientv3.OpDelete(grantKey(e.Job)))
}

// flushFull writes the batch if it is full.
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
