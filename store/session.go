package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store/storepb"
)

// OpenSession proves that a node is there: it writes the node's session, the
// only key on an etcd lease, and rewrites the node's record, so that a timer
// started before sees that the node came back (R3). Another instance is
// refused while a session lives, and so is a node that was revoked since its
// certificate was issued at the revision certified, 0 for one that has none: the
// server may not have heard of that yet.
func (s *Store) OpenSession(ctx context.Context, node ares.Node, instance, server string, ttl time.Duration, certified int64) (ares.Session, error) {
	node.SessionCut = false
	nodeValue, err := marshal(&storepb.Record{Body: &storepb.Record_Node{Node: apipb.NewNodeInfo(&node)}})
	if err != nil {
		return ares.Session{}, err
	}
	for range maxTries {
		old, err := s.readSession(ctx, node.ID)
		if err != nil {
			return ares.Session{}, err
		}
		if old.revision > 0 && old.record.GetInstance() != instance {
			return ares.Session{}, ares.Errorf(ares.Conflict, "node %s has a session of another agent: give this one another --node name, or stop the other", node.ID)
		}
		lease, err := s.sessionLease(ctx, old.lease, ttl)
		if err != nil {
			return ares.Session{}, err
		}
		revision, err := s.putSession(ctx, node.ID, nodeValue, old.revision, certified, lease, &storepb.Session{Instance: instance, Server: server, Lease: int64(lease)})
		if err != nil {
			// A lease of unknown fate is left to end by itself: if the session was
			// written after all, ending it now would shorten the time that the agent
			// was promised by its last renewal.
			return ares.Session{}, err
		}
		if revision > 0 {
			return ares.Session{Node: node.ID, Instance: instance, Server: server, Revision: revision}, nil
		}
	}
	return ares.Session{}, ares.Errorf(ares.Exhausted, "open session of node %s: it changes too fast: try again", node.ID)
}

// sessionNow is a session as it is stored; revision is 0 without one.
type sessionNow struct {
	revision int64
	lease    clientv3.LeaseID
	record   *storepb.Session
}

func (s *Store) readSession(ctx context.Context, node string) (now sessionNow, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	got, err := s.renewals.Get(ctx, sessionKey(node))
	s.observe("read session", time.Since(start), err)
	if err != nil || len(got.Kvs) == 0 {
		return now, storeError("read the session of node "+node, err)
	}
	rec, err := unmarshal(sessionKey(node), got.Kvs[0].Value)
	return sessionNow{revision: got.Kvs[0].ModRevision, lease: clientv3.LeaseID(got.Kvs[0].Lease), record: rec.GetSession()}, err
}

