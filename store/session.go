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
// refused while a session lives.
func (s *Store) OpenSession(ctx context.Context, node ares.Node, instance, server string, ttl time.Duration) (ares.Session, error) {
	opCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	lease, err := s.client.Grant(opCtx, int64(ttl/time.Second))
	s.observe("grant lease", time.Since(start), err)
	if err != nil {
		return ares.Session{}, storeError("open session", err)
	}
	sess, err := s.putSession(ctx, node, &storepb.Session{Instance: instance, Server: server, Lease: int64(lease.ID)})
	if err != nil {
		// Best effort: an unused lease ends by itself after its TTL.
		_, _ = s.client.Revoke(opCtx, lease.ID)
		return ares.Session{}, err
	}
	return sess, nil
}

func (s *Store) putSession(ctx context.Context, node ares.Node, rec *storepb.Session) (ares.Session, error) {
	sessionValue, err := marshal(&storepb.Record{Body: &storepb.Record_Session{Session: rec}})
	if err != nil {
		return ares.Session{}, err
	}
	nodeValue, err := marshal(&storepb.Record{Body: &storepb.Record_Node{Node: apipb.NewNodeInfo(&node)}})
	if err != nil {
		return ares.Session{}, err
	}
	for range maxTries {
		got, err := s.get(ctx, sessionKey(node.ID))
		if err != nil {
			return ares.Session{}, err
		}
		seen, replaced := int64(0), clientv3.NoLease
		if len(got.Kvs) > 0 {
			old, readErr := unmarshal(sessionKey(node.ID), got.Kvs[0].Value)
			if readErr != nil {
				return ares.Session{}, readErr
			}
			if old.GetSession().GetInstance() != rec.Instance {
				return ares.Session{}, ares.Errorf(ares.Conflict, "node %s has a session of another agent: give this one another --node name, or stop the other", node.ID)
			}
			seen, replaced = got.Kvs[0].ModRevision, clientv3.LeaseID(got.Kvs[0].Lease)
		}
		resp, err := s.txn(ctx, "open session",
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(sessionKey(node.ID)), "=", seen)},
			[]clientv3.Op{
				clientv3.OpPut(sessionKey(node.ID), sessionValue, clientv3.WithLease(clientv3.LeaseID(rec.Lease))),
				clientv3.OpPut(nodeKey(node.ID), nodeValue),
			}, nil)
		if err != nil {
			return ares.Session{}, err
		}
		if resp.Succeeded {
			s.endLease(ctx, replaced)
			return ares.Session{Node: node.ID, Instance: rec.Instance, Server: rec.Server, Revision: resp.Header.Revision}, nil
		}
	}
	return ares.Session{}, ares.Errorf(ares.Exhausted, "open session of node %s: it changes too fast: try again", node.ID)
}

// endLease ends the lease of a session that was taken over. Nothing hangs on
// it any more; but while it lives, whoever had that session would still have
// its renewals acknowledged, and believe its jobs safe.
func (s *Store) endLease(ctx context.Context, lease clientv3.LeaseID) {
	if lease == clientv3.NoLease {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if _, err := s.client.Revoke(ctx, lease); err != nil && !isLeaseGone(err) {
		s.log.Warn("the lease of a session that was taken over lives on until it expires", "error", err)
	}
}

// SessionLease finds the etcd lease under a session, for Renew.
//
// It reads the store for every renewal, and must. What an acknowledgement means
// to an agent that sent its renewal at s is that no seat of its node is voided
// before s + lost_after; that is so if the session's key, which the Reaper
// waits for, lives until s + TTL at least. The read says, linearizably and
// after s, that the key is this session's and hangs on this lease; the renewal
// says, after s too, that the lease has a whole TTL before it. If the node
// opens another session between the two, that one lives as long from then on.
//
// Without the read, by a lease remembered from an earlier one, an agent whose
// session was taken over would be acknowledged for as long as its old lease
// lives: endLease may fail, and whoever took over may be silent again and have
// its seats voided. The view does not do instead: it may lag behind by any
// time, and the arithmetic has no room for it. The read costs about as much as
// the renewal itself; docs/performance.md has what both come to with 2,000
// agents.
func (s *Store) SessionLease(ctx context.Context, node string, session int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	got, err := s.renewals.Get(ctx, sessionKey(node))
	s.observe("read session", time.Since(start), err)
	if err != nil {
		return 0, storeError("read the session of node "+node, err)
	}
	if len(got.Kvs) == 0 || got.Kvs[0].ModRevision != session {
		return 0, sessionGone(node)
	}
	return got.Kvs[0].Lease, nil
}

// Renew extends a session by its etcd lease. It returns after etcd's answer.
func (s *Store) Renew(ctx context.Context, node string, lease int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	resp, err := s.renewals.KeepAliveOnce(ctx, clientv3.LeaseID(lease))
	s.observe("renew", time.Since(start), err)
	if err != nil {
		if isLeaseGone(err) {
			return sessionGone(node)
		}
		return storeError("renew session", err)
	}
	if resp.TTL <= 0 {
		return sessionGone(node)
	}
	return nil
}

// CloseSession ends a session at once. The node must hold no live seat.
func (s *Store) CloseSession(ctx context.Context, node string, session int64) error {
	_, err := s.txn(ctx, "close session", []clientv3.Cmp{sessionIs(node, session)},
		[]clientv3.Op{clientv3.OpDelete(sessionKey(node))}, nil)
	return err
}

// UpdateNode rewrites what a node offers, under its own session.
func (s *Store) UpdateNode(ctx context.Context, node ares.Node, session int64) error {
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

// Cordon keeps new work off a node; an empty By takes the cordon away.
func (s *Store) Cordon(ctx context.Context, c ares.Cordon) error {
	op := clientv3.OpDelete(cordonKey(c.Node))
	if c.By != "" {
		value, err := marshal(&storepb.Record{Body: &storepb.Record_Cordon{Cordon: &storepb.Cordon{By: c.By, Why: c.Why, Since: micros(c.Since)}}})
		if err != nil {
			return err
		}
		op = clientv3.OpPut(cordonKey(c.Node), value)
	}
	resp, err := s.txn(ctx, "cordon node",
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(nodeKey(c.Node)), ">", 0)}, []clientv3.Op{op}, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.NotFound, "there is no node %s: see `ares node list`", c.Node)
	}
	return err
}

func sessionIs(node string, session int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(sessionKey(node)), "=", session)
}

func sessionGone(node string) error {
	return ares.Errorf(ares.Fenced, "the session of node %s has ended: open a new one", node)
}
