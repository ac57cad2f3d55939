package store

import (
	"context"
	"crypto/subtle"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store/storepb"
)

// MaxJoinTokens is the maximum number of join tokens.
const MaxJoinTokens = 10_000

// Authority is the certificate authority that all servers share. Package pki encrypts and decrypts
// the authority's key.
type Authority struct {
	Certificate []byte // DER
	Key         []byte
	Salt        []byte // nil when the key is not sealed
}

// Authority reads the certificate authority that all servers share. If no authority is stored, the
// method writes the authority that the function `offer` returns. Several servers may offer an
// authority at the same time. Then one authority is stored, and all servers get it.
func (s *Store) Authority(ctx context.Context, offer func() (Authority, error)) (Authority, error) {
	rec, _, err := s.readOrCreate(ctx, "make the authority", "the authority", authorityKey, func() (*storepb.Record, error) {
		a, err := offer()
		return &storepb.Record{Body: &storepb.Record_Authority{Authority: &storepb.Authority{
			Certificate: a.Certificate, Key: a.Key, Salt: a.Salt,
		}}}, err
	})
	m := rec.GetAuthority()
	return Authority{Certificate: m.GetCertificate(), Key: m.GetKey(), Salt: m.GetSalt()}, err
}

// JoinToken allows one machine to join the cluster, once.
type JoinToken struct {
	ID        string
	Hash      []byte // hash of its secret
	Node      string // the only node that may use it, "" for any new node
	By        string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    time.Time
	UsedBy    string // the node that used it
	Grant     ares.NodeGrant
	usedKey   []byte
	revision  int64
}

// CreateJoinToken writes a new join token and deletes expired ones.
func (s *Store) CreateJoinToken(ctx context.Context, t JoinToken) error {
	all, err := s.joinTokens(ctx)
	if err != nil {
		return err
	}
	ops := []clientv3.Op{}
	left := 0
	for _, old := range all {
		if old.ExpiresAt.After(t.CreatedAt) {
			left++
		} else if len(ops) < maxWriterOps-1 {
			ops = append(ops, clientv3.OpDelete(joinTokenKey(old.ID)))
		}
	}
	if left >= MaxJoinTokens {
		return ares.Errorf(ares.LimitReached, "there are %d join tokens, which is the limit: revoke some, or wait until they expire", left)
	}
	value, err := marshal(joinRecord(&t))
	if err != nil {
		return err
	}
	resp, err := s.txn(ctx, "write join token",
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(joinTokenKey(t.ID)), "=", 0)},
		append(ops, clientv3.OpPut(joinTokenKey(t.ID), value)), nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Conflict, "the ID %s of the new join token is already in use: try again", t.ID)
	}
	return err
}

// JoinTokens lists the join tokens that have not expired.
func (s *Store) JoinTokens(ctx context.Context, now time.Time) ([]JoinToken, error) {
	all, err := s.joinTokens(ctx)
	var out []JoinToken
	for _, t := range all {
		if t.ExpiresAt.After(now) {
			out = append(out, t)
		}
	}
	return out, err
}

func (s *Store) joinTokens(ctx context.Context) ([]JoinToken, error) {
	var out []JoinToken
	err := s.each(ctx, joinTokensKey, func(key string, rec *storepb.Record, _ int64) error {
		_, id := splitKey(key)
		out = append(out, joinTokenOf(rec.GetJoinToken(), id, 0))
		return nil
	})
	return out, err
}

// DeleteJoinToken deletes a join token and returns it.
func (s *Store) DeleteJoinToken(ctx context.Context, id string) (JoinToken, error) {
	was, err := s.deleteRecord(ctx, "delete join token", joinTokenKey(id))
	switch {
	case err != nil:
		return JoinToken{}, err
	case was == nil:
		return JoinToken{}, ares.Errorf(ares.NotFound, "there is no join token %s: list the join tokens with `ares node token list`", id).At("id")
	}
	return joinTokenOf(was.GetJoinToken(), id, was.revision), nil
}

// badJoinToken returns the same error for an unknown, revoked or expired token and for a wrong
// secret. Guessing therefore reveals nothing.
func badJoinToken() error {
	return ares.Errorf(ares.Unauthentic, "this join token is unknown or no longer valid: make a new one with `ares node token create`")
}

// UseJoinToken records that a node with a given key joins with a token. UseJoinToken returns the
// revision for the node's certificate. A join token works for one node only. The same node may
// repeat the request with the same key, because the answer to the first request may have been
// lost.
func (s *Store) UseJoinToken(ctx context.Context, id string, hash []byte, node string, key []byte, now time.Time) (int64, error) {
	return Retry(maxTries, func() (int64, error) {
		got, err := s.get(ctx, joinTokenKey(id))
		if err != nil {
			return 0, err
		}
		if len(got.Kvs) == 0 {
			return 0, badJoinToken()
		}
		rec, err := unmarshal(joinTokenKey(id), got.Kvs[0].Value)
		if err != nil {
			return 0, err
		}
		t := joinTokenOf(rec.GetJoinToken(), id, got.Kvs[0].ModRevision)
		if err = t.check(hash, node, key, now); err != nil {
			return 0, err
		}
		joined, seen, err := s.newlyJoined(ctx, &t, node)
		if err != nil {
			return 0, err
		}
		if t.UsedAt.IsZero() {
			t.UsedAt = now
		}
		t.UsedBy, t.usedKey = node, key
		return s.markUsed(ctx, &t, rec, joined, seen)
	})
}

