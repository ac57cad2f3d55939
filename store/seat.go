package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// SeatRef identifies one rank of one attempt on one node.
type SeatRef struct {
	Job   ares.JobID
	Fence ares.Fence
	Rank  int
	Node  string
}

// reportSession says in which session of its node a report counts. It is a type of its own, so that no number that an agent
// sends can mean every session.
type reportSession struct {
	number  int64
	isEvery bool
}

func inSession(number int64) reportSession { return reportSession{number: number} }

// everySession is for a report that counts in every session of its node. The end of a seat must count even if the agent was
// restarted since the seat was claimed, and even while the agent opens a new session.
var everySession = reportSession{isEvery: true}

// updateSeat applies an agent's report about one seat. Every report about a seat passes this method, so that no report can
// lack a check. The seat must be on the node that reports. The function `step` compares the fence. In the same transaction,
// the session must be the node's current one, unless it is everySession.
func (s *Store) updateSeat(
	ctx context.Context, op string, ref SeatRef, session reportSession, step func(*ares.Job, *ares.Run) error, puts ...clientv3.Op,
) (ares.Run, error) {
	var current []clientv3.Cmp
	if !session.isEvery {
		same, err := underSession(ref.Node, session.number)
		if err != nil {
			return ares.Run{}, err
		}
		current = []clientv3.Cmp{same}
	}
	return s.update(ctx, op, ref.Job, func(j *ares.Job, r *ares.Run) error {
		if err := ownSeat(r, ref); err != nil {
			return err
		}
		return step(j, r)
	}, current, puts, sessionOutdated(ref.Node))
}

func ownSeat(r *ares.Run, ref SeatRef) error {
	for i := range r.Attempts {
		for k := range r.Attempts[i].Seats {
			h := &r.Attempts[i].Seats[k]
			if r.Attempts[i].Fence == ref.Fence && h.Rank == ref.Rank && h.Node != ref.Node {
				return ares.Errorf(ares.Fenced, "rank %d is placed on node %s, not on node %s", ref.Rank, h.Node, ref.Node)
			}
		}
	}
	return nil
}

func sessionOutdated(node string) error {
	return ares.Errorf(ares.Fenced, "the session of node %s is not current: open a new session", node)
}

// Claim marks a seat as claimed by its node. It requires that the run and the node's session are unchanged. The agent
// must not start a process before the claim has succeeded.
//
// The functions in `checks` may reject the claim because of the job. They also reject a claim that is repeated. If the node
// has the claim already, nothing is written, so that a node cannot raise the store's revision by repeating itself.
func (s *Store) Claim(ctx context.Context, ref SeatRef, session int64, now time.Time, checks ...func(*ares.Job) error) error {
	_, err := s.ClaimWithImage(ctx, ref, session, "", now, checks...)
	return err
}

