package store

import (
	"context"
	"crypto/subtle"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// MaxJoinTokens is how many join tokens may be there at once.
const MaxJoinTokens = 10_000

// Authority is the certificate authority that all servers share. How its key is
// kept is package pki's matter.
type Authority struct {
	Certificate []byte // DER
	Key         []byte
	Salt        []byte // nil when the key is not sealed
}

// Authority reads the servers' authority. Where there is none yet the one that
// is offered is written; of servers that offer theirs at once one wins, and all
// get that one.
func (s *Store) Authority(ctx context.Context, offer func() (Authority, error)) (Authority, error) {
	for range maxTries {
		got, err := s.get(ctx, caKey)
		if err != nil {
			return Authority{}, err
		}
		if len(got.Kvs) > 0 {
			rec, bad := unmarshal(caKey, got.Kvs[0].Value)
			if bad != nil {
				return Authority{}, bad
			}
			m := rec.GetAuthority()
			return Authority{Certificate: m.GetCertificate(), Key: m.GetKey(), Salt: m.GetSalt()}, nil
		}
		a, err := offer()
		if err != nil {
			return Authority{}, err
		}
		value, err := marshal(&storepb.Record{Body: &storepb.Record_Authority{Authority: &storepb.Authority{
			Certificate: a.Certificate, Key: a.Key, Salt: a.Salt,
		}}})
		if err != nil {
			return Authority{}, err
		}
		_, err = s.txn(ctx, "make the authority",
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(caKey), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(caKey, value)}, nil)
		if err != nil {
			return Authority{}, err
		}
	}
	return Authority{}, ares.Errorf(ares.Exhausted, "the authority does not stay: try again")
}

// JoinToken lets one machine join, once.
type JoinToken struct {
	ID        string
	Hash      []byte // of its secret
	Node      string // the only node that may use it, "" for any that is new
	By        string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    time.Time
	UsedBy    string // node
	usedKey   []byte
	revision  int64
}

// CreateJoinToken writes a new token, and forgets those that have expired.
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
			ops = append(ops, clientv3.OpDelete(joinKey(old.ID)))
		}
	}
	if left >= MaxJoinTokens {
		return ares.Errorf(ares.Refused, "there are %d join tokens, the most there may be: revoke some, or wait until they expire", left)
	}
	value, err := marshal(joinRecord(&t))
	if err != nil {
		return err
	}
	resp, err := s.txn(ctx, "write join token",
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(joinKey(t.ID)), "=", 0)},
		append(ops, clientv3.OpPut(joinKey(t.ID), value)), nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Conflict, "there is a join token %s already: try again", t.ID)
	}
	return err
}

// JoinTokens lists the tokens that have not expired.
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
	err := s.each(ctx, joinsKey, func(key string, rec *storepb.Record, _ int64) error {
		_, id := rest(key)
		out = append(out, joinTokenOf(rec.GetJoinToken(), id, 0))
		return nil
	})
	return out, err
}

// DeleteJoinToken ends a token, and returns it as it was.
func (s *Store) DeleteJoinToken(ctx context.Context, id string) (JoinToken, error) {
	was, err := s.take(ctx, "delete join token", joinKey(id))
	switch {
	case err != nil:
		return JoinToken{}, err
	case was == nil:
		return JoinToken{}, ares.Errorf(ares.NotFound, "there is no join token %s: see `ares node token list`", id).At("id")
	}
	return joinTokenOf(was.GetJoinToken(), id, was.revision), nil
}

// badJoinToken is the one answer to a token that is unknown, revoked, expired
// or has another secret: who guesses learns nothing.
func badJoinToken() error {
	return ares.Errorf(ares.Unauthentic, "this join token is not known, or not good any more: make a new one with `ares node token create`")
}

// UseJoinToken notes that a node joins by a token with a key, and returns the
// revision at which it may be certified. A token is used once; again only by
// the same node with the same key, whose answer may have been lost.
func (s *Store) UseJoinToken(ctx context.Context, id string, hash []byte, node string, key []byte, now time.Time) (int64, error) {
	for range maxTries {
		got, err := s.get(ctx, joinKey(id))
		if err != nil {
			return 0, err
		}
		if len(got.Kvs) == 0 {
			return 0, badJoinToken()
		}
		rec, err := unmarshal(joinKey(id), got.Kvs[0].Value)
		if err != nil {
			return 0, err
		}
		t := joinTokenOf(rec.GetJoinToken(), id, got.Kvs[0].ModRevision)
		if err = t.check(hash, node, key, now); err != nil {
			return 0, err
		}
		seen, err := s.newlyJoined(ctx, &t, node)
		if err != nil {
			return 0, err
		}
		if t.UsedAt.IsZero() {
			t.UsedAt = now
		}
		t.UsedBy, t.usedKey = node, key
		rev, again, err := s.markUsed(ctx, &t, rec, seen)
		if err != nil || !again {
			return rev, err
		}
	}
	return 0, ares.Errorf(ares.Exhausted, "join token %s is in use: try again", id)
}