// A join token need not name a node. For such a token, newlyJoined checks that no other token has
// admitted a node with the requested name. The admitted node has a certificate, although it has no
// record before its first session. The method returns the record that it has read, or nil, and its
// revision, so that markUsed can compare it.
//
// A token that was used before must be the one that the node joined with last. Otherwise the node
// could return to the grant of an older token after an administrator has given it a new one.
func (s *Store) newlyJoined(ctx context.Context, t *JoinToken, node string) (joined *storepb.Record, seen int64, err error) {
	got, err := s.get(ctx, joinedNodeKey(node))
	if err != nil {
		return nil, 0, err
	}
	if len(got.Kvs) == 0 {
		if !t.UsedAt.IsZero() {
			return nil, 0, badJoinToken() // the node was revoked since
		}
		return nil, 0, nil
	}
	joined, err = unmarshal(joinedNodeKey(node), got.Kvs[0].Value)
	if err != nil {
		return nil, 0, err
	}
	if joined.GetJoined().GetToken() != t.ID {
		switch {
		case t.Node == "":
			return nil, 0, needsNamedToken(node, "is known already")
		case !t.UsedAt.IsZero():
			return nil, 0, badJoinToken()
		}
	}
	return joined, got.Kvs[0].ModRevision, nil
}

func needsNamedToken(node, why string) error {
	return ares.Errorf(ares.Forbidden, "node %s needs its own join token (reason: the node %s): create the token with `ares node token create --node %s`", node, why, node)
}

// This method returns an error unless the node may use the token.
func (t *JoinToken) check(hash []byte, node string, key []byte, now time.Time) error {
	switch {
	case subtle.ConstantTimeCompare(t.Hash, hash) != 1 || !t.ExpiresAt.After(now):
		return badJoinToken()
	case t.Node != "" && t.Node != node:
		return ares.Errorf(ares.Forbidden, "this join token is for node %s, not for %s: start the agent with --node %s, or make a token for %s", t.Node, node, t.Node, node)
	case !t.UsedAt.IsZero() && (t.UsedBy != node || subtle.ConstantTimeCompare(t.usedKey, key) != 1):
		return ares.Errorf(ares.Unauthentic, "this join token was already used by node %s at %s, and each token works for only one join: make a new token with `ares node token create`", t.UsedBy, t.UsedAt.Format(time.RFC3339))
	}
	return nil
}

// markUsed records that a token is used and that the node has joined. If one of the two
// records was changed in the meantime, the method returns a Conflict. Only one of several
// machines can therefore get the name. The argument `before` is the record of the node's last join,
// or nil. If the node joined with the same token, it keeps its grant, which an administrator may have
// changed since then.
func (s *Store) markUsed(ctx context.Context, t *JoinToken, was, before *storepb.Record, seen int64) (int64, error) {
	node, rec := t.UsedBy, joinRecord(t)
	copyUnknownFields(rec, was)
	copyUnknownFields(rec.GetJoinToken(), was.GetJoinToken())
	value, err := marshal(rec)
	if err != nil {
		return 0, err
	}
	next := &storepb.Record{Body: &storepb.Record_Joined{Joined: &storepb.Joined{
		Token: t.ID, At: micros(t.UsedAt), Grant: apipb.NewNodeGrant(t.Grant),
	}}}
	if before.GetJoined().GetToken() == t.ID {
		next = before
	}
	joined, err := marshal(next)
	if err != nil {
		return 0, err
	}
	cmps := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(joinTokenKey(t.ID)), "=", t.revision),
		clientv3.Compare(clientv3.ModRevision(joinedNodeKey(node)), "=", seen),
	}
	known := []clientv3.Op{clientv3.OpGet(nodeKey(node), clientv3.WithKeysOnly()), clientv3.OpGet(revokedNodeKey(node), clientv3.WithKeysOnly())}
	if t.Node == "" {
		// A join token without a node name must not let its holder take the name of an existing
		// node.
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(nodeKey(node)), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(revokedNodeKey(node)), "=", 0))
	}
	resp, err := s.txn(ctx, "use join token", cmps,
		[]clientv3.Op{clientv3.OpPut(joinTokenKey(t.ID), value), clientv3.OpPut(joinedNodeKey(node), joined)}, known)
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return resp.Header.Revision, nil
	}
	for i, word := range []string{"is known already", "was revoked"} {
		if t.Node == "" && len(resp.Responses[i].GetResponseRange().Kvs) > 0 {
			return 0, needsNamedToken(node, word)
		}
	}
	return 0, Conflict{ares.Errorf(ares.Exhausted, "another request changed join token %s at the same time: try again", t.ID)}
}

func joinRecord(t *JoinToken) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_JoinToken{JoinToken: &storepb.JoinToken{
		Hash: t.Hash, Node: t.Node, CreatedBy: t.By, CreatedAt: micros(t.CreatedAt), ExpiresAt: micros(t.ExpiresAt),
		UsedAt: micros(t.UsedAt), UsedBy: t.UsedBy, UsedKey: t.usedKey, Grant: apipb.NewNodeGrant(t.Grant),
	}}}
}

func joinTokenOf(m *storepb.JoinToken, id string, revision int64) JoinToken {
	return JoinToken{
		ID: id, Hash: m.GetHash(), Node: m.GetNode(), By: m.GetCreatedBy(), CreatedAt: fromMicros(m.GetCreatedAt()),
		ExpiresAt: fromMicros(m.GetExpiresAt()), UsedAt: fromMicros(m.GetUsedAt()), UsedBy: m.GetUsedBy(), usedKey: m.GetUsedKey(),
		Grant: m.GetGrant().Grant(), revision: revision,
	}
}
