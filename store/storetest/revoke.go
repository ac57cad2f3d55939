package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

func revoke(t *testing.T, s *store.Store, node string) store.Revocation {
	t.Helper()
	r, err := s.Revoke(t.Context(), store.Revocation{Node: node, By: "bob", At: Noon}, Noon)
	if err != nil {
		t.Fatalf("revoke %s: %v", node, err)
	}
	return r
}

// wasCut returns the value of session_cut in the node's record.
func wasCut(t *testing.T, s *store.Store, node *Node) bool {
	t.Helper()
	cut, _ := body(t, Records(t, s, "nodes/"+node.ID)[0], "node")["session_cut"].(bool)
	return cut
}

// toldTTL returns the session TTL from the node's record.
func toldTTL(t *testing.T, s *store.Store, node *Node) time.Duration {
	t.Helper()
	seconds, _ := body(t, Records(t, s, "nodes/"+node.ID)[0], "node")["session_ttl_seconds"].(float64)
	return time.Duration(seconds) * time.Second
}

// revokedSession checks that one transaction ends the session and invalidates the certificates. The
// transaction must also record that the session was cut. If the store did not record that the session was
// cut, a timer would treat the node as a node that only became silent.
func revokedSession(t *testing.T, s *store.Store) {
	st := newStage(t, s, 2)
	node := st.nodes[0]
	Claim(t, s, st.seats[:1], node)
	before := node.Revision(t, s)
	r := revoke(t, s, node.ID)
	if left := Records(t, s, "sessions/"+node.ID); len(left) > 0 {
		t.Fatalf("its session goes on: %+v", left)
	}
	if got := node.Revision(t, s); got != r.Revision || !wasCut(t, s, node) {
		t.Errorf("revoked at %d; its record is of %d, cut %v", r.Revision, got, wasCut(t, s, node))
	}
	// A leader of an older version of Ares knows only the session's TTL. It replaces a TTL of 0
	// with its own TTL, and waits for lost_after − TTL. An older leader must not wait for less
	// than 0.8 × lost_after.
	for _, lostAfter := range []time.Duration{2 * time.Second, ares.MinLostAfterSec * time.Second, ares.MaxLostAfterSec * time.Second} {
		if ttl := toldTTL(t, s, node); ttl == 0 || lostAfter-ttl < lostAfter*4/5 {
			t.Errorf("by a TTL of %s an older leader takes a seat back after %s of %s", ttl, lostAfter-ttl, lostAfter)
		}
	}
	refused(t, s.RenewSession(t.Context(), node.ID, node.Session), ares.Fenced)
	refused(t, s.UpdateNode(t.Context(), node.Node, node.Session), ares.Fenced)
	late := st.seats[1]
	late.Node = node.ID
	if err := s.Claim(t.Context(), late, node.Session, Noon); err == nil {
		t.Error("it claims a seat without a session")
	}
	refused(t, s.Void(t.Context(), st.lead, st.seats[0], before, Noon), ares.Conflict) // that timer was started before the revocation
	if err := s.RenewSession(t.Context(), st.nodes[1].ID, st.nodes[1].Session); err != nil {
		t.Errorf("another node: %v", err)
	}
	// The record of a node without a session is not rewritten, so that a running timer continues.
	if again := revoke(t, s, node.ID); again.Revision <= r.Revision || node.Revision(t, s) != r.Revision {
		t.Errorf("revoked again at %d, its record is of %d", again.Revision, node.Revision(t, s))
	}
	silent := NewNode(t, s)
	silent.Close(t, s)
	if seen := silent.Revision(t, s); revoke(t, s, silent.ID).Revision <= seen || silent.Revision(t, s) != seen || wasCut(t, s, silent) {
		t.Errorf("a silent node was told anew: %d after %d", silent.Revision(t, s), seen)
	}
	if err := s.Void(t.Context(), st.lead, st.seats[0], node.Revision(t, s), Noon); err != nil {
		t.Fatal(err)
	}
	phase(t, s, st.job.ID, ares.Pending)
}

