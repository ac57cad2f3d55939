package storetest

import (
	"maps"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// The laws of what hub and clusters keep about clusters.
var metadataLaws = []law{
	{"EntriesAreOfOneHub", metadataOfOneHub},
	{"ManyEntriesAreWritten", metadataOfMany},
	{"WhatAdministratorsWriteHasAVersion", metadataVersions},
	{"ARestoredHubRecallsCopies", metadataRecalled},
}

// putMetadata writes entries whatever the store has.
func putMetadata(t *testing.T, s *store.Store, hub string, list ...store.ClusterMetadata) error {
	t.Helper()
	return s.ChangeClusterMetadata(t.Context(), hub, func([]store.ClusterMetadata) []store.ClusterMetadata { return list })
}

func metadataIn(t *testing.T, s *store.Store, hub string) []store.ClusterMetadata {
	t.Helper()
	list, err := s.ClusterMetadata(t.Context(), hub)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func metadataOfOneHub(t *testing.T, s *store.Store) {
	said := store.ClusterMetadata{Cluster: "east", ByHub: true, Revision: 7, Value: "value", Seal: "seal"}
	if err := s.DeleteMembership(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused(t, putMetadata(t, s, "hub", said), ares.Fenced, "has left its hub")
	if _, err := s.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Name, m.HubStore = "east", "hub"; return nil }); err != nil {
		t.Fatal(err)
	}
	refused(t, putMetadata(t, s, "another", said), ares.Fenced, "of hub another")
	own := store.ClusterMetadata{Cluster: "east", Incarnation: 3, Revision: 8, Value: "other"}
	if err := putMetadata(t, s, "hub", said, own); err != nil {
		t.Fatal(err)
	}
	if got := metadataIn(t, s, "hub"); !slices.Equal(got, []store.ClusterMetadata{said, own}) {
		t.Errorf("kept %+v", got)
	}
	wroteNothing(t, s, "no entries", func() error { return putMetadata(t, s, "hub") })
	if got := metadataIn(t, s, "another"); len(got) > 0 {
		t.Errorf("of another hub: %+v", got)
	}
	if err := s.DeleteMembership(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := metadataIn(t, s, "hub"); len(got) > 0 {
		t.Errorf("after the cluster has left: %+v", got)
	}
	id, _, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err = putMetadata(t, s, id.Store, own); err != nil { // a hub keeps what its clusters say
		t.Fatal(err)
	}
	if got := metadataIn(t, s, id.Store); !slices.Equal(got, []store.ClusterMetadata{own}) {
		t.Errorf("the hub keeps %+v", got)
	}
}

// More entries than one transaction of etcd may write, and more bytes.
func metadataOfMany(t *testing.T, s *store.Store) {
	id, _, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []store.ClusterMetadata
	for i := range 150 {
		list = append(list, store.ClusterMetadata{Cluster: Name("cluster"), Revision: int64(i), Value: string(make([]byte, 20_000))})
	}
	if err = putMetadata(t, s, id.Store, list...); err != nil {
		t.Fatal(err)
	}
	if got := metadataIn(t, s, id.Store); len(got) < len(list) {
		t.Errorf("%d of %d entries were written", len(got), len(list))
	}
}

func metadataVersions(t *testing.T, s *store.Store) {
	name := Name("cluster")
	register := func(region string) store.Cluster {
		t.Helper()
		c, err := s.RegisterCluster(t.Context(), store.Cluster{Name: name, Region: region, TokenHash: []byte(Name("token")), RegisteredAt: Noon})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := register("eu")
	if first.Described == 0 || first.Described >= first.Revision {
		t.Errorf("a new cluster is described at %d, and its record has the revision %d", first.Described, first.Revision)
	}
	if same := register(""); same.Described != first.Described {
		t.Errorf("a new token changes the version from %d to %d", first.Described, same.Described)
	}
	last := register("us")
	if last.Described <= first.Described {
		t.Errorf("the version %d follows %d", last.Described, first.Described)
	}
	change := func(edit func(*store.Cluster)) store.Cluster {
		t.Helper()
		c, err := s.UpdateCluster(t.Context(), name, func(c *store.Cluster) error { edit(c); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := change(func(c *store.Cluster) { c.Cookie, c.Version, c.Unreachable, c.Damped = "x", "v2", true, true }); c.Described != last.Described {
		t.Error("a session changes the version of what administrators wrote")
	}
	for what, edit := range map[string]func(*store.Cluster){
		"labels": func(c *store.Cluster) { c.Labels = map[string]string{"a": "b"} }, "a label": func(c *store.Cluster) { c.Labels["a"] = "c" },
		"prices": func(c *store.Cluster) { c.Prices = map[string]int64{"H100": 1} }, "state": func(c *store.Cluster) { c.Decided = store.ClusterCordoned },
		"tenants": func(c *store.Cluster) { c.LocalTenants = []string{"lab"} }, "reason": func(c *store.Cluster) { c.Reason = "r" },
	} {
		if what == "a label" {
			change(func(c *store.Cluster) { c.Labels = map[string]string{"a": "b"} })
		}
		before := change(func(*store.Cluster) {})
		if c := change(edit); c.Described <= before.Described {
			t.Errorf("%s: the version %d follows %d", what, c.Described, before.Described)
		}
	}
}

func metadataRecalled(t *testing.T, s *store.Store) {
	copyOf := func(edit func(*store.Cluster)) store.Cluster {
		t.Helper()
		c := store.Cluster{
			Name: "east", Decided: store.ClusterReady, Region: "eu", Labels: map[string]string{"a": "b"}, Prices: map[string]int64{"H100": 1},
			LocalTenants: []string{"lab"}, CertifiedFrom: 6, By: "me", Reason: "so", Described: 2, Cookie: "secret", TokenHash: []byte("secret"), Stops: true,
		}
		edit(&c)
		value, err := store.EncodeClusterCopy(&c)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := store.DecodeClusterCopy("east", value)
		if err != nil {
			t.Fatal(err)
		}
		if kept.Cookie != "" || kept.TokenHash != nil {
			t.Error("a copy has secrets")
		}
		return kept
	}
	recall := func(described int64, edit func(*store.Cluster)) store.Cluster {
		t.Helper()
		e := store.RosterEntry{Name: Name("cluster"), Store: "s1", Since: 7, CertifiedFrom: 6}
		if err := s.AdoptCluster(t.Context(), e, Noon); err != nil {
			t.Fatal(err)
		}
		kept := copyOf(edit)
		c, err := s.UpdateCluster(t.Context(), e.Name, func(c *store.Cluster) error {
			c.Described = described
			c.Recall(&kept)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.Described == 0 || c.Described >= c.Revision {
			t.Errorf("after the recall, the cluster is described at %d, and its record has the revision %d", c.Described, c.Revision)
		}
		return c
	}
	knows := func(c *store.Cluster) bool {
		return c.Region == "eu" && maps.Equal(c.Labels, map[string]string{"a": "b"}) && c.Prices["H100"] == 1
	}
	if c := recall(0, func(*store.Cluster) {}); !knows(&c) || c.Decided != store.ClusterReady || c.Runs("lab") || c.Reason != "so" || c.Stops {
		t.Errorf("a cluster of which the hub knew only the name: %+v", c)
	}
	if c := recall(3, func(*store.Cluster) {}); c.Region != "" || c.Decided != store.ClusterCordoned {
		t.Errorf("the hub's own word is later, and the copy counts: %+v", c)
	}
	if c := recall(0, func(c *store.Cluster) { c.Decided = store.ClusterDraining }); !knows(&c) || c.Decided != store.ClusterCordoned || c.Reason != "so" {
		t.Errorf("a drain: %+v", c)
	}
	for what, edit := range map[string]func(*store.Cluster){
		"declared dead": func(c *store.Cluster) { c.Decided = store.ClusterDead }, "has left": func(c *store.Cluster) { c.Decided = store.ClusterLeft },
		"of an earlier join": func(c *store.Cluster) { c.CertifiedFrom = 5 },
	} {
		if c := recall(0, edit); !knows(&c) || c.Decided != store.ClusterCordoned || len(c.LocalTenants) > 0 || c.CertifiedFrom != 6 {
			t.Errorf("%s: %+v", what, c)
		}
	}
}
