package store

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// errUnchanged ends an update that need not write anything, because the requested state is already
// stored.
var errUnchanged = errors.New("unchanged")

// Snapshot is a job at one revision of the store.
type Snapshot struct {
	Job       *ares.Job
	Run       ares.Run
	Progress  *ares.Progress
	Tombstone *Tombstone // set alone, when the job was archived
	Revision  int64
	run       string // the run as stored
}

// Tombstone is the remaining record of an archived job.
type Tombstone struct {
	ID      ares.JobID
	Phase   ares.Phase
	EndedAt time.Time
	Digest  ares.Digest
	tenant  uint32 // a hash; 0 when an older version archived it
}

// Of is the method that reports whether the archived job belonged to the given tenant. The method compares only hashes,
// so it may return true for a wrong tenant.
func (t *Tombstone) Of(tenant string) bool { return t.tenant != 0 && t.tenant == tenantHash(tenant) }

// tenantHash returns the hash of a tenant's name for a tombstone. The hash is
// never 0.
func tenantHash(tenant string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tenant)) // a hash never fails
	return max(h.Sum32(), 1)
}

// NoJob is the error for a job that does not exist or that the caller may not see.
func NoJob(id ares.JobID) error { return ares.Errorf(ares.NotFound, "there is no job %s", id) }

// Job reads one job. The read is linearizable.
func (s *Store) Job(ctx context.Context, id ares.JobID) (Snapshot, error) {
	resp, err := s.txn(ctx, "read job", nil, []clientv3.Op{
		clientv3.OpGet(jobKey(id)), clientv3.OpGet(runKey(id)), clientv3.OpGet(progressKeyOf(id)),
	}, nil)
	if err != nil {
		return Snapshot{}, err
	}
	return snapshotOf(id, resp.Responses, resp.Header.Revision)
}

// snapshotOf decodes the answers to reads of a job, its run and its progress, in this order.
func snapshotOf(id ares.JobID, answers []*etcdserverpb.ResponseOp, revision int64) (Snapshot, error) {
	snap := Snapshot{Revision: revision}
	kvs := answers[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return snap, NoJob(id)
	}
	rec, err := unmarshal(jobKey(id), kvs[0].Value)
	if err != nil {
		return snap, err
	}
	if t := rec.GetTombstone(); t != nil {
		snap.Tombstone = tombstoneOf(id, t)
		return snap, nil
	}
	snap.Job = jobOf(rec.GetJob(), id, kvs[0].CreateRevision)
	snap.Run = ares.NewRun(snap.Job.AcceptedAt)
	if kvs = answers[1].GetResponseRange().Kvs; len(kvs) > 0 {
		if rec, err = unmarshal(runKey(id), kvs[0].Value); err != nil {
			return snap, err
		}
		snap.Run, snap.run = runOf(rec, kvs[0].ModRevision), string(kvs[0].Value)
		snap.Job = snap.Job.Updated(snap.Run.Updated)
	}
	if kvs = answers[2].GetResponseRange().Kvs; len(kvs) > 0 {
		if rec, err = unmarshal(progressKeyOf(id), kvs[0].Value); err != nil {
			return snap, err
		}
		snap.Progress = new(progressRecord(rec.GetProgress()))
	}
	return snap, nil
}

// This method applies a transition to a job's run in a transaction. The transaction compares the run's revision. If the
// transaction succeeds, the run has not changed since the transition read its phase and fence. The transaction also
// compares the job's revision. Neither an archived job nor a pending job has a run. The parameter `extra` holds further
// comparisons. If one of these further comparisons fails, the method returns the error from the last parameter.
func (s *Store) update(ctx context.Context, op string, id ares.JobID, step func(*ares.Job, *ares.Run) error, extra []clientv3.Cmp, puts []clientv3.Op, refused error) (ares.Run, error) {
	return Retry(maxTries, func() (ares.Run, error) {
		snap, err := s.Job(ctx, id)
		if err != nil {
			return ares.Run{}, err
		}
		if snap.Tombstone != nil {
			return ares.Run{Phase: snap.Tombstone.Phase}, archived{ares.Errorf(ares.Conflict, "job %s is already %s", id, snap.Tombstone.Phase)}
		}
		next := snap.Run.Clone()
		wasActive := snap.Run.Current() != nil
		err = step(snap.Job, &next)
		if errors.Is(err, errUnchanged) {
			return snap.Run, nil
		}
		if err != nil {
			return snap.Run, err
		}
		value, err := marshal(runRecord(&next))
		same := value == snap.run // the same report was stored before
		if err != nil || same && len(extra) == 0 {
			return snap.Run, err
		}
		then := slices.Clip(puts)
		if !same {
			then = append(then, clientv3.OpPut(runKey(id), value))
		}
		if wasActive && next.Current() == nil {
			then = append(then, endAttempt(id)...)
		}
		resp, err := s.txn(ctx, op, append(snap.asSeen(), extra...), then,
			[]clientv3.Op{clientv3.OpTxn(snap.asSeen(), nil, nil)})
		if err != nil {
			return snap.Run, err
		}
		if resp.Succeeded {
			if !same {
				next.Revision = resp.Header.Revision
			}
			return next, nil
		}
		// The job may have changed, so read it again. If the job is unchanged, one of the extra
		// comparisons failed.
		if refused != nil && resp.Responses[0].GetResponseTxn().Succeeded {
			return snap.Run, refused
		}
		return ares.Run{}, Conflict{ares.Errorf(ares.Exhausted, "%s: job %s keeps changing: try again", op, id)}
	})
}