// ClaimWithImage is Claim for a rank whose node has found a digest for the job's image, or "". In the same transaction, the first claim with
// a digest fixes it for the job. It returns the digest that counts.
func (s *Store) ClaimWithImage(ctx context.Context, ref SeatRef, session int64, digest string, now time.Time, checks ...func(*ares.Job) error) (string, error) {
	claim, err := marshal(&storepb.Record{Body: &storepb.Record_Claim{Claim: &storepb.Claim{Node: ref.Node, Session: session}}})
	if err != nil {
		return "", err
	}
	key := claimKey(ref.Job, ref.Rank)
	run, err := s.updateSeat(ctx, "claim seat", ref, inSession(session), func(j *ares.Job, r *ares.Run) error {
		if err := r.Claim(j, ref.Fence, ref.Rank, ref.Node, now); err != nil {
			return err
		}
		for _, check := range checks {
			if err := check(j); err != nil {
				return err
			}
		}
		r.FixImage(j, digest)
		return nil
	}, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", claim)}, nil, []clientv3.Op{clientv3.OpPut(key, claim)}))
	return run.ImageDigest, err
}

// RejectClaim ends an attempt because its node may not run it. It stops the attempt and answers the stop for the unclaimed
// rank, so that the job is placed again on another node. It does nothing for a rank that is claimed already, nor for an
// attempt that is not current. The argument `by` completes the sentence "its node is drained by".
func (s *Store) RejectClaim(ctx context.Context, ref SeatRef, session int64, by string, now time.Time) error {
	_, err := s.updateSeat(ctx, "reject claim", ref, inSession(session), func(j *ares.Job, r *ares.Run) error {
		// A stop is for the current attempt, which may be a newer one than the rejected one.
		if a := r.Current(); a == nil || a.Fence != ref.Fence || r.CheckClaimed(ref.Fence, ref.Rank) == nil {
			return nil
		}
		if err := r.RequestStop(ares.Stop{Why: ares.StopDrain, By: by, At: now}); err != nil {
			return err
		}
		return r.Decline(j, ref.Fence, ref.Rank, now)
	})
	return err
}

// Finish records that a rank has ended, with its result. The last rank's report ends the attempt
// and may make the job final. A rank, an attempt and a job each end at most once. The end may be
// reported in a later session than the claim.
func (s *Store) Finish(ctx context.Context, ref SeatRef, res ares.RankResult, now time.Time) (ares.Run, error) {
	return s.updateSeat(ctx, "finish seat", ref, everySession, func(j *ares.Job, r *ares.Run) error {
		return finish(j, r, ref, res, now)
	})
}

// FinishAndRelease is Finish and Release in one transaction, for an agent that has already verified that the rank's processes are
// dead.
func (s *Store) FinishAndRelease(ctx context.Context, ref SeatRef, res ares.RankResult, now time.Time) (ares.Run, error) {
	return s.updateSeat(ctx, "finish seat", ref, everySession, func(j *ares.Job, r *ares.Run) error {
		if err := finish(j, r, ref, res, now); err != nil {
			return err
		}
		return r.Release(ref.Fence, ref.Rank)
	})
}

func finish(j *ares.Job, r *ares.Run, ref SeatRef, res ares.RankResult, now time.Time) error {
	if err := r.CheckEnd(ref.Fence, ref.Rank, res.Outcome); err != nil {
		return err
	}
	return r.Finish(j, ref.Fence, ref.Rank, res, now)
}

// Decline records an agent's answer to a stop request, if the agent has never claimed the seat.
func (s *Store) Decline(ctx context.Context, ref SeatRef, session int64, now time.Time) error {
	_, err := s.updateSeat(ctx, "decline seat", ref, inSession(session), func(j *ares.Job, r *ares.Run) error {
		return r.Decline(j, ref.Fence, ref.Rank, now)
	})
	return err
}

// Release frees a seat's devices after the agent has verified that the seat's
// processes are dead. The release may be reported in a later session than the claim.
func (s *Store) Release(ctx context.Context, ref SeatRef) error {
	_, err := s.updateSeat(ctx, "release seat", ref, everySession, func(_ *ares.Job, r *ares.Run) error {
		return r.Release(ref.Fence, ref.Rank)
	})
	if _, gone := errors.AsType[archived](err); gone || ares.CodeOf(err) == ares.NotFound {
		return nil // its seats were free when it was archived
	}
	return err
}

// ReportProgress stores the latest progress report of a running job.
func (s *Store) ReportProgress(ctx context.Context, ref SeatRef, session int64, p ares.Progress) error {
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Progress{Progress: &storepb.Progress{
		Percent: p.Percent, Message: p.Message, At: micros(p.At), Fence: int64(ref.Fence),
	}}})
	if err != nil {
		return err
	}
	_, err = s.updateSeat(ctx, "report progress", ref, inSession(session), func(_ *ares.Job, r *ares.Run) error {
		return r.CheckClaimed(ref.Fence, ref.Rank)
	}, clientv3.OpPut(progressKeyOf(ref.Job), value))
	return err
}

// Checkpointed records that an attempt has saved a checkpoint.
func (s *Store) Checkpointed(ctx context.Context, ref SeatRef, session int64, at time.Time) error {
	_, err := s.updateSeat(ctx, "note a checkpoint", ref, inSession(session), func(_ *ares.Job, r *ares.Run) error {
		if err := r.CheckClaimed(ref.Fence, ref.Rank); err != nil {
			return err
		}
		return r.Checkpointed(ref.Fence, at)
	})
	return err
}
