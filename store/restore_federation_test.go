package store_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func mustAccept(t *testing.T, s *store.Store, job *ares.Job) {
	t.Helper()
	if got, err := s.Accept(t.Context(), job, storetest.Noon); err != nil || got != store.AcceptedNew {
		t.Fatalf("accept: %q, %v", got, err)
	}
}

// A `member` holds the granted jobs of a store that the tests back up.
type member struct {
	waiting, running, once, returned, ended *ares.Job
	local                                   *ares.Job
	token                                   int64 // of the running attempt
}

func populateMember(t *testing.T, s *store.Store) *member {
	t.Helper()
	m := &member{
		waiting: storetest.Granted(t, s, 10), running: storetest.Granted(t, s, 11), returned: storetest.Granted(t, s, 13), ended: storetest.Granted(t, s, 14),
		once:  storetest.Granted(t, s, 12, func(spec *ares.Spec) { spec.Mode = ares.AtMostOnce }),
		local: storetest.NewJob(t, s),
	}
	for _, j := range []*ares.Job{m.waiting, m.running, m.once, m.returned, m.ended} {
		mustAccept(t, s, j)
	}
	if _, err := s.Return(t.Context(), m.returned.ID, 13, "full", storetest.Noon); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordClaim(t.Context(), ares.NewHubJobID("x", "y"), 15, storetest.Noon); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Name, m.HubStore = "west", "hub"; return nil }); err != nil {
		t.Fatal(err)
	}
	lead, resign := storetest.NewLead(t, s)
	defer resign()
	node := storetest.NewNode(t, s)
	for _, j := range []*ares.Job{m.running, m.ended} {
		storetest.Claim(t, s, storetest.Place(t, s, lead, j, node), node)
	}
	snap := storetest.Get(t, s, m.running.ID)
	m.token = snap.Run.FencingToken(snap.Job, snap.Run.Current())
	return m
}

// TestRestoreOfAMember checks rule F5: a restored member starts, returns and cancels no granted job before the hub has
// confirmed it, and gives out no token again.
func TestRestoreOfAMember(t *testing.T) {
	old := storetest.Embedded(t)
	m := populateMember(t, old)
	ended := storetest.Get(t, old, m.ended.ID).Job
	s, done := restored(t, store.Restoration{File: backup(t, old), Ended: []store.Ended{
		{Job: ended.ID, Accepted: ended.Revision, Digest: ended.Digest, Phase: ares.Succeeded, At: storetest.Noon},
	}})
	if done.Asks || done.Granted != 3 {
		t.Errorf("it did %+v", done)
	}
	if left := storetest.Records(t, s, "federation/claims/"); len(left) > 0 {
		t.Errorf("claims of the earlier incarnation are left: %v", left)
	}
	if mine, err := s.Membership(t.Context()); err != nil || mine == nil || mine.Name != "west" {
		t.Errorf("the membership is %+v, %v", mine, err)
	}
	if f, err := s.Floor(t.Context(), ended.ID); err != nil || f == nil || f.Outcome != store.GrantFinal || f.Run == nil || f.Run.Phase != ares.Succeeded || f.Epoch != 14 {
		t.Errorf("a job that ended according to history has the floor %+v, %v", f, err)
	}
	if f, err := s.Floor(t.Context(), m.returned.ID); err != nil || f == nil || f.Epoch != 13 {
		t.Errorf("the floor of a returned job is %+v, %v", f, err)
	}
	if run := storetest.Get(t, s, m.once.ID).Run; run.Phase != ares.Lost {
		t.Errorf("the at_most_once job is %s", run.Phase)
	}
	lead, _ := storetest.NewLead(t, s)
	node := storetest.NewNode(t, s)
	for _, j := range []*ares.Job{m.waiting, m.running} {
		snap := storetest.Get(t, s, j.ID)
		if !snap.Run.IsHeld(snap.Job) {
			t.Errorf("%s is not held: %+v", j.ID, snap.Run)
		}
		run := snap.Run.Clone()
		if err := run.Place([]ares.Seat{{Node: node.ID}}, 0, storetest.Noon); ares.CodeOf(err) != ares.Conflict {
			t.Errorf("an unconfirmed job was started: %v", err)
		}
		if _, err := s.Return(t.Context(), j.ID, j.Origin.Epoch, "full", storetest.Noon); ares.CodeOf(err) != ares.Conflict {
			t.Errorf("an unconfirmed job was returned: %v", err)
		}
		if _, err := s.RequestStop(t.Context(), j.ID, ares.Stop{Why: ares.StopCancel, By: "somebody", At: storetest.Noon}); ares.CodeOf(err) != ares.Conflict {
			t.Errorf("an unconfirmed job was cancelled: %v", err)
		}
		if changed, _, err := s.SetHold(t.Context(), j.ID, false, "somebody", storetest.Noon); changed || err != nil {
			t.Errorf("a user released an unconfirmed job: %v, %v", changed, err)
		}
		if err := s.Confirm(t.Context(), j.ID, j.Origin.Epoch+1, storetest.Noon); ares.CodeOf(err) != ares.Fenced {
			t.Errorf("another grant was confirmed: %v", err)
		}
		for range 2 {
			if err := s.Confirm(t.Context(), j.ID, j.Origin.Epoch, storetest.Noon); err != nil {
				t.Fatal(err)
			}
		}
	}
	storetest.Place(t, s, lead, m.waiting, node)
	if run := storetest.Get(t, s, m.local.ID).Run; run.Unconfirmed {
		t.Error("a job that was submitted here waits for the hub")
	}
	snap := storetest.Get(t, s, m.running.ID)
	a := ares.Attempt{Number: snap.Run.Placed + 1}
	if token := snap.Run.FencingToken(snap.Job, &a); token < m.token+1000 || token>>16 != 11 {
		t.Errorf("the token %d follows %d, which was given out before the restore", token, m.token)
	}
}

