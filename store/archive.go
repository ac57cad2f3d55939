package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Archive replaces a finished job by a tombstone, so that a late repetition of
// its request still finds it. The job's devices must all be free. It compares
// leadership, unless lead is nil because whoever calls it leads nothing. A job
// that others were ever to come after needs ArchiveUsed.
func (s *Store) Archive(ctx context.Context, job *ares.Job, run *ares.Run, lead *Leadership) error {
	return s.archive(ctx, job, run, lead, nil, 0)
}

// ArchiveUsed is Archive for somebody who knows, as of a revision, that no job
// waits for this one any more: it is refused if one was accepted since. It puts
// usage, which has the job's share in it, in place of the one at its revision:
// what a job used is counted live or as past, never both and never neither. A
// nil usage counts nothing.
func (s *Store) ArchiveUsed(ctx context.Context, job *ares.Job, run *ares.Run, usage *ares.Usage, lead *Leadership, revision int64) error {
	return s.archive(ctx, job, run, lead, usage, revision)
}

func (s *Store) archive(ctx context.Context, job *ares.Job, run *ares.Run, lead *Leadership, usage *ares.Usage, revision int64) error {
	if !run.Phase.Final() || !run.Free() {
		return ares.Errorf(ares.Conflict, "job %s is %s and holds seats: it cannot be archived", job.ID, run.Phase)
	}
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Tombstone{Tombstone: &storepb.Tombstone{
		Digest: job.Digest[:], Phase: string(run.Phase), EndedAt: run.FinishedAt.Unix(), Tenant: tenantHash(job.Tenant),
	}}})
	if err != nil {
		return err
	}
	cmps := append(lead.and(clientv3.Compare(clientv3.ModRevision(runKey(job.ID)), "=", run.Revision)),
		clientv3.Compare(clientv3.ModRevision(awaitedOf(job.ID)), "<", revision+1))
	ops := []clientv3.Op{
		clientv3.OpPut(jobKey(job.ID), value),
		clientv3.OpDelete(awaitedOf(job.ID)),
		clientv3.OpDelete(runKey(job.ID)),
		clientv3.OpDelete(progressOf(job.ID)),
		clientv3.OpDelete(forecastOf(job.ID)),
	}
	if usage != nil {
		seen, put, bad := s.book(ctx, usage)
		if bad != nil {
			return bad
		}
		cmps, ops = append(cmps, seen), append(ops, put)
	}
	resp, err := s.txn(ctx, "archive job", cmps, ops, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Conflict, "job %s changed, is awaited by another, or this server leads no more: it was not archived", job.ID)
	}
	return err
}

// Forget removes tombstones of jobs that ended before a time and returns how
// many. After that their request IDs may be used anew. It compares leadership
// as Archive does.
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
			return n, nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}
