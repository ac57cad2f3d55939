package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Revocation invalidates all certificates that were issued to a node before the revision in the
// field Revision.
type Revocation struct {
	Node     string
	By       string
	At       time.Time
	Reason   string
	Revision int64
}

// Revoke ends a node's session. It also invalidates the node's join tokens and all certificates
// that were issued to the node so far. After the revocation, no job is placed on the node. The
// node's jobs are treated like jobs on a lost node. Revoke also deletes all revocations that are
// older than the time in the parameter `keep`. The certificates that they invalidated have expired.
//
// Revoke ends the node's session before the session's TTL is over. A server may have
// acknowledged a session renewal just before the revocation. Processes on the node may stay
// alive for 0.8 × lost_after after the agent sent that renewal. The node's record therefore
// says that the session was cut. If a session was cut, the Reaper must wait for the whole
// lost_after, and not for lost_after − TTL.
func (s *Store) Revoke(ctx context.Context, r Revocation, keep time.Time) (Revocation, error) {
	ops, err := s.revocation(ctx, &r)
	if err != nil {
		return r, err
	}
	return Retry(maxTries, func() (Revocation, error) {
		seen, cut, err := s.cutSession(ctx, r.Node)
		if err != nil {
			return r, err
		}
		resp, err := s.txn(ctx, "revoke node", seen, append(cut, ops...), nil)
		if err != nil {
			return r, err
		}
		if !resp.Succeeded {
			return r, Conflict{ares.Errorf(ares.Exhausted, "revoke node %s: its session keeps changing: try again", r.Node)}
		}
		r.Revision = resp.Header.Revision
		s.forgetRevocations(ctx, r.Node, keep)
		return r, nil
	})
}

// This method returns the writes of a revocation, except the writes that end
// the session.
func (s *Store) revocation(ctx context.Context, r *Revocation) ([]clientv3.Op, error) {
	tokens, err := s.joinTokens(ctx)
	if err != nil {
		return nil, err
	}
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Revocation{Revocation: &storepb.Revocation{
		By: r.By, At: micros(r.At), Reason: r.Reason,
	}}})
	if err != nil {
		return nil, err
	}
	const others = 2 // the session and the node's record
	ops := []clientv3.Op{clientv3.OpPut(revokedNodeKey(r.Node), value), clientv3.OpDelete(joinedNodeKey(r.Node))}
	first := len(ops)
	for _, t := range tokens {
		if t.Node != r.Node && t.UsedBy != r.Node {
			continue
		}
		if ops = append(ops, clientv3.OpDelete(joinTokenKey(t.ID))); len(ops) == maxWriterOps-others {
			// The transaction of the revocation has no room for more operations. A separate
			// transaction therefore deletes the join tokens that were collected so far. If that
			// transaction fails, the revocation fails too.
			if _, err = s.txn(ctx, "revoke join tokens", nil, ops[first:], nil); err != nil {
				return nil, err
			}
			ops = ops[:first]
		}
	}
	return ops, nil
}

// forgetRevocations deletes the revocations of other nodes that are older than the time in the
// parameter `keep`. The method deletes a revocation only if it is unchanged, because the node may
// have been revoked again. Errors are ignored, because the next revocation tries again.
func (s *Store) forgetRevocations(ctx context.Context, but string, keep time.Time) {
	past, err := s.Revocations(ctx)
	if err != nil {
		return
	}
	var each []clientv3.Op
	for _, old := range past {
		if old.Node != but && old.At.Before(keep) && len(each) < maxWriterOps {
			key := revokedNodeKey(old.Node)
			each = append(each, clientv3.OpTxn(
				[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", old.Revision)}, []clientv3.Op{clientv3.OpDelete(key)}, nil))
		}
	}
	if len(each) > 0 {
		_, _ = s.txn(ctx, "forget revocations", nil, each, nil)
	}
}

// cutTTL is the TTL that the node's record shows for a session that was cut. A leader of an older
// version does not know session_cut. It waits for lost_after − TTL after the session's end. An
// older leader replaces a TTL of 0 with its own TTL. With a TTL of -1, an older leader waits for
// lost_after plus one second, which is safe. With a TTL of 1, an older leader would wait for
// lost_after minus one second. A wait of lost_after minus one second is too short if lost_after is
// below 5 s. Processes may live for 0.8 × lost_after. Such a short lost_after is possible, because
// sessions.ttl_seconds may be as low as 2. The node's next session replaces cutTTL with its own
// TTL.
const cutTTL = -1

// cutSession returns the operations that end a node's session immediately. It also returns the
// comparisons that these operations depend on. If the node has no session, the comparisons require
// that it still has no session. The record of a node without a session is not written, so that a
// running timer for the node continues.
func (s *Store) cutSession(ctx context.Context, node string) (seen []clientv3.Cmp, cut []clientv3.Op, err error) {
	resp, err := s.txn(ctx, "read node", nil, []clientv3.Op{
		clientv3.OpGet(sessionKey(node), clientv3.WithKeysOnly()), clientv3.OpGet(nodeKey(node)),
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	sessions, records := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
	if len(sessions) == 0 {
		return []clientv3.Cmp{sessionIs(node, 0)}, nil, nil
	}
	seen, cut = []clientv3.Cmp{sessionIs(node, sessions[0].ModRevision)}, []clientv3.Op{clientv3.OpDelete(sessionKey(node))}
	if len(records) == 0 {
		return seen, cut, nil
	}
	rec, err := unmarshal(nodeKey(node), records[0].Value)
	if err != nil {
		return nil, nil, err
	}
	rec.GetNode().SessionCut, rec.GetNode().SessionTtlSeconds = true, cutTTL
	value, err := marshal(rec)
	return append(seen, clientv3.Compare(clientv3.ModRevision(nodeKey(node)), "=", records[0].ModRevision)),
		append(cut, clientv3.OpPut(nodeKey(node), value)), err
}

// Revocations reads all revocations, ordered by node, with a linearizable read.
func (s *Store) Revocations(ctx context.Context) ([]Revocation, error) {
	list, _, err := s.records(ctx, revokedKey)
	var out []Revocation
	for _, r := range list {
		m := r.GetRevocation()
		out = append(out, Revocation{Node: r.name, By: m.GetBy(), At: fromMicros(m.GetAt()), Reason: m.GetReason(), Revision: r.revision})
	}
	return out, err
}

// Certifiable checks whether a node that already has a certificate may get a new certificate.
// Certifiable returns the revision for the new certificate. Certifiable fails if the node was
// revoked after the revision of its earlier certificate.
func (s *Store) Certifiable(ctx context.Context, node string, earlier int64) (int64, error) {
	got, err := s.get(ctx, revokedNodeKey(node), clientv3.WithKeysOnly())
	if err != nil {
		return 0, err
	}
	if len(got.Kvs) > 0 && earlier < got.Kvs[0].ModRevision {
		return 0, Revoked(node)
	}
	return got.Header.Revision, nil
}

// notRevokedSince returns a comparison that fails if a node was revoked after a given
// revision.
func notRevokedSince(node string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(revokedNodeKey(node)), "<", revision+1)
}

// Revoked is the error for a node whose certificate was revoked.
func Revoked(node string) error {
	return ares.Errorf(ares.Unauthentic, "the certificate of node %s was revoked: to trust the machine again, make a token with `ares node token create --node %s`, and start its agent with --join", node, node)
}
