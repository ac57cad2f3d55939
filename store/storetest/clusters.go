package storetest

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var clusterLaws = []law{
	{"AClusterJoinsOnceWithItsToken", clusterJoins},
	{"AnotherStoreTakesNoLivingName", clusterOtherStore},
	{"ADeadClusterJoinsAnew", clusterAnew},
	{"ARejectedJoinChangesNothing", clusterRejected},
	{"NoChangeOfAClusterIsLost", clusterRace},
	{"AClusterHasAKey", clusterKeys},
}

func newCluster(t *testing.T, s *store.Store) store.Cluster {
	t.Helper()
	c, err := s.RegisterCluster(t.Context(), store.Cluster{
		Name: Name("cluster"), Region: "eu", Labels: map[string]string{"tier": "prod"}, Prices: map[string]int64{"H100": 2_500_000}, By: "ann",
		RegisteredAt: Noon, TokenHash: []byte("hash of the secret"), TokenExpiresAt: Noon.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func noCheck() error { return nil }

func joinOf(c store.Cluster, id string) store.Cluster {
	return store.Cluster{Name: c.Name, Store: id, Version: "v1", TokenHash: []byte("hash of the secret"), FederatedTenants: []string{"default"}, LocalTenants: []string{"lab"}}
}

func clusterJoins(t *testing.T, s *store.Store) {
	c := newCluster(t, s)
	if c.State() != store.ClusterRegistered || c.HasJoined() || c.GetsOffers() {
		t.Errorf("before it joins, it is %+v", c)
	}
	wrong := joinOf(c, "s1")
	wrong.TokenHash = []byte("hash of a wrong secret")
	for _, bad := range []func() (store.Cluster, error){
		func() (store.Cluster, error) { return s.JoinCluster(t.Context(), wrong, []byte("k"), noCheck, Noon) },
		func() (store.Cluster, error) {
			return s.JoinCluster(t.Context(), joinOf(c, "s1"), []byte("k"), noCheck, Noon.Add(time.Hour))
		},
	} {
		_, err := bad()
		refused(t, err, ares.Unauthentic, "unknown or no longer valid")
	}
	joined, err := s.JoinCluster(t.Context(), joinOf(c, "s1"), []byte("k"), noCheck, Noon)
	if err != nil || joined.State() != store.ClusterUnreachable || !joined.HasJoined() || joined.Store != "s1" || joined.Revision <= c.Revision || joined.CertifiedFrom != c.Revision {
		t.Fatalf("joined as %+v, %v", joined, err)
	}
	again, err := s.JoinCluster(t.Context(), joinOf(c, "s1"), []byte("k"), noCheck, Noon.Add(time.Minute))
	if err != nil || !reflect.DeepEqual(again, joined) {
		t.Errorf("the same again gave %+v, %v, want %+v", again, err, joined)
	}
	_, err = s.JoinCluster(t.Context(), joinOf(c, "s1"), []byte("another key"), noCheck, Noon)
	refused(t, err, ares.Unauthentic, "already used")
	got, err := s.Cluster(t.Context(), c.Name)
	if err != nil || !reflect.DeepEqual(got, joined) {
		t.Errorf("read %+v, %v, want %+v", got, err, joined)
	}
	if got.Region != "eu" || got.Prices["H100"] != 2_500_000 || got.Runs("lab") || !got.Runs("default") || !got.Runs("vision") {
		t.Errorf("it is %+v", got)
	}
}

func clusterOtherStore(t *testing.T, s *store.Store) {
	c := newCluster(t, s)
	if _, err := s.JoinCluster(t.Context(), joinOf(c, "s1"), []byte("k"), noCheck, Noon); err != nil {
		t.Fatal(err)
	}
	registerAgain(t, s, c)
	got, err := s.Cluster(t.Context(), c.Name)
	if err != nil || got.Region != "eu" || got.Labels["tier"] != "prod" || got.Prices["H100"] != 2_500_000 {
		t.Errorf("registered again without region, labels and prices: %+v, %v", got, err)
	}
	_, err = s.JoinCluster(t.Context(), joinOf(c, "s2"), []byte("k2"), noCheck, Noon)
	refused(t, err, ares.Conflict, "declare-dead "+c.Name)
	if got, err := s.JoinCluster(t.Context(), joinOf(c, "s1"), []byte("k2"), noCheck, Noon); err != nil || got.Store != "s1" {
		t.Errorf("the same store with a new token: %+v, %v", got, err)
	}
}

func registerAgain(t *testing.T, s *store.Store, c store.Cluster) {
	t.Helper()
	if _, err := s.RegisterCluster(t.Context(), store.Cluster{Name: c.Name, RegisteredAt: Noon, TokenHash: c.TokenHash, TokenExpiresAt: Noon.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
}

func clusterAnew(t *testing.T, s *store.Store) {
	c := newCluster(t, s)
	old, err := s.JoinCluster(t.Context(), joinOf(c, "s1"), []byte("k"), noCheck, Noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.UpdateCluster(t.Context(), c.Name, func(c *store.Cluster) error {
		c.Decided, c.Cookie, c.SeenRevision = store.ClusterDead, "cookie", 7
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	registerAgain(t, s, c)
	if got, err := s.Cluster(t.Context(), c.Name); err != nil || got.Decided != store.ClusterDead {
		t.Errorf("a new token made it %+v, %v", got, err)
	}
	got, err := s.JoinCluster(t.Context(), joinOf(c, "s2"), []byte("k2"), noCheck, Noon.Add(time.Minute))
	if err != nil || got.Decided != store.ClusterReady || got.Store != "s2" || got.Cookie != "" || got.SeenRevision != 0 {
		t.Errorf("it joined as %+v, %v", got, err)
	}
	if got.CertifiedFrom <= old.Revision {
		t.Errorf("certificates of revision %d are still good from %d", old.Revision, got.CertifiedFrom)
	}
}

func clusterRejected(t *testing.T, s *store.Store) {
	c := newCluster(t, s)
	_, err := s.JoinCluster(t.Context(), joinOf(c, "s1"), []byte("k"), func() error { return errors.New("no") }, Noon)
	if err == nil || err.Error() != "no" {
		t.Fatalf("got %v", err)
	}
	if got, err := s.Cluster(t.Context(), c.Name); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("read %+v, %v, want %+v", got, err, c)
	}
	_, err = s.Cluster(t.Context(), "nobody")
	refused(t, err, ares.NotFound, "ares cluster list")
	_, err = s.RegisterCluster(t.Context(), store.Cluster{Name: "a.b", RegisteredAt: Noon})
	refused(t, err, ares.Invalid, "a.b")
}

func clusterRace(t *testing.T, s *store.Store) {
	c := newCluster(t, s)
	const writers = 4
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			if _, err := s.UpdateCluster(t.Context(), c.Name, func(c *store.Cluster) error { c.SeenRevision++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.Cluster(t.Context(), c.Name)
	if err != nil || got.SeenRevision != writers {
		t.Errorf("%d changes of %d, %v", got.SeenRevision, writers, err)
	}
	same, err := s.UpdateCluster(t.Context(), c.Name, func(*store.Cluster) error { return nil })
	if err != nil || same.Revision != got.Revision {
		t.Errorf("no change wrote revision %d over %d, %v", same.Revision, got.Revision, err)
	}
	all, err := s.Clusters(t.Context())
	if err != nil || len(all) == 0 {
		t.Errorf("%d clusters, %v", len(all), err)
	}
}

func clusterKeys(t *testing.T, s *store.Store) {
	if got, err := s.ClusterKey(t.Context()); got != nil || err != nil {
		t.Fatalf("before the first: %+v, %v", got, err)
	}
	want := store.ClusterKey{Certificate: []byte("c"), Authority: []byte("a"), Key: []byte("k"), Salt: []byte("s")}
	if err := s.PutClusterKey(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ClusterKey(t.Context()); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	if err := s.DeleteClusterKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ClusterKey(t.Context()); got != nil || err != nil {
		t.Errorf("after it was deleted: %+v, %v", got, err)
	}
}