// revokedOpens checks that a server that has not yet seen a revocation opens no session.
func revokedOpens(t *testing.T, s *store.Store) {
	node := NewNode(t, s)
	node.SessionTTL = SessionTTL
	issued, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open := func(certified int64) error {
		_, failed := s.OpenSession(t.Context(), node.Node, node.Instance, "server-2", SessionTTL, certified)
		return failed
	}
	if err = open(issued); err != nil {
		t.Fatal(err)
	}
	r := revoke(t, s, node.ID)
	refused(t, open(issued), ares.Unauthentic, "was revoked", "--node "+node.ID)
	refused(t, open(r.Revision-1), ares.Unauthentic)
	if left := Records(t, s, "sessions/"+node.ID); len(left) > 0 {
		t.Errorf("a revoked node has a session: %+v", left)
	}
	if err = open(r.Revision + 1); err != nil {
		t.Errorf("it joined again, yet: %v", err)
	}
	if got := toldTTL(t, s, node); wasCut(t, s, node) || got != SessionTTL {
		t.Errorf("its new session counts as cut, or as one of %s", got)
	}
	revoke(t, s, node.ID)
	if err = open(0); err != nil { // with the node token, which is valid for any node
		t.Errorf("without a certificate: %v", err)
	}
}

// revokedRace checks that a revoked node has no session afterwards, whatever its agent does during
// the revocation.
func revokedRace(t *testing.T, s *store.Store) {
	node := NewNode(t, s)
	issued, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				_, failed := s.OpenSession(t.Context(), node.Node, node.Instance, "server-2", SessionTTL, issued)
				if failed != nil && ares.CodeOf(failed) != ares.Unauthentic && ares.CodeOf(failed) != ares.Exhausted {
					t.Error(failed)
				}
			}
		})
	}
	r := revoke(t, s, node.ID)
	wg.Wait()
	if left := Records(t, s, "sessions/"+node.ID); len(left) > 0 {
		t.Errorf("revoked at %d, it has a session: %+v", r.Revision, left)
	}
}

// revokedTokens checks that a revocation ends all join tokens that name the node, however many there are.
func revokedTokens(t *testing.T, s *store.Store) {
	node := Name("node")
	for range 150 { // more than one transaction holds
		newJoin(t, s, node)
	}
	kept := newJoin(t, s, Name("node"))
	open := newJoin(t, s, "")
	if _, err := s.UseJoinToken(t.Context(), open.ID, open.Hash, node, []byte("k"), Noon); err != nil {
		t.Fatal(err)
	}
	revoke(t, s, node)
	list, err := s.JoinTokens(t.Context(), Noon)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, j := range list {
		found = found || j.ID == kept.ID
		if j.Node == node {
			t.Fatalf("token %s for the revoked node is left", j.ID)
		}
		if j.ID == open.ID {
			t.Error("the token that was used by the node is left")
		}
	}
	if !found {
		t.Error("another node's token is gone, too")
	}
}

// revokedAnew revokes a node that was already revoked long ago. At the same time, other nodes are
// revoked and old revocations are deleted. The node's new revocation must not be deleted.
func revokedAnew(t *testing.T, s *store.Store) {
	for range 25 {
		node := Name("node")
		if _, err := s.Revoke(t.Context(), store.Revocation{Node: node, At: Noon.AddDate(-1, 0, 0)}, Noon.AddDate(-2, 0, 0)); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, one := range []string{node, Name("node"), Name("node"), Name("node")} {
			wg.Go(func() {
				if _, err := s.Revoke(t.Context(), store.Revocation{Node: one, At: Noon}, Noon); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if left := Records(t, s, "revoked/"+node); len(left) != 1 {
			t.Fatalf("its new revocation is forgotten: %+v", left)
		}
	}
}

// revokedOften creates more old revocations than fit into one transaction. The next few revocations must
// delete them.
func revokedOften(t *testing.T, s *store.Store) {
	prefix := Name("often")
	for i := range 150 {
		old := store.Revocation{Node: fmt.Sprintf("%s-%d", prefix, i), At: Noon.AddDate(-1, 0, 0)}
		if _, err := s.Revoke(t.Context(), old, Noon.AddDate(-2, 0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		revoke(t, s, Name("node"))
	}
	if left := Records(t, s, "revoked/"+prefix); len(left) > 0 {
		t.Errorf("%d are left", len(left))
	}
}
