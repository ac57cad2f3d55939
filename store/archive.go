package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Archive replaces a finished job with a tombstone. A client that repeats its submission much
// later still finds the tombstone. The job's devices must all be free. Archive fails if another
// server has become leader. A caller that is not a leader passes nil as the parameter `lead`. If
// another job has ever depended on the job, use ArchiveUsed.
func (s *Store) Archive(ctx context.Context, job *ares.Job, run *ares.Run, lead *Leadership) error {
	return s.archive(ctx, job, run, lead, nil, 0)
}

// ArchiveUsed is like Archive. The caller must know that no live job depended on this job at the
// given revision. ArchiveUsed fails if a job that depends on this job was accepted after the
// given revision. The same transaction replaces the queue's stored usage with the given usage,
// which must include the job. The caller must compute it from the usage that is currently stored.
// The job's usage is therefore counted exactly once, either with the live jobs or with the
// archived jobs. If the given usage is nil, the stored usage does not change.
func (s *Store) ArchiveUsed(ctx context.Context, job *ares.Job, run *ares.Run, usage *ares.Usage, lead *Leadership, revision int64) error {
	return s.archive(ctx, job, run, lead, usage, revision)
}

func (s *Store) archive(ctx context.Context, job *ares.Job, run *ares.Run, lead *Leadership, usage *ares.Usage, revision int64) error {
	if !run.Phase.Final() || !run.Free() {
		return ares.Errorf(ares.Conflict, "job %s is %s and cannot be archived: it must have ended and released its devices", job.ID, run.Phase)
	}
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Tombstone{Tombstone: &storepb.Tombstone{
		Digest: job.Digest[:], Phase: string(run.Phase), EndedAt: run.FinishedAt.Unix(), Tenant: tenantHash(job.Tenant),
	}}})
	if err != nil {
		return err
	}
	cmps := append(lead.and(clientv3.Compare(clientv3.ModRevision(runKey(job.ID)), "=", run.Revision)),
		clientv3.Compare(clientv3.ModRevision(awaitedKeyOf(job.ID)), "<", revision+1))
	ops := []clientv3.Op{
		clientv3.OpPut(jobKey(job.ID), value),
		clientv3.OpDelete(awaitedKeyOf(job.ID)),
		clientv3.OpDelete(runKey(job.ID)),
		clientv3.OpDelete(progressKeyOf(job.ID)),
		clientv3.OpDelete(forecastKeyOf(job.ID)),
	}
	if job.Origin != nil && job.ArrayOf == "" {
		seen, puts, bad := s.floorOfArchived(ctx, job, run)
		if bad != nil {
			return bad
		}
		cmps, ops = append(cmps, seen), append(ops, puts...)
	}
	if usage != nil {
		seen, put, bad := s.usageWrite(ctx, usage)
		if bad != nil {
			return bad
		}
		cmps, ops = append(cmps, seen), append(ops, put)
	}
	resp, err := s.txn(ctx, "archive job", cmps, ops, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Conflict, "job %s was not archived: either the job changed, or another job depends on it, or this server is no longer the leader", job.ID)
	}
	return err
}

// Forget removes the tombstones of jobs that ended before the given time. It returns how many
// tombstones it removed. Once a tombstone is removed, a new job may use the same request ID.
// Forget also removes acknowledged floors of granted jobs that are as old. Forget removes nothing if another server has
// become leader.
func (s *Store) Forget(ctx context.Context, before time.Time, lead *Leadership) (int, error) {
	from, end, n := jobsKey, clientv3.GetPrefixRangeEnd(jobsKey), 0
	for {
		got, err := s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return n, err
		}
		for _, kv := range got.Kvs {
			rec, err := unmarshal(string(kv.Key), kv.Value)
			if err != nil {
				return n, err
			}
			t := rec.GetTombstone()
			if t == nil || t.EndedAt >= before.Unix() {
				continue
			}
			resp, err := s.txn(ctx, "forget job",
				lead.and(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)),
				[]clientv3.Op{clientv3.OpDelete(string(kv.Key))}, nil)
			if err != nil {
				return n, err
			}
			if resp.Succeeded {
				n++
			}
		}
		if !got.More {
			return n, s.forgetFloors(ctx, before, lead)
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}
