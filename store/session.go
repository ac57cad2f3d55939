package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// OpenSession opens a node's session. OpenSession writes the session's key, which is the only key
// that is attached to an etcd lease. OpenSession also rewrites the node's record. An older timer
// for the loss of the node then has no effect (R3). While a session exists, OpenSession rejects any
// other agent instance. OpenSession also rejects a node that claims what it was not granted (see
// ares.NodeGrant). OpenSession also rejects a node that was revoked after its certificate was
// issued. The server may not know of that revocation yet. The parameter `certified` is the
// certificate's revision, or 0 without a certificate.
func (s *Store) OpenSession(ctx context.Context, node ares.Node, instance, server string, ttl time.Duration, certified int64) (ares.Session, error) {
	return Retry(maxTries, func() (ares.Session, error) {
		nodeValue, granted, err := s.admitNode(ctx, node)
		if err != nil {
			return ares.Session{}, err
		}
		old, err := s.readSession(ctx, node.ID)
		if err != nil {
			return ares.Session{}, err
		}
		if old.revision > 0 && old.record.GetInstance() != instance {
			return ares.Session{}, ares.Errorf(ares.Conflict, "another agent is connected as node %s: start this agent with another --node name, or stop the other agent", node.ID)
		}
		lease, err := s.sessionLease(ctx, old.lease, ttl)
		if err != nil {
			return ares.Session{}, err
		}
		revision, err := s.putSession(ctx, node.ID, nodeValue, old.revision, certified, granted, lease, &storepb.Session{Instance: instance, Server: server, Lease: int64(lease)})
		if err != nil {
			// If the outcome is unknown, keep the lease until it expires. The session may have been
			// written although putSession returned an error. If the lease ended now, the session
			// would end earlier than the agent's last renewal guarantees.
			return ares.Session{}, err
		}
		if revision == 0 {
			s.grants.Delete(node.ID) // it may be what has changed
			return ares.Session{}, Conflict{ares.Errorf(ares.Exhausted, "open a session for node %s: the node's session keeps changing: try again", node.ID)}
		}
		return ares.Session{Node: node.ID, Instance: instance, Server: server, Revision: revision}, nil
	})
}

// storedSession is a session as it is stored. If the node has no session, the
// revision is 0.
type storedSession struct {
	revision int64
	lease    clientv3.LeaseID
	record   *storepb.Session
}

func (s *Store) readSession(ctx context.Context, node string) (now storedSession, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	got, err := s.renewals.Get(ctx, sessionKey(node))
	s.observe("read session", time.Since(start), err)
	if err != nil || len(got.Kvs) == 0 {
		return now, storeError("read the session of node "+node, err)
	}
	rec, err := unmarshal(sessionKey(node), got.Kvs[0].Value)
	return storedSession{revision: got.Kvs[0].ModRevision, lease: clientv3.LeaseID(got.Kvs[0].Lease), record: rec.GetSession()}, err
}

// sessionLease returns the lease for a new session. The result is either the extended lease of the
// previous session or a new lease. Reusing the previous lease needs one write instead of three.
// This matters when all nodes return at the same time. If the new session keeps the lease, it
// cannot end before the time that an earlier renewal guaranteed.
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

// putSession writes a session if the previous session is unchanged and the node was not revoked.
// The method returns revision 0 if the previous session has changed or the lease has ended. The
// caller must then read the session again.
func (s *Store) putSession(ctx context.Context, node, nodeValue string, seen, certified int64, granted clientv3.Cmp, lease clientv3.LeaseID, rec *storepb.Session) (int64, error) {
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Session{Session: rec}})
	if err != nil {
		return 0, err
	}
	same := []clientv3.Cmp{sessionIs(node, seen), granted}
	if certified > 0 {
		same = append(same, notRevokedSince(node, certified))
	}
	resp, err := s.txn(ctx, "open session", same,
		[]clientv3.Op{
			clientv3.OpPut(sessionKey(node), value, clientv3.WithLease(lease)),
			clientv3.OpPut(nodeKey(node), nodeValue),
		}, []clientv3.Op{clientv3.OpGet(revokedNodeKey(node), clientv3.WithKeysOnly())})
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

