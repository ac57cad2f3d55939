package storetest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var trustLaws = []law{
	{"ServersAgreeOnOneAuthority", trustOneAuthority},
	{"AJoinTokenIsUsedOnce", trustOnce},
	{"OneOfManyAtOnceUsesAJoinToken", trustRace},
	{"OneOfManyAtOnceHasAName", trustNameRace},
	{"AJoinTokenForAnybodyIsNotForKnownNodes", trustKnownNode},
	{"ANodeHasWhatItsJoinTokenGrants", grantJoined},
	{"ARepeatedJoinKeepsTheGrant", grantRepeated},
	{"AnAdministratorLabelsNodes", grantLabelled},
	{"ARevocationEndsWhatIsOlder", trustRevoked},
	{"ARevocationEndsTheSession", revokedSession},
	{"ARevocationEndsEveryJoinToken", revokedTokens},
	{"ARevokedNodeOpensNoSession", revokedOpens},
	{"ARevocationRacesWithSessions", revokedRace},
	{"ANewRevocationIsNotForgottenWithTheOldOne", revokedAnew},
	{"OldRevocationsAreForgottenHoweverMany", revokedOften},
	{"ADumpShowsNoSecrets", trustDump},
}

func trustOneAuthority(t *testing.T, s *store.Store) {
	const servers = 8
	got := make([]store.Authority, servers)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			var err error
			got[i], err = s.Authority(t.Context(), func() (store.Authority, error) {
				return store.Authority{Certificate: []byte{byte(i)}, Key: []byte{byte(i)}, Salt: []byte{byte(i)}}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, a := range got {
		if !bytes.Equal(a.Certificate, got[0].Certificate) || !bytes.Equal(a.Key, a.Certificate) || !bytes.Equal(a.Salt, a.Certificate) {
			t.Fatalf("the servers have %v", got)
		}
	}
}

func newJoin(t *testing.T, s *store.Store, node string) store.JoinToken {
	t.Helper()
	j := store.JoinToken{
		ID: strings.ToLower(Name("join")), Hash: []byte("the hash of a secret of some length"), Node: node, By: "ann",
		CreatedAt: Noon, ExpiresAt: Noon.Add(time.Hour),
	}
	if err := s.CreateJoinToken(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	return j
}

func trustOnce(t *testing.T, s *store.Store) {
	node := Name("node")
	j := newJoin(t, s, node)
	use := func(hash, node, key string, at time.Time) (int64, error) {
		return s.UseJoinToken(t.Context(), j.ID, []byte(hash), node, []byte(key), at)
	}
	_, err := use("wrong", node, "k", Noon)
	refused(t, err, ares.Unauthentic, "is unknown or no longer valid")
	_, err = use(string(j.Hash), node, "k", j.ExpiresAt)
	refused(t, err, ares.Unauthentic, "is unknown or no longer valid")
	_, err = s.UseJoinToken(t.Context(), "nobody", j.Hash, node, []byte("k"), Noon)
	refused(t, err, ares.Unauthentic, "is unknown or no longer valid")
	_, err = use(string(j.Hash), "other", "k", Noon)
	refused(t, err, ares.Forbidden, "for node "+node)
	first, err := use(string(j.Hash), node, "k", Noon)
	if err != nil || first <= 0 {
		t.Fatalf("the first use: %d, %v", first, err)
	}
	_, err = use(string(j.Hash), node, "another", Noon)
	refused(t, err, ares.Unauthentic, "already used by node "+node)
	again, err := use(string(j.Hash), node, "k", Noon)
	if err != nil || again <= first {
		t.Errorf("the same key again, whose answer was lost: %d, %v", again, err)
	}
	list, err := s.JoinTokens(t.Context(), Noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		if one.ID == j.ID && (one.UsedBy != node || !one.UsedAt.Equal(Noon) || one.By != "ann") {
			t.Errorf("the list has %+v", one)
		}
	}
	if list, err = s.JoinTokens(t.Context(), j.ExpiresAt); err != nil || len(list) != 0 {
		t.Errorf("after their end the list has %v, %v", list, err)
	}
	if was, gone := s.DeleteJoinToken(t.Context(), j.ID); gone != nil || was.ID != j.ID || was.UsedBy != node || !was.UsedAt.Equal(Noon) || was.By != "ann" {
		t.Fatalf("%+v is gone, %v", was, gone)
	}
	_, err = s.DeleteJoinToken(t.Context(), j.ID)
	refused(t, err, ares.NotFound, "ares node token list")
	_, err = use(string(j.Hash), node, "k", Noon)
	refused(t, err, ares.Unauthentic, "is unknown or no longer valid")
}

func trustRace(t *testing.T, s *store.Store) {
	j := newJoin(t, s, "")
	const rivals = 8
	names := make([]string, rivals)
	won := make([]bool, rivals)
	var wg sync.WaitGroup
	for i := range rivals {
		names[i] = Name("node")
		wg.Go(func() {
			_, err := s.UseJoinToken(t.Context(), j.ID, j.Hash, names[i], []byte(names[i]), Noon)
			won[i] = err == nil
			if err != nil && ares.CodeOf(err) != ares.Unauthentic {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	winners := 0
	for _, w := range won {
		if w {
			winners++
		}
	}
	if winners != 1 {
		t.Errorf("%d of %d joined by one token", winners, rivals)
	}
}

// trustNameRace lets several machines request the same node name at the same time. Each machine has a join
// token that names no node. One machine must get the name. The errors for the other machines must say what
// to do.
func trustNameRace(t *testing.T, s *store.Store) {
	for range 10 {
		const rivals = 4
		node := Name("node")
		errs, tokens := make([]error, rivals), make([]store.JoinToken, rivals)
		for i := range tokens {
			tokens[i] = newJoin(t, s, "")
		}
		var wg sync.WaitGroup
		for i, j := range tokens {
			wg.Go(func() { _, errs[i] = s.UseJoinToken(t.Context(), j.ID, j.Hash, node, []byte{byte(i)}, Noon) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			refused(t, err, ares.Forbidden, "known already", "--node "+node)
		}
		if won != 1 {
			t.Fatalf("%d of %d machines became %s: %v", won, rivals, node, errs)
		}
	}
}

func trustKnownNode(t *testing.T, s *store.Store) {
	node := NewNode(t, s)
	j := newJoin(t, s, "")
	_, err := s.UseJoinToken(t.Context(), j.ID, j.Hash, node.ID, []byte("k"), Noon)
	refused(t, err, ares.Forbidden, "known already", "--node "+node.ID)
	named := newJoin(t, s, node.ID)
	if _, err = s.UseJoinToken(t.Context(), named.ID, named.Hash, node.ID, []byte("k"), Noon); err != nil {
		t.Errorf("a token that names the node: %v", err)
	}
	// A node that has joined but has not opened a session yet also counts as
	// existing.
	fresh := Name("node")
	for i, want := range []ares.Code{"", ares.Forbidden} {
		j = newJoin(t, s, "")
		if _, err = s.UseJoinToken(t.Context(), j.ID, j.Hash, fresh, []byte{byte(i)}, Noon); ares.CodeOf(err) != want {
			t.Errorf("machine %d joins as %s: %v, want %q", i, fresh, err, want)
		}
	}
	// A node whose token was deleted also counts as existing, because its certificate may still be valid.
	if _, err = s.DeleteJoinToken(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	j = newJoin(t, s, "")
	_, err = s.UseJoinToken(t.Context(), j.ID, j.Hash, fresh, []byte("k"), Noon)
	refused(t, err, ares.Forbidden, "known already")
	gone := Name("node")
	if _, err = s.Revoke(t.Context(), store.Revocation{Node: gone, At: Noon}, Noon); err != nil {
		t.Fatal(err)
	}
	_, err = s.UseJoinToken(t.Context(), j.ID, j.Hash, gone, []byte("k"), Noon)
	refused(t, err, ares.Forbidden, "was revoked")
}

func trustRevoked(t *testing.T, s *store.Store) {
	node, old := Name("node"), Name("node")
	j := newJoin(t, s, node)
	issued, err := s.UseJoinToken(t.Context(), j.ID, j.Hash, node, []byte("k"), Noon)
	if err != nil {
		t.Fatal(err)
	}
	if rev, bad := s.Certifiable(t.Context(), node, issued); bad != nil || rev < issued {
		t.Errorf("before: %d, %v", rev, bad)
	}
	if _, err = s.Revoke(t.Context(), store.Revocation{Node: old, At: Noon.Add(-time.Hour)}, Noon.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Revoke(t.Context(), store.Revocation{Node: node, By: "bob", At: Noon, Reason: "stolen"}, Noon.Add(-time.Minute))
	if err != nil || r.Revision <= issued {
		t.Fatalf("revoked at %d, %v; issued at %d", r.Revision, err, issued)
	}
	_, err = s.Certifiable(t.Context(), node, issued)
	refused(t, err, ares.Unauthentic, "revoked")
	_, err = s.UseJoinToken(t.Context(), j.ID, j.Hash, node, []byte("k"), Noon)
	refused(t, err, ares.Unauthentic, "is unknown or no longer valid") // the tokens for this node have ended too
	again := newJoin(t, s, node)
	later, err := s.UseJoinToken(t.Context(), again.ID, again.Hash, node, []byte("k"), Noon)
	if err != nil || later <= r.Revision {
		t.Fatalf("joined again at %d, %v", later, err)
	}
	if _, err = s.Certifiable(t.Context(), node, later); err != nil {
		t.Errorf("after joining again: %v", err)
	}
	list, err := s.Revocations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, one := range list {
		found = found || one == r
		if one.Node == old {
			t.Error("a revocation is kept though what it ended has expired")
		}
	}
	if !found {
		t.Errorf("the list %v lacks %v", list, r)
	}
}

// trustDump checks that a dump of the store contains neither the authority's key nor the hashes of tokens.
func trustDump(t *testing.T, s *store.Store) {
	canary := "canary-" + Name("node")
	if _, err := s.Authority(t.Context(), func() (store.Authority, error) { return store.Authority{Key: []byte(canary)}, nil }); err != nil {
		t.Fatal(err)
	}
	newJoin(t, s, "")
	shown := 0
	err := s.Dump(t.Context(), "", func(r store.Raw) error {
		if strings.HasPrefix(r.Key, "/ares/authority") || strings.HasPrefix(r.Key, "/ares/jointokens/") {
			shown++
			if !strings.Contains(r.JSON, "not shown") {
				t.Errorf("%s is shown: %s", r.Key, r.JSON)
			}
		}
		return nil
	})
	if err != nil || shown < 2 {
		t.Errorf("%d records shown, %v", shown, err)
	}
}
