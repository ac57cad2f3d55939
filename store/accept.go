package store

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Accepted is what a member did with a job that was granted to it.
type Accepted string

// The answers of Accept.
const (
	AcceptedNew      Accepted = "new"      // the job was created
	AcceptedRepeated Accepted = "repeated" // the job was created before, under the same grant
	AcceptedTaken    Accepted = "taken"    // another job has this ID: the member reports that
	AcceptedIgnored  Accepted = "ignored"  // the member has given back, ended or dropped this grant or a later one
)

// Accept creates a job that the hub has bound to this member. The job's Origin names the grant. Only the absence of the ID
// decides (F7): a job with another origin is never taken for the granted one. A grant at or below the floor is ignored (F3).
//
// A job of the same hub that was returned or has ended under an earlier grant is replaced. That needs two transactions,
// because a job's record is created only once: the first writes the floor and deletes the records. Accept may be repeated
// after each of them.
func (s *Store) Accept(ctx context.Context, job *ares.Job, now time.Time) (Accepted, error) {
	if job.Origin == nil || job.Origin.Hub == "" || job.Origin.Epoch <= 0 {
		return "", ares.Errorf(ares.Invalid, "job %s has no grant: only a granted job can be accepted from a hub", job.ID)
	}
	value, err := marshal(jobRecord(job))
	if err != nil {
		return "", err
	}
	return Retry(maxTries, func() (Accepted, error) {
		m, err := s.readHeld(ctx, job.ID)
		if err != nil {
			return "", err
		}
		answer, err := m.answer(job)
		if err != nil || answer == AcceptedRepeated || answer == AcceptedIgnored {
			return answer, err
		}
		cmps := m.compare()
		var writes []clientv3.Op
		switch {
		case answer == AcceptedTaken:
			put, err := putFloor(&Floor{Job: job.ID, Hub: job.Origin.Hub, Epoch: job.Origin.Epoch, Outcome: GrantTaken, At: now})
			if err != nil {
				return "", err
			}
			writes = []clientv3.Op{put, clientv3.OpDelete(grantClaimKey(job.ID))}
		case m.exists():
			if writes, err = m.clear(now); err != nil {
				return "", err
			}
		default:
			cmps = append(cmps, keyExists(tenantKey(job.Tenant)))
			if q := queueNeeded(job); q != "" {
				cmps = append(cmps, keyExists(q))
			}
			writes = []clientv3.Op{clientv3.OpPut(jobKey(job.ID), value), clientv3.OpDelete(grantClaimKey(job.ID))}
		}
		resp, err := s.txn(ctx, "accept granted job", cmps, writes, []clientv3.Op{clientv3.OpTxn(m.compare(), nil, nil)})
		switch {
		case err != nil:
			return "", err
		case resp.Succeeded && answer == AcceptedNew && m.exists():
			return "", Conflict{ares.Errorf(ares.Exhausted, "accept job %s: the job keeps changing: try again", job.ID)} // its records are deleted: create it now
		case resp.Succeeded:
			return answer, nil
		case resp.Responses[0].GetResponseTxn().Succeeded:
			return "", ares.Errorf(ares.Conflict, "tenant %s or its queue %s does not exist in this cluster", job.Tenant, job.Queue)
		}
		return "", Conflict{ares.Errorf(ares.Exhausted, "accept job %s: the job keeps changing: try again", job.ID)}
	})
}

// heldJob is what a member knows about the ID of a granted job, read at one revision.
type heldJob struct {
	Snapshot

	id            ares.JobID
	floor         *Floor // nil if there is none
	floorRevision int64
	jobRevision   int64 // revision of the job or its tombstone, 0 if there is neither
}

