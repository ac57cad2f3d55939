package storetest

import (
	"reflect"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var rosterLaws = []law{
	{"ARosterOnlyGrows", rosterVersions},
	{"ARosterNamesWhoMayOwnJobs", rosterEntries},
	{"ANewMemberIsNotBound", rosterBind},
	{"ARestoredHubAdoptsWhatARosterNames", rosterAdopts},
}

func rosterVersions(t *testing.T, s *store.Store) {
	roster := func(version int64) *store.Roster {
		return &store.Roster{Hub: "hub of rosters", Version: version, Clusters: []store.RosterEntry{{Name: "east", Store: "s1", Since: version, CertifiedFrom: 3}, {Name: "west", Store: "s2", Since: 4}}}
	}
	if err := s.DeleteMembership(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused(t, s.PutRoster(t.Context(), roster(5)), ares.Fenced, "has left its hub")
	member := func(hub string) {
		t.Helper()
		if _, err := s.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Name, m.HubStore = "west", hub; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	member("hub of rosters")
	if got, err := s.Roster(t.Context()); got != nil || err != nil {
		t.Errorf("before the first: %+v, %v", got, err)
	}
	kept := func(want *store.Roster) {
		t.Helper()
		if got, err := s.Roster(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("it keeps %+v, %v, want %+v", got, err, want)
		}
	}
	for _, version := range []int64{5, 7} {
		if err := s.PutRoster(t.Context(), roster(version)); err != nil {
			t.Fatal(err)
		}
		kept(roster(version))
	}
	wroteNothing(t, s, "the same roster again", func() error { return s.PutRoster(t.Context(), roster(7)) })
	refused(t, s.PutRoster(t.Context(), roster(6)), ares.Fenced, "older than the roster 7")
	kept(roster(7))
	if err := s.DeleteMembership(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept(nil)
	member("another hub")
	refused(t, s.PutRoster(t.Context(), roster(8)), ares.Fenced, "another hub")
	if err := s.DeleteMembership(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A membership has the same entry until it ends. The next one under the name has a later entry, which no roster names yet.
func rosterEntries(t *testing.T, s *store.Store) {
	c := newCluster(t, s)
	entries := func() []store.RosterEntry {
		t.Helper()
		now, err := s.Cluster(t.Context(), c.Name)
		if err != nil {
			t.Fatal(err)
		}
		return store.RosterOf([]store.Cluster{now})
	}
	set := func(change func(*store.Cluster)) {
		t.Helper()
		if _, err := s.UpdateCluster(t.Context(), c.Name, func(c *store.Cluster) error { change(c); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	join := func(id, key string) store.Cluster {
		t.Helper()
		got, err := s.JoinCluster(t.Context(), joinOf(c, id), []byte(key), noCheck, Noon)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := entries(); len(got) != 0 {
		t.Errorf("before the join: %+v", got)
	}
	first := join("s1", "k")
	if got := entries(); len(got) != 1 || got[0].Store != "s1" || got[0].Since != c.Revision || got[0].CertifiedFrom != first.CertifiedFrom || first.Known {
		t.Errorf("after the join: %+v of %+v", got, first)
	}
	set(func(c *store.Cluster) { c.Known = true })
	registerAgain(t, s, c)
	if again := join("s1", "k2"); again.Since != first.Since || !again.Known {
		t.Errorf("with a new token the membership is %+v, want that of %+v", again, first)
	}
	set(func(c *store.Cluster) { c.Decided = store.ClusterDead })
	if got := entries(); len(got) != 0 {
		t.Errorf("of a dead cluster: %+v", got)
	}
	registerAgain(t, s, c)
	if next := join("s2", "k3"); next.Since <= first.Since || next.Known {
		t.Errorf("after its death the membership is %+v, later than %+v", next, first)
	}
}

func rosterBind(t *testing.T, s *store.Store) {
	job, one := NewJob(t, s), NewCluster(t, s, "one-1")
	lead, _ := NewLead(t, s)
	g := OfferJob(t, s, lead, job.ID, one.Name)
	known := func(yes bool) {
		t.Helper()
		if _, err := s.UpdateCluster(t.Context(), one.Name, func(c *store.Cluster) error { c.Known = yes; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	claim := store.Claim{Job: job.ID, Epoch: g.Epoch, Cluster: one.Name, Incarnation: "one-1", At: Noon}
	known(false)
	_, err := s.Bind(t.Context(), claim)
	refused(t, err, ares.Fenced, "not stored outside the hub yet")
	known(true)
	if _, err = s.Bind(t.Context(), claim); err != nil {
		t.Error(err)
	}
}

func rosterAdopts(t *testing.T, s *store.Store) {
	adopt := func(e store.RosterEntry) store.Cluster {
		t.Helper()
		if err := s.AdoptCluster(t.Context(), e, Noon); err != nil {
			t.Fatal(err)
		}
		wroteNothing(t, s, "the same entry again", func() error { return s.AdoptCluster(t.Context(), e, Noon.Add(time.Hour)) })
		c, err := s.Cluster(t.Context(), e.Name)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	e := store.RosterEntry{Name: Name("cluster"), Store: "s1", Since: 7, CertifiedFrom: 6}
	c := adopt(e)
	if !c.MayOwn() || c.GetsOffers() || c.Known || !c.Unreachable || c.Store != "s1" || c.Since != 7 || c.CertifiedFrom != 6 || c.Reason == "" {
		t.Errorf("an unknown cluster: %+v", c)
	}
	if _, err := s.UpdateCluster(t.Context(), e.Name, func(c *store.Cluster) error { c.Decided, c.Cookie = store.ClusterDead, "cookie"; return nil }); err != nil {
		t.Fatal(err)
	}
	if c = adopt(e); c.Decided != store.ClusterDead {
		t.Errorf("a cluster that was declared dead after the entry: %+v", c)
	}
	e.Since = 9
	if c = adopt(e); !c.MayOwn() || c.Since != 9 || c.Cookie != "cookie" {
		t.Errorf("a cluster that came back after its death: %+v", c)
	}
	e.Since, e.Store = 11, "s2"
	if c = adopt(e); c.Store != "s2" || c.Cookie != "" {
		t.Errorf("a cluster with a new store: %+v", c)
	}
	e.Since = 13
	if c = adopt(e); c.Since != 11 {
		t.Errorf("a member with the same store: %+v", c)
	}
	refused(t, s.AdoptCluster(t.Context(), store.RosterEntry{Name: "a.b", Since: 1}, Noon), ares.Invalid, "a.b")
}
