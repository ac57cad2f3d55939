package storetest

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// ARollbackEndsLeading tests the record of a rollback. The store has no leader afterwards, so it must be of this test alone.
// The parameter `other` is the identity of another store.
func ARollbackEndsLeading(t *testing.T, s *store.Store, other store.Identity) {
	id, revision, err := s.Identity(t.Context())
	if err != nil || id.RolledBack != nil {
		t.Fatalf("the identity is %+v, %v", id, err)
	}
	job, node := NewJob(t, s), NewNode(t, s)
	lead, _ := NewLead(t, s)
	candidate := make(chan error, 1)
	go func() { // waits behind the leader
		candidate <- s.Lead(t.Context(), "server-2", time.Minute, func(context.Context, *store.Leadership) error {
			t.Error("a server that waited leads")
			return nil
		})
	}()
	rollback := func(server string) store.Rollback {
		return store.Rollback{Server: server, Seen: revision + 7, Found: revision, At: Noon}
	}
	refuseRollbacks(t, s, id, other, rollback("server-1"))
	now, _, err := s.Identity(t.Context())
	if err != nil || now.RolledBack != nil {
		t.Fatalf("the identity is %+v, %v", now, err)
	}
	Place(t, s, lead, NewJob(t, s), node)
	granted, cluster := NewJob(t, s), NewCluster(t, s, "one-1") // if the store is a hub's
	claim := store.Claim{Job: granted.ID, Epoch: OfferJob(t, s, lead, granted.ID, cluster.Name).Epoch, Cluster: cluster.Name, Incarnation: "one-1", At: Noon}

	noteAtOnce(t, s, id, rollback)
	now, _, err = s.Identity(t.Context())
	if err != nil || now.RolledBack == nil {
		t.Fatalf("the identity is %+v, %v", now, err)
	}

	// The leader of before writes nothing more, and nobody else becomes the leader.
	_, _, err = s.Commit(t.Context(), lead, "digest", []store.Change{Placing(t, s, job, node)})
	refused(t, err, ares.Fenced, "no longer the leader")
	if left := Records(t, s, "leases/"+string(job.ID)); len(left) > 0 {
		t.Errorf("a fencing token was issued: %v", left)
	}
	_, err = s.Bind(t.Context(), claim)
	refused(t, err, ares.Unavailable, "no leader")
	if t.Failed() {
		return // the candidate would wait behind the leader for ever
	}
	refused(t, <-candidate, ares.Unavailable, "server "+now.RolledBack.Server, "earlier time", "ares backup", "ares restore")
	err = s.Lead(t.Context(), "server-3", time.Minute, func(context.Context, *store.Leadership) error {
		t.Error("a server leads a store that was rolled back")
		return nil
	})
	refused(t, err, ares.Unavailable, "earlier time")
	if name, bad := s.Leader(t.Context()); bad != nil || name != "" {
		t.Errorf("the leader is %q, %v", name, bad)
	}
}

// refuseRollbacks tries to record rollbacks of other stores, and rollbacks that are none.
func refuseRollbacks(t *testing.T, s *store.Store, id, other store.Identity, r store.Rollback) {
	t.Helper()
	for name, of := range map[string]store.Identity{"another store": other, "no store": {}} { // order-free: each is refused
		t.Run(name, func(t *testing.T) {
			_, err := s.NoteRollback(t.Context(), of, r)
			refused(t, err, ares.Fenced, "not recorded")
		})
	}
	for _, none := range []store.Rollback{{Server: "server-1", Seen: 5, Found: 5}, {Seen: 6, Found: 5}} {
		_, err := s.NoteRollback(t.Context(), id, none)
		refused(t, err, ares.Invalid, "is no rollback")
	}
	if left := Records(t, s, "loop/rollback"); len(left) > 0 {
		t.Errorf("recorded: %v", left)
	}
	if name, err := s.Leader(t.Context()); err != nil || name != "server-1" {
		t.Errorf("the leader is %q, %v", name, err)
	}
}

// noteAtOnce lets several servers notice a rollback at once. One record stays.
func noteAtOnce(t *testing.T, s *store.Store, id store.Identity, rollback func(server string) store.Rollback) {
	t.Helper()
	var wg sync.WaitGroup
	records := make([]*store.Rollback, 8)
	for i := range records {
		wg.Go(func() {
			got, err := s.NoteRollback(t.Context(), id, rollback("server-"+string(rune('a'+i))))
			if err != nil {
				t.Error(err)
			}
			records[i] = got
		})
	}
	wg.Wait()
	now, after, err := s.Identity(t.Context())
	if err != nil || now.RolledBack == nil {
		t.Fatalf("the identity is %+v, %v", now, err)
	}
	for i, r := range records {
		if r == nil || !reflect.DeepEqual(*r, *now.RolledBack) {
			t.Errorf("server %d was told %+v, the store has %+v", i, r, now.RolledBack)
		}
	}
	if again, err := s.NoteRollback(t.Context(), id, rollback("server-z")); err != nil || !reflect.DeepEqual(again, now.RolledBack) {
		t.Errorf("a repeated record: %+v, %v", again, err)
	}
	if at, bad := s.Revision(t.Context()); bad != nil || at != after {
		t.Errorf("a repeated record wrote: revision %d, was %d, %v", at, after, bad)
	}
}