// TestRestoreAsCopy checks rule F13: a copy has an identity of its own and no part in a federation.
func TestRestoreAsCopy(t *testing.T) {
	old := storetest.Embedded(t)
	m := populateMember(t, old)
	was, _ := mustIdentity(t, old)
	s, done := restored(t, store.Restoration{File: backup(t, old), AsCopy: true})
	if is, _ := mustIdentity(t, s); is.Store == was.Store || is.Restore == was.Restore || done.Store != is.Store {
		t.Errorf("the copy of %+v is %+v", was, is)
	}
	if done.Granted != 5 {
		t.Errorf("it did %+v", done)
	}
	for _, room := range []string{"federation/", "grants/", "clusters/", "loop/asking"} {
		if left := storetest.Records(t, s, room); len(left) > 0 {
			t.Errorf("left in %s: %v", room, left)
		}
	}
	for _, j := range []*ares.Job{m.waiting, m.running, m.once, m.returned, m.ended} {
		if _, err := s.Job(t.Context(), j.ID); ares.CodeOf(err) != ares.NotFound {
			t.Errorf("the copy has the granted job %s: %v", j.ID, err)
		}
	}
	if run := storetest.Get(t, s, m.local.ID).Run; run.Phase != ares.Pending {
		t.Errorf("a job that was submitted here is %s", run.Phase)
	}
}

// A `hub` holds jobs of a hub in each state.
type hub struct {
	one                    store.Cluster
	waiting, offered, held *ares.Job
	once, final            *ares.Job
	offer, grant           store.Grant
}