// sessionLease is what a new session hangs on: the lease of the one before,
// extended, or a new one. To keep the lease is one write instead of three when
// a whole fleet comes back at once; and a key that stays on its lease can only
// end later for it, never sooner than an earlier renewal promised.
func (s *Store) sessionLease(ctx context.Context, old clientv3.LeaseID, ttl time.Duration) (clientv3.LeaseID, error) {
	if old != clientv3.NoLease {
		left, err := s.extend(ctx, old)
		if err == nil && left == ttl {
			return old, nil
		}
		if err != nil && !isLeaseGone(err) {
			return 0, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	lease, err := s.renewals.Grant(ctx, int64(ttl/time.Second))
	s.observe("grant lease", time.Since(start), err)
	if err != nil {
		return 0, storeError("open session", err)
	}
	return lease.ID, nil
}

// putSession writes a session if the one before is still as it was seen and the
// node was not revoked. The revision is 0 when the session is not, or when the
// lease has ended: look again.
func (s *Store) putSession(ctx context.Context, node, nodeValue string, seen, certified int64, lease clientv3.LeaseID, rec *storepb.Session) (int64, error) {
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Session{Session: rec}})
	if err != nil {
		return 0, err
	}
	same := []clientv3.Cmp{sessionIs(node, seen)}
	if certified > 0 {
		same = append(same, notRevokedSince(node, certified))
	}
	resp, err := s.txn(ctx, "open session", same,
		[]clientv3.Op{
			clientv3.OpPut(sessionKey(node), value, clientv3.WithLease(lease)),
			clientv3.OpPut(nodeKey(node), nodeValue),
		}, []clientv3.Op{clientv3.OpGet(revokedOf(node), clientv3.WithKeysOnly())})
	switch {
	case isLeaseGone(err):
		return 0, nil
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return resp.Header.Revision, nil
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; certified > 0 && len(kvs) > 0 && certified < kvs[0].ModRevision {
		return 0, Revoked(node)
	}
	return 0, nil
}

// RenewSession extends a session. It returns after etcd's answer.
//
// It reads the session each time, and must. What an acknowledgement means to an
// agent that sent its renewal at s is that no seat of its node is voided before
// s + lost_after; that is so if the session's key, whose end the Reaper waits
// for, lives until s + TTL at least. The read says, linearizably and after s,
// that the key is this session's and hangs on this lease; the extension says,
// after s too, that the lease has a whole TTL before it. Which of the two is
// first does not matter: if the node opens another session in between, that one
// lives as long from then on. So both are asked for at once when the lease is
// remembered from the renewal before, and a server that has little of its
// processor is awaited once less.
//
// The lease that is remembered does not do instead of the read: an agent whose
// session was taken over would be acknowledged for as long as that lease lives,
// while whoever took over may have fallen silent and had its seats voided. Nor
// does the view: it may lag behind by any time, and the arithmetic has no room
// for it. The read costs about as much as the extension; docs/performance.md
// has what both come to with 2,000 agents.
func (s *Store) RenewSession(ctx context.Context, node string, session int64) error {
	before, _ := s.leases.Load(node)
	known, ok := before.(sessionNow)
	if !ok || known.revision != session {
		now, err := s.currentSession(ctx, node, session)
		if err != nil {
			return err
		}
		s.leases.Store(node, now)
		return s.extendSession(ctx, node, now.lease)
	}
	extended := make(chan error, 1)
	go func() { extended <- s.extendSession(ctx, node, known.lease) }()
	_, err := s.currentSession(ctx, node, session)
	if failed := <-extended; err == nil {
		err = failed
	}
	if ares.CodeOf(err) == ares.Fenced {
		s.leases.CompareAndDelete(node, known)
	}
	return err
}

// currentSession reads the session of a node, which must be this one.
func (s *Store) currentSession(ctx context.Context, node string, session int64) (sessionNow, error) {
	now, err := s.readSession(ctx, node)
	if err == nil && now.revision != session {
		err = sessionGone(node)
	}
	return now, err
}

// extendSession extends the lease of a session.
func (s *Store) extendSession(ctx context.Context, node string, lease clientv3.LeaseID) error {
	left, err := s.extend(ctx, lease)
	if isLeaseGone(err) || err == nil && left <= 0 {
		return sessionGone(node)
	}
	return err
}

// extend renews a lease and returns its TTL.
func (s *Store) extend(ctx context.Context, lease clientv3.LeaseID) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	resp, err := s.renewals.KeepAliveOnce(ctx, lease)
	s.observe("renew", time.Since(start), err)
	if err != nil {
		return 0, storeError("renew session", err)
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// CloseSession ends a session at once. The node must hold no live seat.
func (s *Store) CloseSession(ctx context.Context, node string, session int64) error {
	_, err := s.txn(ctx, "close session", []clientv3.Cmp{sessionIs(node, session)},
		[]clientv3.Op{clientv3.OpDelete(sessionKey(node))}, nil)
	return err
}

// UpdateNode rewrites what a node offers, under its own session.
func (s *Store) UpdateNode(ctx context.Context, node ares.Node, session int64) error {
	node.SessionCut = false
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Node{Node: apipb.NewNodeInfo(&node)}})
	if err != nil {
		return err
	}
	resp, err := s.txn(ctx, "update node", []clientv3.Cmp{sessionIs(node.ID, session)},
		[]clientv3.Op{clientv3.OpPut(nodeKey(node.ID), value)}, nil)
	if err == nil && !resp.Succeeded {
		return sessionGone(node.ID)
	}
	return err
}

// Cordon keeps new work off a node, and with Drain has what runs there moved
// away; an empty By takes the cordon away. It returns the revision of the change.
func (s *Store) Cordon(ctx context.Context, c ares.Cordon) (int64, error) {
	op := clientv3.OpDelete(cordonKey(c.Node))
	if c.By != "" {
		value, err := marshal(cordonRecord(&c))
		if err != nil {
			return 0, err
		}
		op = clientv3.OpPut(cordonKey(c.Node), value)
	}
	resp, err := s.txn(ctx, "cordon node",
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(nodeKey(c.Node)), ">", 0)}, []clientv3.Op{op}, nil)
	if err == nil && !resp.Succeeded {
		err = ares.Errorf(ares.NotFound, "there is no node %s: see `ares node list`", c.Node)
	}
	if err != nil {
		return 0, err
	}
	return resp.Header.GetRevision(), nil
}

func sessionIs(node string, session int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(sessionKey(node)), "=", session)
}

func sessionGone(node string) error {
	return ares.Errorf(ares.Fenced, "the session of node %s has ended: open a new one", node)
}

func cordonRecord(c *ares.Cordon) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Cordon{Cordon: &storepb.Cordon{
		By: c.By, Why: c.Why, Since: micros(c.Since), Drain: c.Drain, Force: c.Force,
	}}}
}
