package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Roster lists the clusters of a hub that may own jobs. The hub's own roster is its records of the clusters. Members keep
// copies, and so does history: a hub that is restored from an older backup learns from them which clusters it must ask (F6).
type Roster struct {
	Hub string // the ID of the hub's store
	// Version is the revision at which the hub read its clusters. A restore raises the revision, so versions only grow.
	Version  int64
	Clusters []RosterEntry // ordered by name
}

// RosterEntry is one membership of a cluster.
type RosterEntry struct {
	Name          string
	Store         string // the ID of the cluster's store
	Since         int64  // as in Cluster
	CertifiedFrom int64  // as in Cluster
}

// RosterOf returns the entries of the clusters that may own jobs, in the given order.
func RosterOf(clusters []Cluster) []RosterEntry {
	var out []RosterEntry
	for i := range clusters {
		if c := &clusters[i]; c.MayOwn() {
			out = append(out, RosterEntry{Name: c.Name, Store: c.Store, Since: c.Since, CertifiedFrom: c.CertifiedFrom})
		}
	}
	return out
}

// Has reports whether the hub's record of a cluster says as much as the entry of a roster: the hub knows a later decision
// about the cluster, or it waits for this store after a restore anyway.
func (c *Cluster) Has(e RosterEntry) bool {
	return c.Since >= e.Since || c.MayOwn() && c.Store == e.Store
}

// Roster reads the roster that this member keeps. It is nil before the first one.
func (s *Store) Roster(ctx context.Context) (*Roster, error) {
	got, err := s.get(ctx, rosterKey)
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	rec, err := unmarshal(rosterKey, got.Kvs[0].Value)
	if err != nil {
		return nil, err
	}
	return rosterOf(rec.GetRoster()), nil
}

// PutRoster keeps the roster of this member's hub. It returns an error with the code Fenced, and keeps what it has, if the
// roster is older than the one that it has, or if the hub is not the one that this cluster has joined. A repeated call
// changes nothing.
func (s *Store) PutRoster(ctx context.Context, r *Roster) error {
	value, err := marshal(rosterRecord(r))
	if err != nil {
		return err
	}
	_, err = Retry(maxTries, func() (struct{}, error) {
		got, err := s.txn(ctx, "read roster", nil, []clientv3.Op{clientv3.OpGet(rosterKey), clientv3.OpGet(membershipKey)}, nil)
		if err != nil {
			return struct{}{}, err
		}
		seen := int64(0)
		if kvs := got.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			rec, err := unmarshal(rosterKey, kvs[0].Value)
			if err != nil {
				return struct{}{}, err
			}
			switch was := rec.GetRoster(); {
			case was.GetHub() != r.Hub: // of a hub that this cluster has left
			case was.GetVersion() > r.Version:
				return struct{}{}, ares.Errorf(ares.Fenced, "the roster %d of the hub is older than the roster %d that this cluster has", r.Version, was.GetVersion())
			case was.GetVersion() == r.Version:
				return struct{}{}, nil
			}
			seen = kvs[0].ModRevision
		}
		member, err := ofHub(r.Hub, got.Responses[1].GetResponseRange().Kvs)
		if err != nil {
			return struct{}{}, err
		}
		resp, err := s.txn(ctx, "write roster", []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(rosterKey), "=", seen), member,
		}, []clientv3.Op{clientv3.OpPut(rosterKey, value)}, nil)
		if err == nil && !resp.Succeeded {
			err = Conflict{ares.Errorf(ares.Exhausted, "the roster of this cluster keeps changing: try again")}
		}
		return struct{}{}, err
	})
	return err
}

// AdoptCluster records a cluster that this restored hub does not know as a member, and that a roster from outside names. The
// hub then waits for its answer. If the hub's record Has the entry, nothing changes.
//
// The cluster is cordoned: the hub does not know which of its tenants are local. It gets offers when it has joined again.
func (s *Store) AdoptCluster(ctx context.Context, e RosterEntry, now time.Time) error {
	if !ValidClusterName(e.Name) {
		return ares.Errorf(ares.Invalid, "a roster names the cluster %q, which is not a valid name", ares.Clip(e.Name))
	}
	_, err := Retry(maxTries, func() (Cluster, error) {
		c, err := s.Cluster(ctx, e.Name)
		switch {
		case ares.CodeOf(err) == ares.NotFound:
			c = Cluster{Name: e.Name, RegisteredAt: now}
		case err != nil:
			return c, err
		case c.Has(e):
			return c, nil
		}
		if c.Store != e.Store {
			c.forgetStore()
		}
		c.Begin(now)
		c.Store, c.Since, c.CertifiedFrom, c.JoinedAt = e.Store, e.Since, max(c.CertifiedFrom, e.CertifiedFrom), now
		c.Unreachable, c.HealthSince = true, now // until it opens a session
		c.Decided, c.Reason = ClusterCordoned, "it joined after the backup of the hub: register it and let it join again"
		return s.putCluster(ctx, c)
	})
	return err
}

func rosterRecord(r *Roster) *storepb.Record {
	m := &storepb.Roster{Hub: r.Hub, Version: r.Version}
	for _, e := range r.Clusters {
		m.Clusters = append(m.Clusters, &storepb.RosterEntry{Name: e.Name, Store: e.Store, Since: e.Since, CertifiedFrom: e.CertifiedFrom})
	}
	return &storepb.Record{Body: &storepb.Record_Roster{Roster: m}}
}

func rosterOf(m *storepb.Roster) *Roster {
	r := &Roster{Hub: m.GetHub(), Version: m.GetVersion()}
	for _, e := range m.GetClusters() {
		r.Clusters = append(r.Clusters, RosterEntry{Name: e.GetName(), Store: e.GetStore(), Since: e.GetSince(), CertifiedFrom: e.GetCertifiedFrom()})
	}
	return r
}