func populateHub(t *testing.T, s *store.Store) *hub {
	t.Helper()
	lead, resign := storetest.NewLead(t, s)
	defer resign()
	h := &hub{
		one: storetest.NewCluster(t, s, "one-1"), waiting: storetest.NewJob(t, s), offered: storetest.NewJob(t, s), held: storetest.NewJob(t, s), final: storetest.NewJob(t, s),
		once: storetest.NewJob(t, s, func(spec *ares.Spec) { spec.Mode = ares.AtMostOnce }),
	}
	h.offer = storetest.OfferJob(t, s, lead, h.offered.ID, h.one.Name)
	for _, j := range []*ares.Job{h.held, h.final} {
		g := storetest.OfferJob(t, s, lead, j.ID, h.one.Name)
		bound, err := s.Bind(t.Context(), store.Claim{Job: j.ID, Epoch: g.Epoch, Cluster: h.one.Name, Incarnation: "one-1", At: storetest.Noon})
		if err != nil {
			t.Fatal(err)
		}
		if j == h.held {
			h.grant = bound
		}
	}
	return h
}

// TestRestoreOfAHub checks rule F6: a restored hub offers, binds and commits nothing until all its members have answered,
// open offers lapse, and the highest epoch wins.
func TestRestoreOfAHub(t *testing.T) {
	old := storetest.Embedded(t)
	h := populateHub(t, old)
	file := backup(t, old)
	// After the backup, the waiting job is granted. The restored hub does not know that.
	lead, resign := storetest.NewLead(t, old)
	lost := storetest.OfferJob(t, old, lead, h.waiting.ID, h.one.Name)
	if _, err := old.Bind(t.Context(), store.Claim{Job: h.waiting.ID, Epoch: lost.Epoch, Cluster: h.one.Name, Incarnation: "one-1", At: storetest.Noon}); err != nil {
		t.Fatal(err)
	}
	resign()
	ended := storetest.Get(t, old, h.final.ID).Job
	s, done := restored(t, store.Restoration{File: file, Ended: []store.Ended{
		{Job: ended.ID, Accepted: ended.Revision, Digest: ended.Digest, Phase: ares.Succeeded, At: storetest.Noon},
	}})
	if !done.Asks || done.Lost != 0 || done.Final != 1 || done.Hold != 0 {
		t.Errorf("it did %+v", done)
	}
	if storetest.GrantOf(t, s, h.offered.ID) != nil || storetest.GrantOf(t, s, ended.ID) != nil || storetest.GrantOf(t, s, h.held.ID) == nil {
		t.Error("the offer or the grant of an ended job stays, or a bound grant is gone")
	}
	hubIsSilent(t, s, h)
	asking, err := s.Asking(t.Context())
	if err != nil || asking == nil {
		t.Fatalf("the hub does not ask: %+v, %v", asking, err)
	}
	lead, _ = storetest.NewLead(t, s)
	for _, r := range []store.Regrant{
		{Job: h.waiting.ID, To: store.RegrantBound, Epoch: lost.Epoch, Cluster: h.one.Name, Incarnation: "one-1"},
		{Job: h.once.ID, To: store.RegrantReleased, Why: "the hub was restored"},
		{Job: h.held.ID, Old: h.grant.Epoch, To: store.RegrantReleased, Cluster: h.one.Name, Why: "its cluster does not hold it"},
	} {
		if err = s.Regrant(t.Context(), lead, nil, r); ares.CodeOf(err) != ares.Unavailable {
			t.Errorf("a change that is no answer: %v", err)
		}
		r.At = storetest.Noon
		if err = s.Regrant(t.Context(), lead, asking, r); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err = s.EndAsking(t.Context(), lead, asking); err != nil {
			t.Fatal(err)
		}
	}
	if g := storetest.GrantOf(t, s, h.waiting.ID); g == nil || !g.IsHeldBy(h.one.Name, "one-1", lost.Epoch) {
		t.Errorf("the grant that only the member knew is %+v", g)
	}
	if run := storetest.Get(t, s, h.once.ID).Run; run.Phase != ares.Lost || run.Cluster != "" {
		t.Errorf("the at_most_once job is %s in %q", run.Phase, run.Cluster)
	}
	if next := storetest.OfferJob(t, s, lead, h.held.ID, h.one.Name); next.Epoch <= lost.Epoch {
		t.Errorf("epoch %d after %d", next.Epoch, lost.Epoch)
	}
	end := store.Report{Job: h.waiting.ID, Epoch: lost.Epoch, Cluster: h.one.Name, Incarnation: "one-1", Outcome: store.GrantReturned, At: storetest.Noon}
	if err = s.Report(t.Context(), end); err != nil {
		t.Error(err)
	}
}

