package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var sessionLaws = []law{
	{"ASecondInstanceIsRefused", sessionSecond},
	{"TheSameInstanceTakesOver", sessionTakeover},
	{"AReplacedSessionIsNotRenewed", sessionReplaced},
	{"ATakeoverKeepsTheLease", sessionKeepsLease},
	{"ASilentSessionEnds", sessionExpires},
	{"ARenewedSessionLives", sessionRenewed},
	{"ASessionMayBeClosed", sessionClosed},
	{"ANodeChangesUnderItsOwnSession", nodeUpdate},
	{"TellingOfANodeIsNoReturn", nodeHeat},
	{"ACordonNeedsANode", cordonRules},
}

func sessionSecond(t *testing.T, s *store.Store) {
	node := NewNode(t, s)
	_, err := s.OpenSession(t.Context(), node.Node, "another-instance", "server-2", time.Minute, 0)
	refused(t, err, ares.Conflict, "another agent", node.ID)
	if err := s.RenewSession(t.Context(), node.ID, node.Session); err != nil {
		t.Errorf("the first session: %v", err)
	}
	node.Close(t, s)
	if _, err := s.OpenSession(t.Context(), node.Node, "another-instance", "server-2", time.Minute, 0); err != nil {
		t.Errorf("the name is free again: %v", err)
	}
}

func sessionTakeover(t *testing.T, s *store.Store) {
	node := NewNode(t, s)
	first, record := node.Session, node.Revision(t, s)
	node.Open(t, s, time.Minute)
	if node.Session <= first || node.Revision(t, s) <= record {
		t.Errorf("session %d after %d, node record %d after %d: both must grow", node.Session, first, node.Revision(t, s), record)
	}
	refused(t, s.RenewSession(t.Context(), node.ID, first), ares.Fenced)
}

// sessionReplaced tries to renew a session that a newer session has replaced. It does so once
// with the same lease and once with another lease. Both renewals must fail, because an
// acknowledgement would tell the older agent that its jobs are safe.
func sessionReplaced(t *testing.T, s *store.Store) {
	node := NewNode(t, s, 5*time.Minute)
	for _, ttl := range []time.Duration{5 * time.Minute, time.Minute, 5 * time.Minute} {
		old := node.Session
		node.Open(t, s, ttl)
		refused(t, s.RenewSession(t.Context(), node.ID, old), ares.Fenced, "open a new session")
		if err := s.RenewSession(t.Context(), node.ID, node.Session); err != nil {
			t.Errorf("renew the new one: %v", err)
		}
	}
	if err := s.CloseSession(t.Context(), node.ID, node.Session); err != nil {
		t.Fatal(err)
	}
	refused(t, s.RenewSession(t.Context(), node.ID, node.Session), ares.Fenced)
}

// sessionKeepsLease checks that a new session with the same TTL reuses the lease of the previous
// session. The new session thus never ends earlier than a previous renewal guaranteed.
func sessionKeepsLease(t *testing.T, s *store.Store) {
	node := NewNode(t, s, 5*time.Minute)
	lease := func() any {
		t.Helper()
		return body(t, Records(t, s, "sessions/"+node.ID)[0], "session")["lease"]
	}
	first := lease()
	if node.Open(t, s, 5*time.Minute); lease() != first {
		t.Errorf("taken over: lease %v after %v", lease(), first)
	}
	if node.Open(t, s, time.Minute); lease() == first {
		t.Error("a session of another TTL hangs on the old lease")
	}
	node.Close(t, s)
	if node.Open(t, s, time.Minute); lease() == nil {
		t.Error("opened anew: no lease")
	}
}

func sessionExpires(t *testing.T, s *store.Store) {
	var node *Node
	told := errors.New("told")
	err := s.Watch(t.Context(), func(b ares.Batch) error {
		if node == nil { // so that the session does not end before the watch starts
			node = NewNode(t, s, SessionTTL)
			return nil
		}
		for _, e := range b.Events {
			if e.Gone == (ares.Gone{Kind: ares.KindSession, ID: node.ID}) {
				return told
			}
		}
		return nil
	})
	if !errors.Is(err, told) {
		t.Fatalf("the watch ended with %v", err)
	}
	if left := Records(t, s, "sessions/"+node.ID); len(left) > 0 {
		t.Errorf("the session is still there: %+v", left)
	}
	if left := Records(t, s, "nodes/"+node.ID); len(left) != 1 {
		t.Errorf("the node's record must outlive its session: %+v", left)
	}
	refused(t, s.RenewSession(t.Context(), node.ID, node.Session), ares.Fenced, "open a new session")
	node.Open(t, s, time.Minute)
}

