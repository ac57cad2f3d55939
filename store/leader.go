package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Leadership is the right to write plans. Every write of a leader requires that this server is still the leader. A
// leader that was paused and replaced therefore writes nothing.
type Leadership struct {
	Revision int64 // at which the leader's key was created
	plan     int64 // last seen revision of the plan sequence
	sequence int64
	unsure   bool // the outcome of a commit is unknown, so the sequence must be read again
}

// Plan returns the revision of the last plan. A leader must not make decisions from a
// state that is older than the last plan.
func (l *Leadership) Plan() int64 { return max(l.plan, l.Revision) }

// This method returns a comparison that fails if another server has become leader.
func (l *Leadership) leads() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(leaderKey), "=", l.Revision)
}

// This method returns the given comparison together with a comparison that
// checks leadership. If the Leadership is nil, the result is only the given
// comparison.
func (l *Leadership) and(c clientv3.Cmp) []clientv3.Cmp {
	if l == nil {
		return []clientv3.Cmp{c}
	}
	return []clientv3.Cmp{l.leads(), c}
}

// inSequence returns a comparison for a transaction. The comparison fails if another plan was written after the last
// plan that this leader saw.
func (l *Leadership) inSequence() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(planKey), "=", l.plan)
}

func (l *Leadership) committed(revision int64) {
	l.plan = revision
	l.sequence++
}

// Refresh reads the plan sequence after a commit with an unknown outcome.
func (s *Store) Refresh(ctx context.Context, l *Leadership) error {
	if !l.unsure {
		return nil
	}
	if err := s.readPlan(ctx, l); err != nil {
		return err
	}
	l.unsure = false
	return nil
}

func (s *Store) readPlan(ctx context.Context, l *Leadership) error {
	got, err := s.get(ctx, planKey)
	if err != nil {
		return err
	}
	l.plan, l.sequence = 0, 0
	if len(got.Kvs) > 0 {
		rec, err := unmarshal(planKey, got.Kvs[0].Value)
		if err != nil {
			return err
		}
		l.plan, l.sequence = got.Kvs[0].ModRevision, rec.GetPlan().GetSequence()
	}
	return nil
}

// Lead waits until this server is the leader, and then calls the given function. When leadership is lost, the context of this
// function ends. When the function returns, Lead resigns and returns the function's error.
func (s *Store) Lead(ctx context.Context, server string, ttl time.Duration, do func(context.Context, *Leadership) error) error {
	grant, err := s.renewals.Grant(ctx, int64(max(ttl/time.Second, 1)))
	if err != nil {
		return storeError("become leader", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive, err := s.renewals.KeepAlive(ctx, grant.ID)
	if err != nil {
		return storeError("become leader", err)
	}
	defer s.resign(ctx, grant.ID)
	// The lease's keep-alive channel closes when the lease is lost. Then the context is
	// cancelled, which stops everything that was started under the lease.
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		defer cancel()
		for range alive { // each answer only confirms that the lease is alive
		}
	}()
	lead, err := s.campaign(ctx, server, grant.ID)
	if err != nil {
		return err
	}
	if err := s.readPlan(ctx, lead); err != nil {
		return err
	}
	return do(ctx, lead)
}

// The method `campaign` waits until this server is the leader. A store that a server has found to be rolled back gets no leader:
// the transaction that creates the leader's key compares that the record of a rollback is absent. The transaction that writes
// that record deletes the leader's key. So there is no moment at which a leader can write while the record stands. Before a
// server has written the record, a server that cannot see the rollback may lead.
func (s *Store) campaign(ctx context.Context, server string, lease clientv3.LeaseID) (*Leadership, error) {
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Leader{Leader: &storepb.Leader{Server: server}}})
	if err != nil {
		return nil, err
	}
	for {
		id, _, err := s.Identity(ctx)
		if err != nil {
			return nil, err
		}
		if id.RolledBack != nil {
			return nil, id.RolledBack.Refusal(id.Restore)
		}
		resp, err := s.txn(ctx, "become leader",
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(leaderKey), "=", 0), id.isCurrent(), id.isNotRolledBack()},
			[]clientv3.Op{clientv3.OpPut(leaderKey, value, clientv3.WithLease(lease))},
			[]clientv3.Op{clientv3.OpGet(leaderKey)})
		if err != nil {
			return nil, err
		}
		if resp.Succeeded {
			return &Leadership{Revision: resp.Header.Revision}, nil
		}
		kvs := resp.Responses[0].GetResponseRange().Kvs
		if len(kvs) == 0 {
			continue // a rollback was noticed, or the store was restored, since the identity was read
		}
		if clientv3.LeaseID(kvs[0].Lease) == lease {
			// An earlier attempt to become leader succeeded, but its answer was lost.
			return &Leadership{Revision: kvs[0].CreateRevision}, nil
		}
		if err := s.waitDeleted(ctx, leaderKey, resp.Header.Revision+1); err != nil {
			return nil, err
		}
	}
}

func (s *Store) waitDeleted(ctx context.Context, key string, from int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range s.client.Watch(ctx, key, clientv3.WithRev(from)) {
		if resp.Err() != nil {
			return nil // compacted or disconnected: the next try to become leader detects it
		}
		for _, ev := range resp.Events {
			if ev.Type == clientv3.EventTypeDelete {
				return nil
			}
		}
	}
	return ctx.Err()
}

// This method gives up leadership immediately. The next leader then need not wait until the lease expires.
func (s *Store) resign(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	if _, err := s.client.Revoke(ctx, lease); err != nil && !isLeaseGone(err) {
		s.log.Warn("could not resign: leadership ends when its lease expires", "error", err)
	}
}

// Leader returns the name of the current leader, or "" if no server leads.
func (s *Store) Leader(ctx context.Context) (string, error) {
	got, err := s.get(ctx, leaderKey, clientv3.WithSerializable())
	if err != nil || len(got.Kvs) == 0 {
		return "", err
	}
	rec, err := unmarshal(leaderKey, got.Kvs[0].Value)
	if err != nil {
		return "", fmt.Errorf("read leader: %w", err)
	}
	return rec.GetLeader().GetServer(), nil
}

func isLeaseGone(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// RegisterTenant creates a tenant if it does not exist, and never changes an existing
// tenant.
func (s *Store) RegisterTenant(ctx context.Context, t ares.Tenant) error {
	_, err := s.CreateTenant(ctx, t)
	if ares.CodeOf(err) == ares.Conflict {
		return nil
	}
	return err
}
