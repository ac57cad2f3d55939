package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Membership is this cluster's part in a federation.
type Membership struct {
	Name     string // of this cluster at the hub
	HubURL   string
	HubStore string // the ID of the hub's store
	// HubIncarnation is the hub's last restore that this member knows. It is written before the member answers a hub, and
	// messages of other incarnations are refused (F6).
	HubIncarnation string
	// HubRevision is a revision of the hub's store that the member has seen. A restore raises the revision, so a hub with a
	// lower one is an earlier incarnation, or was rolled back.
	HubRevision int64
	// Cookie identifies the last session (F13). PendingCookie is the next one, which the hub does not know to be written yet.
	Cookie, PendingCookie string
	Mode                  string // federated or autonomous
	// HeardAt is when the last answer of the hub was recorded: once a minute, and when the hub falls silent.
	HeardAt  time.Time
	Rejoins  int64 // how often the member joined anew after the hub had declared it dead
	At       time.Time
	Revision int64
}

// HubAnswers reports whether the hub answers, as far as this cluster's leader has recorded.
func (m *Membership) HubAnswers() bool { return m.Mode == "federated" }

// Membership reads this cluster's membership with a linearizable read. It is nil if the cluster is in no federation.
func (s *Store) Membership(ctx context.Context) (*Membership, error) {
	got, err := s.get(ctx, membershipKey)
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	rec, err := unmarshal(membershipKey, got.Kvs[0].Value)
	if err != nil {
		return nil, err
	}
	m := rec.GetMembership()
	return &Membership{
		Name: m.GetName(), HubURL: m.GetHubUrl(), HubStore: m.GetHubStore(), HubIncarnation: m.GetHubIncarnation(),
		Cookie: m.GetCookie(), PendingCookie: m.GetPendingCookie(), Mode: m.GetMode(), Rejoins: m.GetRejoins(), HubRevision: m.GetHubRevision(), At: fromMicros(m.GetAt()),
		HeardAt: fromMicros(m.GetHeardAt()), Revision: got.Kvs[0].ModRevision,
	}, nil
}

// UpdateMembership changes the membership with the function `change`, which gets an empty one if the cluster is in no
// federation. It is called again if the membership changed in between. If it changes nothing, nothing is written.
func (s *Store) UpdateMembership(ctx context.Context, change func(*Membership) error) (Membership, error) {
	return Retry(maxTries, func() (Membership, error) {
		var m Membership
		if was, err := s.Membership(ctx); err != nil {
			return m, err
		} else if was != nil {
			m = *was
		}
		before := m
		if err := change(&m); err != nil || m == before {
			return m, err
		}
		value, err := marshal(membershipRecord(&m))
		if err != nil {
			return m, err
		}
		resp, err := s.txn(ctx, "write membership", []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(membershipKey), "=", before.Revision)},
			[]clientv3.Op{clientv3.OpPut(membershipKey, value)}, nil)
		switch {
		case err != nil:
			return m, err
		case !resp.Succeeded:
			return m, Conflict{ares.Errorf(ares.Exhausted, "the membership of this cluster keeps changing: try again")}
		}
		m.Revision = resp.Header.Revision
		return m, nil
	})
}

// DeleteMembership records that this cluster has left its federation. The claims, the roster and what it kept about
// the hub's other clusters go too; the floors of ended grants stay as long as tombstones do.
func (s *Store) DeleteMembership(ctx context.Context) error {
	_, err := s.txn(ctx, "leave the federation", nil, []clientv3.Op{
		clientv3.OpDelete(membershipKey), clientv3.OpDelete(rosterKey), clientv3.OpDelete(grantClaimsKey, clientv3.WithPrefix()),
		clientv3.OpDelete(metadataKey, clientv3.WithPrefix()),
	}, nil)
	return err
}

func membershipRecord(m *Membership) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Membership{Membership: &storepb.Membership{
		Name: m.Name, HubUrl: m.HubURL, HubStore: m.HubStore, HubIncarnation: m.HubIncarnation,
		Cookie: m.Cookie, PendingCookie: m.PendingCookie, Mode: m.Mode, Rejoins: m.Rejoins, HubRevision: m.HubRevision, At: micros(m.At),
		HeardAt: micros(m.HeardAt),
	}}}
}