// sessionRenewed keeps one session alive for longer than its TTL. Another session that began at
// the same time is not renewed and ends.
func sessionRenewed(t *testing.T, s *store.Store) {
	const ttl = 2 * SessionTTL // a machine may stall between two renewals
	var kept, silent *Node
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	renewed := make(chan error, 1)
	renew := func() {
		tick := time.NewTicker(ttl / 20)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				renewed <- nil
				return
			case <-tick.C:
			}
			if failed := s.RenewSession(ctx, kept.ID, kept.Session); failed != nil && ctx.Err() == nil {
				renewed <- failed
				return
			}
		}
	}
	done := errors.New("done")
	err := s.Watch(ctx, func(b ares.Batch) error {
		if silent == nil { // so that the session does not end before the watch starts
			kept, silent = NewNode(t, s, ttl), NewNode(t, s, ttl+time.Second)
			go renew()
			return nil
		}
		for _, e := range b.Events {
			if e.Gone.Kind == ares.KindSession && e.Gone.ID == silent.ID {
				return done
			}
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	if err := s.RenewSession(t.Context(), kept.ID, kept.Session); err != nil {
		t.Errorf("the renewed session: %v", err)
	}
	cancel()
	if err := <-renewed; err != nil {
		t.Errorf("renew: %v", err)
	}
}

func sessionClosed(t *testing.T, s *store.Store) {
	node := NewNode(t, s)
	first := node.Session
	node.Open(t, s, time.Minute)
	// Closing a session that was taken over must not close the new session.
	if err := s.CloseSession(t.Context(), node.ID, first); err != nil {
		t.Fatal(err)
	}
	if left := Records(t, s, "sessions/"+node.ID); len(left) != 1 {
		t.Fatalf("an old session's end took the new one along: %+v", left)
	}
	node.Close(t, s)
	node.Close(t, s) // closing it again changes nothing
	if left := Records(t, s, "sessions/"+node.ID); len(left) > 0 {
		t.Errorf("closed, yet there is %+v", left)
	}
}

func nodeUpdate(t *testing.T, s *store.Store) {
	node := NewNode(t, s)
	first := node.Session
	changed := node.Node
	changed.CPUs = 8
	if err := s.UpdateNode(t.Context(), changed, first); err != nil {
		t.Fatal(err)
	}
	node.Open(t, s, time.Minute)
	refused(t, s.UpdateNode(t.Context(), changed, first), ares.Fenced, "session")
}

// nodeHeat checks that a node's reports about its devices neither end nor begin a session. After
// the session has ended, nothing may rewrite the node's record. A seat's timer compares the
// revision of this record (R3).
func nodeHeat(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	node := st.nodes[0]
	told := node.Node
	told.Devices = []ares.Device{{ID: "a", Healthy: true}}
	told.NUMA = []ares.NUMANode{{ID: 1, CPUs: 8, MemoryMB: 64}}
	told.Taints = []ares.Taint{{Key: "k", Value: "v", Effect: ares.PreferNoSchedule}}
	for _, celsius := range []int{40, 60, 80} {
		told.Devices[0].Celsius = celsius
		if err := s.UpdateNode(t.Context(), told, node.Session); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RenewSession(t.Context(), node.ID, node.Session); err != nil {
		t.Errorf("telling ended the session: %v", err)
	}
	raw := Records(t, s, "nodes/"+node.ID)
	kept := body(t, raw[0], "node")
	if fmt.Sprint(kept["devices"].([]any)[0].(map[string]any)["celsius"], kept["numa"], kept["taints"]) !=
		"80 [map[cpu_cores:8 id:1 memory_mb:64]] [map[effect:PreferNoSchedule key:k value:v]]" {
		t.Errorf("stored %+v", kept)
	}
	node.Close(t, s)
	seen := node.Revision(t, s)
	told.Devices[0].Celsius = 90
	refused(t, s.UpdateNode(t.Context(), told, node.Session), ares.Fenced, "session")
	if now := node.Revision(t, s); now != seen {
		t.Errorf("the record of a silent node went from %d to %d", seen, now)
	}
	if err := s.Void(t.Context(), st.lead, st.seats[0], seen, Noon); err != nil {
		t.Errorf("its seat cannot be taken back: %v", err)
	}
}

func cordonRules(t *testing.T, s *store.Store) {
	node := NewNode(t, s)
	cordon := ares.Cordon{Node: node.ID, By: "me", Why: "new fans", Since: Noon}
	if _, err := s.Cordon(t.Context(), cordon); err != nil {
		t.Fatal(err)
	}
	raw := Records(t, s, "cordons/"+node.ID)
	if len(raw) != 1 || body(t, raw[0], "cordon")["why"] != "new fans" {
		t.Errorf("stored %+v", raw)
	}
	for range 2 {
		if _, err := s.Cordon(t.Context(), ares.Cordon{Node: node.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if left := Records(t, s, "cordons/"+node.ID); len(left) > 0 {
		t.Errorf("uncordoned, yet there is %+v", left)
	}
	cordon.Node = "no-such-node"
	_, err := s.Cordon(t.Context(), cordon)
	refused(t, err, ares.NotFound, "no-such-node")
}