func (s *Store) readHeld(ctx context.Context, id ares.JobID) (m heldJob, err error) {
	m.id = id
	resp, err := s.txn(ctx, "read granted job", nil, []clientv3.Op{
		clientv3.OpGet(jobKey(id)), clientv3.OpGet(runKey(id)), clientv3.OpGet(progressKeyOf(id)), clientv3.OpGet(floorKey(id)),
	}, nil)
	if err != nil {
		return m, err
	}
	m.Snapshot, err = snapshotOf(id, resp.Responses[:3], resp.Header.Revision)
	if err != nil && ares.CodeOf(err) != ares.NotFound {
		return m, err
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		m.jobRevision = kvs[0].ModRevision
	}
	return m, m.readFloor(resp.Responses[3])
}

func (m *heldJob) readFloor(answer *etcdserverpb.ResponseOp) error {
	kvs := answer.GetResponseRange().Kvs
	if len(kvs) == 0 {
		return nil
	}
	rec, err := unmarshal(floorKey(m.id), kvs[0].Value)
	if err != nil {
		return err
	}
	f := floorOf(rec.GetFloor(), m.id)
	m.floor, m.floorRevision = &f, kvs[0].ModRevision
	return nil
}

func (m *heldJob) exists() bool { return m.jobRevision != 0 }

// The method `compare` returns comparisons that fail if the job, its run or its floor has changed.
func (m *heldJob) compare() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(jobKey(m.id)), "=", m.jobRevision),
		clientv3.Compare(clientv3.ModRevision(runKey(m.id)), "=", m.Run.Revision),
		clientv3.Compare(clientv3.ModRevision(floorKey(m.id)), "=", m.floorRevision),
	}
}

// The method `answer` says what becomes of a granted job. It is AcceptedNew also if an earlier job has to be replaced.
func (m *heldJob) answer(job *ares.Job) (Accepted, error) {
	o := job.Origin
	if m.floor != nil && m.floor.Hub == o.Hub && m.floor.Epoch >= o.Epoch {
		return AcceptedIgnored, nil
	}
	switch {
	case !m.exists():
		return AcceptedNew, nil
	case m.Tombstone != nil && m.floor != nil && m.floor.Hub == o.Hub && m.floor.Outcome != GrantTaken:
		return AcceptedNew, nil // it was archived after an earlier grant of this hub
	case m.Tombstone != nil || m.Job.Origin == nil || m.Job.Origin.Hub != o.Hub:
		return AcceptedTaken, nil
	case m.Job.Origin.Epoch == o.Epoch:
		return AcceptedRepeated, nil
	case m.Job.Origin.Epoch > o.Epoch:
		return AcceptedIgnored, nil
	case !m.Run.Phase.Final() || !m.Run.Free():
		return "", ares.Errorf(ares.Conflict, "job %s is %s under the earlier grant %d: it must end first", m.id, m.Run.Phase, m.Job.Origin.Epoch)
	}
	return AcceptedNew, nil
}

// The method `clear` returns the writes that make room for a job that comes back: the floor of its earlier grant, and the
// deletion of its records.
func (m *heldJob) clear(now time.Time) ([]clientv3.Op, error) {
	writes := []clientv3.Op{
		clientv3.OpDelete(jobKey(m.id)), clientv3.OpDelete(runKey(m.id)), clientv3.OpDelete(progressKeyOf(m.id)),
		clientv3.OpDelete(forecastKeyOf(m.id)), clientv3.OpDelete(awaitedKeyOf(m.id)),
	}
	if m.Job == nil || m.floor != nil && m.floor.Epoch >= m.Job.Origin.Epoch {
		return writes, nil
	}
	// The hub has granted the job again, so it knows how the earlier grant ended.
	put, err := putFloor(&Floor{
		Job: m.id, Hub: m.Job.Origin.Hub, Epoch: m.Job.Origin.Epoch, Outcome: outcomeOfRun(&m.Run), Acknowledged: true, At: now,
	})
	return append(writes, put), err
}

func outcomeOfRun(r *ares.Run) GrantOutcome {
	if r.Phase == ares.Returned {
		return GrantReturned
	}
	return GrantFinal
}