// asSeen returns comparisons that fail if the job has changed since the snapshot. A live job's record is never rewritten.
func (s *Snapshot) asSeen() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(runKey(s.Job.ID)), "=", s.Run.Revision),
		clientv3.Compare(clientv3.ModRevision(jobKey(s.Job.ID)), "=", s.Job.Revision),
	}
}

// endAttempt returns operations that delete the keys that exist only during an attempt. The next
// attempt creates its lease key again, and therefore gets a new fence.
func endAttempt(id ares.JobID) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpDelete(leaseKey(id)),
		clientv3.OpDelete(claimsKey(id), clientv3.WithPrefix()),
		clientv3.OpDelete(progressKeyOf(id)),
	}
}

// RequestStop records a stop request for a running job, or ends a waiting job. If the caller names phases, the request
// is rejected unless the job is in one of them.
func (s *Store) RequestStop(ctx context.Context, id ares.JobID, stop ares.Stop, only ...ares.Phase) (ares.Run, error) {
	return s.update(ctx, "stop job", id, func(_ *ares.Job, r *ares.Run) error {
		if r.Phase == ares.Cancelled && stop.Why == ares.StopCancel {
			return errUnchanged
		}
		if r.Unconfirmed {
			return ares.Errorf(ares.Conflict, "this cluster was restored, and the hub has not confirmed job %s yet: try again later", id)
		}
		if err := inPhase(r, only); err != nil {
			return err
		}
		return r.RequestStop(stop)
	}, nil, nil, nil)
}

// SetHold holds a waiting job, or releases it. It reports whether that changed the job. A job that is archived is not held,
// so releasing it changes nothing.
func (s *Store) SetHold(ctx context.Context, id ares.JobID, held bool, by string, now time.Time) (changed bool, run ares.Run, err error) {
	run, err = s.update(ctx, "hold job", id, func(j *ares.Job, r *ares.Run) error {
		if changed, err = r.SetHold(j, held, by, now); err != nil || changed {
			return err
		}
		return errUnchanged
	}, nil, nil, nil)
	if _, gone := errors.AsType[archived](err); gone && !held {
		return false, run, nil
	}
	return changed && err == nil, run, err
}

// UpdateJob changes fields of a job that has not ended. The function `change` returns the new values for the job as it
// is stored; it may be called several times. The result says whether the job changed.
func (s *Store) UpdateJob(ctx context.Context, id ares.JobID, by string, now time.Time, only []ares.Phase, change func(*ares.Job) (ares.JobUpdate, error)) (bool, ares.Run, error) {
	changed := false
	run, err := s.update(ctx, "update job", id, func(j *ares.Job, r *ares.Run) error {
		changed = false
		if err := inPhase(r, only); err != nil {
			return err
		}
		u, err := change(j)
		if err != nil {
			return err
		}
		if changed, err = r.Update(j, u, by, now); err == nil && !changed {
			return errUnchanged
		}
		return err
	}, nil, nil, nil)
	return changed && err == nil, run, err
}

// inPhase rejects a change of a job that is in none of the given phases. Without phases, every phase is right.
func inPhase(r *ares.Run, only []ares.Phase) error {
	if len(only) == 0 || slices.Contains(only, r.Phase) {
		return nil
	}
	return ares.Errorf(ares.Conflict, "the job is %s", r.Phase)
}

// Clear frees seats of a job on one node. A seat is freed if its attempt has ended and the node no longer reports its
// fence. The server calls Clear after a report from the node under its current session. The report says that no process of
// these seats is alive. The parameter `held` lists the fences of the seats that still exist on the node.
func (s *Store) Clear(ctx context.Context, id ares.JobID, node string, session int64, held map[ares.Fence]bool) error {
	current, err := underSession(node, session)
	if err != nil {
		return err
	}
	_, err = s.update(ctx, "clear seats", id, func(_ *ares.Job, r *ares.Run) error {
		if !r.Clear(node, held, ares.Fence(session)) {
			return errUnchanged
		}
		return nil
	}, []clientv3.Cmp{current}, nil, sessionOutdated(node))
	if _, gone := errors.AsType[archived](err); gone || ares.CodeOf(err) == ares.NotFound {
		return nil // its seats were free when it was archived
	}
	return err
}

// This type is the error for a change to a job that is archived and has only a tombstone.
type archived struct{ refusal *ares.Error }

func (a archived) Error() string { return a.refusal.Error() }
func (a archived) Unwrap() error { return a.refusal }

func progressRecord(m *storepb.Progress) ares.Progress {
	return ares.Progress{Percent: m.GetPercent(), Message: m.GetMessage(), At: fromMicros(m.GetAt())}
}

func tombstoneOf(id ares.JobID, m *storepb.Tombstone) *Tombstone {
	t := &Tombstone{ID: id, Phase: ares.Phase(m.Phase), EndedAt: time.Unix(m.EndedAt, 0).UTC(), tenant: m.GetTenant()}
	copy(t.Digest[:], m.Digest)
	return t
}