// TestRestoreWithARoster restores a hub from a backup that knows no cluster. History has the name of a cluster that joined
// after the backup, so the hub must ask. The roster of another hub, and a copy, change nothing.
func TestRestoreWithARoster(t *testing.T) {
	old := storetest.Embedded(t)
	id, _ := mustIdentity(t, old)
	file := backup(t, old)
	roster := &store.Roster{Hub: id.Store, Version: 9, Clusters: []store.RosterEntry{{Name: "east", Store: "s1", Since: 7, CertifiedFrom: 7}}}
	s, done := restored(t, store.Restoration{File: file, Roster: roster, Now: storetest.Noon})
	if asking, err := s.Asking(t.Context()); err != nil || asking == nil || !done.Asks {
		t.Errorf("the hub does not ask: %+v, %v", asking, err)
	}
	if c, err := s.Cluster(t.Context(), "east"); err != nil || !c.MayOwn() || c.GetsOffers() || c.Store != "s1" {
		t.Errorf("the cluster is %+v, %v", c, err)
	}
	other := *roster
	other.Hub = "another"
	for what, r := range map[string]store.Restoration{"another hub": {File: file, Roster: &other}, "a copy": {File: file, Roster: roster, AsCopy: true}} {
		if s, done = restored(t, r); done.Asks || len(storetest.Records(t, s, "clusters/")) > 0 {
			t.Errorf("%s: it did %+v", what, done)
		}
	}
}

// hubIsSilent checks that no verb of a hub works while it asks.
func hubIsSilent(t *testing.T, s *store.Store, h *hub) {
	t.Helper()
	lead, resign := storetest.NewLead(t, s)
	defer resign()
	_, offered := s.Offer(t.Context(), lead, []store.Offer{{Job: h.waiting.ID, Clusters: []string{h.one.Name}}})
	_, bound := s.Bind(t.Context(), store.Claim{Job: h.offered.ID, Epoch: h.offer.Epoch, Cluster: h.one.Name, Incarnation: "one-1"})
	report := store.Report{Job: h.held.ID, Epoch: h.grant.Epoch, Cluster: h.one.Name, Incarnation: "one-1", Outcome: store.GrantReturned}
	run := ares.NewRun(storetest.Noon)
	run.Revision = 5
	mirror := report
	mirror.Run = &run
	for what, err := range map[string]error{
		"offer": offered, "bind": bound, "withdraw": s.Withdraw(t.Context(), h.offered.ID, h.offer.Epoch),
		"report": s.Report(t.Context(), report), "mirror": s.Mirror(t.Context(), []store.Report{mirror}),
	} {
		if ares.CodeOf(err) != ares.Unavailable {
			t.Errorf("%s of a hub that asks its clusters: %v", what, err)
		}
	}
}

// TestCopyOfAHub checks that no job of a copied hub is owned by a cluster.
func TestCopyOfAHub(t *testing.T) {
	old := storetest.Embedded(t)
	h := populateHub(t, old)
	s, done := restored(t, store.Restoration{File: backup(t, old), AsCopy: true})
	if done.Asks {
		t.Error("a copy asks clusters that are not its own")
	}
	if run := storetest.Get(t, s, h.held.ID).Run; run.Cluster != "" || run.Phase != ares.Pending {
		t.Errorf("a bound job is %s in %q", run.Phase, run.Cluster)
	}
	for _, room := range []string{"grants/", "clusters/", "loop/asking"} {
		if left := storetest.Records(t, s, room); len(left) > 0 {
			t.Errorf("left in %s: %v", room, left)
		}
	}
}
