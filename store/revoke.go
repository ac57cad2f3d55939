package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Revocation ends the certificates of a node that were issued before Revision.
type Revocation struct {
	Node     string
	By       string
	At       time.Time
	Reason   string
	Revision int64
}

// Revoke ends every certificate that a node was given so far, the join tokens
// for it, and its session: from then on nothing is placed there, and what runs
// there is that of a lost node. Revocations made before keep are forgotten: what
// they ended has expired.
//
// The session ends before its time. A renewal may have been acknowledged a moment
// ago, and what runs there lives until 0.8 × lost_after from the sending of that.
// So the node's record is told that the session was cut: who takes the seats back
// must wait for the whole of lost_after, and not for lost_after − TTL.
func (s *Store) Revoke(ctx context.Context, r Revocation, keep time.Time) (Revocation, error) {
	ops, err := s.revocation(ctx, &r)
	if err != nil {
		return r, err
	}
	for range maxTries {
		seen, cut, err := s.cutSession(ctx, r.Node)
		if err != nil {
			return r, err
		}
		resp, err := s.txn(ctx, "revoke node", seen, append(cut, ops...), nil)
		if err != nil {
			return r, err
		}
		if resp.Succeeded {
			r.Revision = resp.Header.Revision
			s.forgetRevocations(ctx, r.Node, keep)
			return r, nil
		}
	}
	return r, ares.Errorf(ares.Exhausted, "revoke node %s: its session changes too fast: try again", r.Node)
}

// revocation is what a revocation writes beside the session's end.
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
	ops := []clientv3.Op{clientv3.OpPut(revokedOf(r.Node), value), clientv3.OpDelete(joinedOf(r.Node))}
	first := len(ops)
	for _, t := range tokens {
		if t.Node != r.Node {
			continue
		}
		if ops = append(ops, clientv3.OpDelete(joinKey(t.ID))); len(ops) == maxWriterOps-others {
			// More than fit: those end before the revocation, and all of them must.
			if _, err = s.txn(ctx, "revoke join tokens", nil, ops[first:], nil); err != nil {
				return nil, err
			}
			ops = ops[:first]
		}
	}
	return ops, nil
}

// forgetRevocations drops those of other nodes that were made before keep, each if it
// is still the one that was read: the node may have been revoked anew. It has no
// answer, since the next revocation tries again.
func (s *Store) forgetRevocations(ctx context.Context, but string, keep time.Time) {
	past, err := s.Revocations(ctx)
	if err != nil {
		return
	}
	var each []clientv3.Op
	for _, old := range past {
		if old.Node != but && old.At.Before(keep) && len(each) < maxWriterOps {
			key := revokedOf(old.Node)
			each = append(each, clientv3.OpTxn(
				[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", old.Revision)}, []clientv3.Op{clientv3.OpDelete(key)}, nil))
		}
	}
	if len(each) > 0 {
		_, _ = s.txn(ctx, "forget revocations", nil, each, nil)
	}
}

// cutTTL is the TTL of a session that was cut. A leader of a version that does not
// know session_cut waits for lost_after − TTL from the session's end, and takes a TTL
// of 0 for one that was not told and goes by its own. Below 0, it waits for all of
// lost_after and a second. With a TTL of 1 it would be a second less than lost_after,
// which is 0.8 × lost_after or more only from 5 s on, and sessions.ttl_seconds lets a
// job ask for 2. The next session writes its own.
const cutTTL = -1

// cutSession is what ends the session of a node at once, and what must be as it
// was seen for that. Where there is none, there must still be none; the node's
// record is left alone then, so that a timer that runs for it runs on.
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

// Revocations reads all of them, linearizable, by the nodes' names.
func (s *Store) Revocations(ctx context.Context) ([]Revocation, error) {
	list, _, err := s.records(ctx, revokedKey)
	var out []Revocation
	for _, r := range list {
		m := r.GetRevocation()
		out = append(out, Revocation{Node: r.name, By: m.GetBy(), At: fromMicros(m.GetAt()), Reason: m.GetReason(), Revision: r.revision})
	}
	return out, err
}

// Certifiable reads at which revision a node that was certified at an earlier
// one may be certified again; one that was revoked since may not.
func (s *Store) Certifiable(ctx context.Context, node string, earlier int64) (int64, error) {
	got, err := s.get(ctx, revokedOf(node), clientv3.WithKeysOnly())
	if err != nil {
		return 0, err
	}
	if len(got.Kvs) > 0 && earlier < got.Kvs[0].ModRevision {
		return 0, Revoked(node)
	}
	return got.Header.Revision, nil
}

// notRevokedSince is that what a node was given at a revision is still good.
func notRevokedSince(node string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(revokedOf(node)), "<", revision+1)
}

// Revoked is the answer to a node whose certificate is not good any more.
func Revoked(node string) error {
	return ares.Errorf(ares.Unauthentic, "the certificate of node %s was revoked: if the machine is to be trusted again, make a token with `ares node token create --node %s` and start its agent with --join", node, node)
}