// Return gives a granted job back (F3). The run and the floor are written together, before the member reports it. Return
// competes with Commit on the run. Repeating it changes nothing.
func (s *Store) Return(ctx context.Context, id ares.JobID, epoch int64, why string, now time.Time) (ares.Run, error) {
	floor := Floor{Job: id, Epoch: epoch, Outcome: GrantReturned, At: now}
	return s.endGrant(ctx, "return job", id, &floor, func(j *ares.Job, r *ares.Run) error {
		if r.Phase == ares.Returned {
			return errUnchanged
		}
		return r.Return(j, why, now)
	})
}

// Drop ends a granted job that the hub no longer grants to this member (F5). The floor is written as acknowledged, because
// the hub takes no report about the job. A waiting job ends at once, and a running job is stopped.
func (s *Store) Drop(ctx context.Context, id ares.JobID, epoch int64, why string, now time.Time) (ares.Run, error) {
	floor := Floor{Job: id, Epoch: epoch, Outcome: GrantReturned, Acknowledged: true, At: now}
	return s.endGrant(ctx, "drop job", id, &floor, func(j *ares.Job, r *ares.Run) error {
		if r.Phase.Final() {
			return nil // only the floor is missing
		}
		return r.Drop(j, why, now)
	})
}

// endGrant applies a transition to the run of a granted job and writes its floor in the same transaction. A floor at or above
// the epoch stays, unless the new one is acknowledged and the old one is not.
func (s *Store) endGrant(ctx context.Context, op string, id ares.JobID, floor *Floor, step func(*ares.Job, *ares.Run) error) (ares.Run, error) {
	return Retry(maxTries, func() (ares.Run, error) {
		m, err := s.readHeld(ctx, id)
		if err != nil {
			return ares.Run{}, err
		}
		if m.Job == nil {
			return ares.Run{}, NoJob(id)
		}
		if o := m.Job.Origin; o == nil || o.Epoch != floor.Epoch {
			return m.Run, ares.Errorf(ares.Fenced, "this cluster does not hold job %s under the grant %d", id, floor.Epoch)
		}
		floor.Hub = m.Job.Origin.Hub
		next, wasActive := m.Run.Clone(), m.Run.Current() != nil
		if err = step(m.Job, &next); errors.Is(err, errUnchanged) {
			return m.Run, nil
		} else if err != nil {
			return m.Run, err
		}
		value, err := marshal(runRecord(&next))
		if err != nil {
			return m.Run, err
		}
		var writes []clientv3.Op
		if value != m.run {
			writes = append(writes, clientv3.OpPut(runKey(id), value))
		}
		if wasActive && next.Current() == nil {
			writes = append(writes, endAttempt(id)...)
		}
		if f := m.floor; f == nil || f.Hub != floor.Hub || f.Epoch < floor.Epoch || f.Epoch == floor.Epoch && floor.Acknowledged && !f.Acknowledged {
			put, err := putFloor(floor)
			if err != nil {
				return m.Run, err
			}
			writes = append(writes, put)
		}
		if len(writes) == 0 {
			return m.Run, nil
		}
		resp, err := s.txn(ctx, op, m.compare(), writes, nil)
		if err != nil {
			return m.Run, err
		}
		if !resp.Succeeded {
			return m.Run, Conflict{ares.Errorf(ares.Exhausted, "%s: job %s keeps changing: try again", op, id)}
		}
		if value != m.run {
			next.Revision = resp.Header.Revision
		}
		return next, nil
	})
}