// RenewSession extends a session. RenewSession returns after etcd has answered.
//
// RenewSession must read the session each time. An agent sends its renewal at time s. If the
// renewal is acknowledged, no seat of its node is voided before s + lost_after. For this guarantee,
// the session's key must exist at least until s + TTL, because the Reaper waits until that key is
// deleted. The linearizable read shows that, at some time after s, the key belonged to this session
// and was attached to this lease. The extension of the lease shows that, at some time after s, the
// lease had a whole TTL left. The read and the extension of the lease may happen in either order.
// If the node opens another session between the read and the extension, the new session starts with
// a whole TTL. If the lease is known from the previous renewal, the read and the extension are sent
// at the same time. This saves one round trip on a busy server.
//
// Remembering the lease from the previous renewal does not replace the read. Without the read, an
// agent whose session was taken over would still get acknowledgements until the lease ends.
// Meanwhile the agent of the new session may be silent and may have lost its seats. The server's
// view of the store cannot replace the read either. The view may lag by any amount of time, and the
// guarantee has no margin for such a lag. Reading the session costs about as much as extending its
// lease. For the cost of the read and the extension with 2,000 agents, see
// docs/reference/performance.md.
func (s *Store) RenewSession(ctx context.Context, node string, session int64) error {
	if _, err := underSession(node, session); err != nil {
		return err
	}
	before, _ := s.leases.Load(node)
	known, ok := before.(storedSession)
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

// currentSession reads a node's session and returns an error unless it is the given
// session.
func (s *Store) currentSession(ctx context.Context, node string, session int64) (storedSession, error) {
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

// This method extends a lease and returns its TTL.
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

// CloseSession ends a session immediately. The caller must ensure that no process of
// a seat is alive on the node.
func (s *Store) CloseSession(ctx context.Context, node string, session int64) error {
	current, err := underSession(node, session)
	if err != nil {
		return err
	}
	_, err = s.txn(ctx, "close session", []clientv3.Cmp{current}, []clientv3.Op{clientv3.OpDelete(sessionKey(node))}, nil)
	return err
}

// CheckSession returns an error unless the session is the node's current one. It is for calls of an agent that write
// nothing, and therefore compare the session in no transaction.
func (s *Store) CheckSession(ctx context.Context, node string, session int64) error {
	if _, err := underSession(node, session); err != nil {
		return err
	}
	_, err := s.currentSession(ctx, node, session)
	return err
}

// UpdateNode rewrites a node's record, if the given session is still current. UpdateNode rejects a
// node that claims what it was not granted.
func (s *Store) UpdateNode(ctx context.Context, node ares.Node, session int64) error {
	current, err := underSession(node.ID, session)
	if err != nil {
		return err
	}
	const tries = 2 // the node's grant may have changed since it was read
	_, err = Retry(tries, func() (none struct{}, err error) {
		value, granted, err := s.admitNode(ctx, node)
		if err != nil {
			return none, err
		}
		resp, err := s.txn(ctx, "update node", []clientv3.Cmp{current, granted},
			[]clientv3.Op{clientv3.OpPut(nodeKey(node.ID), value)}, nil)
		if err == nil && !resp.Succeeded {
			s.grants.Delete(node.ID)
			return none, Conflict{sessionGone(node.ID)}
		}
		return none, err
	})
	return err
}

// Cordon prevents new jobs from being placed on a node. With Drain, the cordon also stops the jobs
// that run on the node. If the field By is empty, Cordon removes the cordon. Cordon returns the
// revision of the change.
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
		err = ares.Errorf(ares.NotFound, "there is no node %s: list the nodes with `ares node list`", c.Node)
	}
	if err != nil {
		return 0, err
	}
	return resp.Header.GetRevision(), nil
}

// underSession returns the comparison for a call that an agent makes under a session. Every session number of an agent passes
// this function. It rejects numbers below 1, because the revision of a missing session is 0: the comparison would succeed for
// a node without a session.
func underSession(node string, session int64) (current clientv3.Cmp, err error) {
	if session <= 0 {
		return current, ares.Errorf(ares.Fenced, "%d is not the number of a session of node %s: open a new session", session, node)
	}
	return sessionIs(node, session), nil
}

// sessionIs compares the revision of a node's session. The revision 0 means that the node has no session.
func sessionIs(node string, session int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(sessionKey(node)), "=", session)
}

func sessionGone(node string) error {
	return ares.Errorf(ares.Fenced, "the session of node %s has ended: open a new session", node)
}

func cordonRecord(c *ares.Cordon) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Cordon{Cordon: &storepb.Cordon{
		By: c.By, Why: c.Why, Since: micros(c.Since), Drain: c.Drain, Force: c.Force,
	}}}
}