// newlyJoined refuses a token for anybody to a name that another token has let in: it
// has a certificate, though it is not among the nodes before its first session. It
// returns the revision of what it has seen, for markUsed to compare.
func (s *Store) newlyJoined(ctx context.Context, t *JoinToken, node string) (seen int64, err error) {
	got, err := s.get(ctx, joinedOf(node))
	if err != nil || len(got.Kvs) == 0 {
		return 0, err
	}
	rec, err := unmarshal(joinedOf(node), got.Kvs[0].Value)
	if err != nil {
		return 0, err
	}
	if t.Node == "" && rec.GetJoined().GetToken() != t.ID {
		return 0, notForAnybody(node, "is known already")
	}
	return got.Kvs[0].ModRevision, nil
}

func notForAnybody(node, why string) error {
	return ares.Errorf(ares.Forbidden, "node %s %s: only a join token that names it lets it join (`ares node token create --node %s`)", node, why, node)
}

// check says whether a node may use a token.
func (t *JoinToken) check(hash []byte, node string, key []byte, now time.Time) error {
	switch {
	case subtle.ConstantTimeCompare(t.Hash, hash) != 1 || !t.ExpiresAt.After(now):
		return badJoinToken()
	case t.Node != "" && t.Node != node:
		return ares.Errorf(ares.Forbidden, "this join token is for node %s, not for %s: start the agent with --node %s, or make a token for %s", t.Node, node, t.Node, node)
	case !t.UsedAt.IsZero() && (t.UsedBy != node || subtle.ConstantTimeCompare(t.usedKey, key) != 1):
		return ares.Errorf(ares.Unauthentic, "this join token was used already, by node %s at %s: each is good for one join; make a new one with `ares node token create`", t.UsedBy, t.UsedAt.Format(time.RFC3339))
	}
	return nil
}

// markUsed writes a token's use, and that the node has joined. again says that one
// of the two was changed meanwhile: of machines that want one name, one has it.
func (s *Store) markUsed(ctx context.Context, t *JoinToken, was *storepb.Record, seen int64) (rev int64, again bool, err error) {
	node, rec := t.UsedBy, joinRecord(t)
	carry(rec, was)
	carry(rec.GetJoinToken(), was.GetJoinToken())
	value, err := marshal(rec)
	if err != nil {
		return 0, false, err
	}
	joined, err := marshal(&storepb.Record{Body: &storepb.Record_Joined{Joined: &storepb.Joined{Token: t.ID, At: micros(t.UsedAt)}}})
	if err != nil {
		return 0, false, err
	}
	cmps := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(joinKey(t.ID)), "=", t.revision),
		clientv3.Compare(clientv3.ModRevision(joinedOf(node)), "=", seen),
	}
	known := []clientv3.Op{clientv3.OpGet(nodeKey(node), clientv3.WithKeysOnly()), clientv3.OpGet(revokedOf(node), clientv3.WithKeysOnly())}
	if t.Node == "" {
		// A token for anybody must not make its holder a node that is another's.
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(nodeKey(node)), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(revokedOf(node)), "=", 0))
	}
	resp, err := s.txn(ctx, "use join token", cmps,
		[]clientv3.Op{clientv3.OpPut(joinKey(t.ID), value), clientv3.OpPut(joinedOf(node), joined)}, known)
	switch {
	case err != nil:
		return 0, false, err
	case resp.Succeeded:
		return resp.Header.Revision, false, nil
	}
	for i, word := range []string{"is known already", "was revoked"} {
		if t.Node == "" && len(resp.Responses[i].GetResponseRange().Kvs) > 0 {
			return 0, false, notForAnybody(node, word)
		}
	}
	return 0, true, nil
}

func joinRecord(t *JoinToken) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_JoinToken{JoinToken: &storepb.JoinToken{
		Hash: t.Hash, Node: t.Node, CreatedBy: t.By, CreatedAt: micros(t.CreatedAt), ExpiresAt: micros(t.ExpiresAt),
		UsedAt: micros(t.UsedAt), UsedBy: t.UsedBy, UsedKey: t.usedKey,
	}}}
}

func joinTokenOf(m *storepb.JoinToken, id string, revision int64) JoinToken {
	return JoinToken{
		ID: id, Hash: m.GetHash(), Node: m.GetNode(), By: m.GetCreatedBy(), CreatedAt: fromMicros(m.GetCreatedAt()),
		ExpiresAt: fromMicros(m.GetExpiresAt()), UsedAt: fromMicros(m.GetUsedAt()), UsedBy: m.GetUsedBy(), usedKey: m.GetUsedKey(),
		revision: revision,
	}
}