// Confirm ends the wait of a granted job, and of the elements of an array, after a restore of this member: the hub has
// confirmed that the member owns it under this epoch (F5). Repeating it changes nothing.
func (s *Store) Confirm(ctx context.Context, id ares.JobID, epoch int64, now time.Time) error {
	elements := 0
	run, err := s.update(ctx, "confirm job", id, func(j *ares.Job, r *ares.Run) error {
		if j.Origin == nil || j.Origin.Epoch != epoch {
			return ares.Errorf(ares.Fenced, "this cluster does not hold job %s under the grant %d", id, epoch)
		}
		if j.IsArray() {
			elements = r.Next
		}
		if !r.Confirm(now) {
			return errUnchanged
		}
		return nil
	}, nil, nil, nil)
	if _, gone := errors.AsType[archived](err); gone {
		return nil
	}
	if err != nil || run.Phase.Final() {
		return err
	}
	for i := range elements {
		_, err = s.update(ctx, "confirm job", ares.ElementID(id, i), func(_ *ares.Job, r *ares.Run) error {
			if !r.Confirm(now) {
				return errUnchanged
			}
			return nil
		}, nil, nil, nil)
		if _, gone := errors.AsType[archived](err); err != nil && !gone && ares.CodeOf(err) != ares.NotFound {
			return err
		}
	}
	return nil
}

// Suspend keeps a granted job from starting until Confirm, and stops its attempt (F11). It competes with Commit on the run.
// Repeating it changes nothing.
func (s *Store) Suspend(ctx context.Context, id ares.JobID, by string, now time.Time) error {
	_, err := s.update(ctx, "suspend job", id, func(j *ares.Job, r *ares.Run) error {
		if !r.Suspend(j, by, now) {
			return errUnchanged
		}
		return nil
	}, nil, nil, nil)
	if _, gone := errors.AsType[archived](err); gone {
		return nil
	}
	return err
}

// RecordClaim is written before a member claims a job (F13). A hub that finds a job bound to this store without the record
// knows that the store is a copy, or was rolled back.
func (s *Store) RecordClaim(ctx context.Context, id ares.JobID, epoch int64, now time.Time) error {
	value, err := marshal(&storepb.Record{Body: &storepb.Record_GrantClaim{GrantClaim: &storepb.GrantClaim{Epoch: epoch, At: micros(now)}}})
	if err != nil {
		return err
	}
	_, err = s.txn(ctx, "record claim", nil, []clientv3.Op{clientv3.OpPut(grantClaimKey(id), value)}, nil)
	return err
}

// ForgetClaim deletes the record of a claim that the hub refused. It leaves a record with another epoch.
func (s *Store) ForgetClaim(ctx context.Context, id ares.JobID, epoch int64) error {
	_, err := Retry(maxTries, func() (struct{}, error) {
		got, err := s.get(ctx, grantClaimKey(id))
		if err != nil || len(got.Kvs) == 0 {
			return struct{}{}, err
		}
		rec, err := unmarshal(grantClaimKey(id), got.Kvs[0].Value)
		if err != nil || rec.GetGrantClaim().GetEpoch() != epoch {
			return struct{}{}, err
		}
		resp, err := s.txn(ctx, "forget claim", []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(grantClaimKey(id)), "=", got.Kvs[0].ModRevision)},
			[]clientv3.Op{clientv3.OpDelete(grantClaimKey(id))}, nil)
		if err == nil && !resp.Succeeded {
			err = Conflict{ares.Errorf(ares.Exhausted, "the claim of job %s keeps changing: try again", id)}
		}
		return struct{}{}, err
	})
	return err
}

// GrantClaim is a claim that a member has written and perhaps sent.
type GrantClaim struct {
	Job   ares.JobID
	Epoch int64
	At    time.Time
}

// GrantClaims lists the claims whose answers are not known, ordered by job.
func (s *Store) GrantClaims(ctx context.Context) ([]GrantClaim, error) {
	list, _, err := s.records(ctx, grantClaimsKey)
	out := make([]GrantClaim, 0, len(list))
	for _, r := range list {
		out = append(out, GrantClaim{Job: ares.JobID(r.name), Epoch: r.GetGrantClaim().GetEpoch(), At: fromMicros(r.GetGrantClaim().GetAt())})
	}
	return out, err
}
