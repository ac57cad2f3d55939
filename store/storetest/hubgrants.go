package storetest

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var hubLaws = []law{
	{"AnOfferIsForAWaitingJob", offerWaiting},
	{"OnlyTheLeaderOffers", offerLeader},
	{"AWithdrawnOfferCannotBeClaimed", withdrawOffer},
	{"OneClaimWins", bindOnce},
	{"ClaimsAreBoundTogether", bindMany},
	{"AClaimNeedsItsIncarnation", bindIncarnation},
	{"AClaimNeedsTheOffer", bindOffer},
	{"ACancelledJobIsNotBound", bindCancelled},
	{"OnlyTheOwnerEndsABoundJob", reportOwner},
	{"AReturnedJobWaitsAndCanMove", reportReturned},
	{"ATakenJobExcludesTheCluster", reportTaken},
	{"AFinalReportEndsTheJob", reportFinal},
	{"ACancelWaitsForTheOwner", cancelBound},
	{"TheCopyOfARunFollowsTheOwner", mirrorRun},
	{"ATakenBackJobWaitsOrIsLost", regrantReleased},
	{"ARestoredMemberKeepsWhatItLists", regrantBound},
}

func offerWaiting(t *testing.T, s *store.Store) {
	job := NewJob(t, s)
	lead, _ := NewLead(t, s)
	g := OfferJob(t, s, lead, job.ID, "a", "b")
	if g.State != ares.GrantOffered || g.Epoch == 0 || g.Epoch != g.Revision {
		t.Errorf("got %s", grantText(&g))
	}
	wroteNothing(t, s, "the same offer again", func() error {
		if again := OfferJob(t, s, lead, job.ID, "a", "b"); again.Epoch != g.Epoch {
			t.Errorf("the same offer again: %s", grantText(&again))
		}
		return nil
	})
	offer := func(o store.Offer) int {
		t.Helper()
		made, err := s.Offer(t.Context(), lead, []store.Offer{o})
		if err != nil {
			t.Fatal(err)
		}
		return len(made)
	}
	if n := offer(store.Offer{Job: job.ID, Clusters: []string{"c"}}); n != 0 {
		t.Error("a second grant of one job")
	}
	other := NewJob(t, s)
	for what, o := range map[string]store.Offer{
		"a stale run":     {Job: other.ID, Clusters: []string{"a"}, RunRevision: 7},
		"no cluster":      {Job: other.ID},
		"too many":        {Job: other.ID, Clusters: []string{"a", "b", "c", "d"}},
		"an unknown job":  {Job: ares.NewHubJobID("x", "y"), Clusters: []string{"a"}},
		"a cancelled job": {Job: cancelledJob(t, s), Clusters: []string{"a"}},
		"a placed job":    {Job: placedJob(t, s, lead), Clusters: []string{"a"}},
	} {
		if n := offer(o); n != 0 {
			t.Errorf("%s was offered", what)
		}
	}
	if n := offer(store.Offer{Job: other.ID, Clusters: []string{"a"}}); n != 1 {
		t.Error("a job that waits was not offered")
	}
}

func cancelledJob(t *testing.T, s *store.Store) ares.JobID {
	t.Helper()
	job := NewJob(t, s)
	if _, err := s.RequestStop(t.Context(), job.ID, ares.Stop{Why: ares.StopCancel, By: "somebody", At: Noon}); err != nil {
		t.Fatal(err)
	}
	return job.ID
}

func placedJob(t *testing.T, s *store.Store, lead *store.Leadership) ares.JobID {
	t.Helper()
	job := NewJob(t, s)
	Place(t, s, lead, job, NewNode(t, s))
	return job.ID
}

func offerLeader(t *testing.T, s *store.Store) {
	job := NewJob(t, s)
	old, resign := NewLead(t, s)
	resign()
	_, err := s.Offer(t.Context(), old, []store.Offer{{Job: job.ID, Clusters: []string{"a"}}})
	refused(t, err, ares.Fenced, "no longer the leader")
	if g := GrantOf(t, s, job.ID); g != nil {
		t.Errorf("a replaced leader offered: %s", grantText(g))
	}
}

func withdrawOffer(t *testing.T, s *store.Store) {
	job, one := NewJob(t, s), NewCluster(t, s, "one-1")
	lead, _ := NewLead(t, s)
	g := OfferJob(t, s, lead, job.ID, one.Name)
	wroteNothing(t, s, "withdraw another epoch", func() error { return s.Withdraw(t.Context(), job.ID, g.Epoch-1) })
	if err := s.Withdraw(t.Context(), job.ID, g.Epoch); err != nil {
		t.Fatal(err)
	}
	wroteNothing(t, s, "withdraw again", func() error { return s.Withdraw(t.Context(), job.ID, g.Epoch) })
	claim := store.Claim{Job: job.ID, Epoch: g.Epoch, Cluster: one.Name, Incarnation: "one-1", At: Noon}
	_, err := s.Bind(t.Context(), claim)
	refused(t, err, ares.Fenced, "has ended")
	next := OfferJob(t, s, lead, job.ID, one.Name)
	if next.Epoch <= g.Epoch {
		t.Errorf("epoch %d after %d", next.Epoch, g.Epoch)
	}
	_, err = s.Bind(t.Context(), claim) // a late claim of the first offer
	refused(t, err, ares.Fenced, "has ended")
	claim.Epoch = next.Epoch
	if _, err = s.Bind(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	refused(t, s.Withdraw(t.Context(), job.ID, next.Epoch), ares.Conflict, "is bound to cluster "+one.Name)
	// The leader removes the offer of a job that was cancelled.
	gone := NewJob(t, s)
	g = OfferJob(t, s, lead, gone.ID, one.Name)
	if _, err = s.RequestStop(t.Context(), gone.ID, ares.Stop{Why: ares.StopCancel, By: "somebody", At: Noon}); err != nil {
		t.Fatal(err)
	}
	phase(t, s, gone.ID, ares.Cancelled)
	if err = s.Withdraw(t.Context(), gone.ID, g.Epoch); err != nil || GrantOf(t, s, gone.ID) != nil {
		t.Errorf("the offer of a cancelled job stays: %v", err)
	}
}

func bindOnce(t *testing.T, s *store.Store) {
	b := newBound(t, s)
	if b.grant.State != ares.GrantBound || b.grant.Cluster != b.one.Name || b.grant.Incarnation != "one-1" {
		t.Errorf("got %s", grantText(&b.grant))
	}
	wroteNothing(t, s, "the same claim again", func() error {
		again, err := s.Bind(t.Context(), b.claim())
		if grantText(&again) != grantText(&b.grant) {
			t.Errorf("the same claim again: %s, want %s", grantText(&again), grantText(&b.grant))
		}
		return err
	})
	late := b.claim()
	late.Cluster, late.Incarnation = b.two.Name, "two-1"
	_, err := s.Bind(t.Context(), late)
	refused(t, err, ares.Fenced, "another cluster owns")
	if run := Get(t, s, b.job.ID).Run; run.Cluster != b.one.Name || run.Epoch != b.grant.Epoch {
		t.Errorf("the run names cluster %q, epoch %d", run.Cluster, run.Epoch)
	}
	if made, err := s.Offer(t.Context(), b.lead, []store.Offer{{Job: b.job.ID, Clusters: []string{b.two.Name}, RunRevision: Get(t, s, b.job.ID).Run.Revision}}); err != nil || len(made) > 0 {
		t.Errorf("a bound job was offered: %v, %v", made, err)
	}
}

func bindIncarnation(t *testing.T, s *store.Store) {
	job, one := NewJob(t, s), NewCluster(t, s, "one-1")
	lead, _ := NewLead(t, s)
	g := OfferJob(t, s, lead, job.ID, one.Name)
	claim := store.Claim{Job: job.ID, Epoch: g.Epoch, Cluster: one.Name, Incarnation: "one-0", At: Noon}
	_, err := s.Bind(t.Context(), claim)
	refused(t, err, ares.Conflict, "say hello first")
	claim.Incarnation = "one-1"
	set := func(change func(c *store.Cluster)) {
		t.Helper()
		if _, err := s.UpdateCluster(t.Context(), one.Name, func(c *store.Cluster) error { change(c); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	set(func(c *store.Cluster) { c.Reconciling = true })
	_, err = s.Bind(t.Context(), claim)
	refused(t, err, ares.Conflict, "say hello first")
	set(func(c *store.Cluster) { c.Reconciling, c.Decided = false, store.ClusterDead })
	_, err = s.Bind(t.Context(), claim)
	refused(t, err, ares.Fenced, "not a member")
	set(func(c *store.Cluster) { c.Decided = store.ClusterReady })
	if _, err = s.Bind(t.Context(), claim); err != nil {
		t.Error(err)
	}
}

// bindMany binds several claims at once: each has its own answer.
func bindMany(t *testing.T, s *store.Store) {
	one, two := NewCluster(t, s, "one-1"), NewCluster(t, s, "two-1")
	lead, _ := NewLead(t, s)
	var claims []store.Claim
	var want []ares.Code
	claim := func(job ares.JobID, epoch int64, cluster *store.Cluster, incarnation string, code ares.Code) {
		claims = append(claims, store.Claim{Job: job, Epoch: epoch, Cluster: cluster.Name, Incarnation: incarnation, At: Noon})
		want = append(want, code)
	}
	for range 35 { // more than one transaction
		job := NewJob(t, s)
		g := OfferJob(t, s, lead, job.ID, one.Name, two.Name)
		claim(job.ID, g.Epoch, &one, "one-1", "")
		claim(job.ID, g.Epoch, &two, "two-1", ares.Fenced) // after the other one, in the same call
	}
	other := NewJob(t, s)
	g := OfferJob(t, s, lead, other.ID, one.Name)
	claim(other.ID, g.Epoch-1, &one, "one-1", ares.Fenced)
	claim(other.ID, g.Epoch, &one, "one-0", ares.Conflict)
	claim(other.ID, g.Epoch, &two, "two-1", ares.Fenced)
	check := func(first bool) {
		t.Helper()
		for i, answer := range s.BindAll(t.Context(), claims) {
			if got := ares.CodeOf(answer.Err); answer.Err == nil && want[i] != "" || answer.Err != nil && got != want[i] {
				t.Errorf("claim %d: %v, want %q", i, answer.Err, want[i])
			}
			if answer.Err != nil {
				continue
			}
			stored := GrantOf(t, s, claims[i].Job)
			if grantText(&answer.Grant) != grantText(stored) || stored.Cluster != claims[i].Cluster || answer.Revision != stored.Revision {
				t.Errorf("claim %d (first: %v): the answer is %s at %d, stored is %s at %d", i, first, grantText(&answer.Grant), answer.Revision, grantText(stored), stored.Revision)
			}
		}
	}
	check(true)
	check(false) // repeated claims get the same answers
}

func bindOffer(t *testing.T, s *store.Store) {
	job, one, two := NewJob(t, s), NewCluster(t, s, "one-1"), NewCluster(t, s, "two-1")
	claim := store.Claim{Job: job.ID, Epoch: 5, Cluster: two.Name, Incarnation: "two-1", At: Noon}
	_, err := s.Bind(t.Context(), claim)
	refused(t, err, ares.Fenced, "has ended")
	lead, _ := NewLead(t, s)
	claim.Epoch = OfferJob(t, s, lead, job.ID, one.Name).Epoch
	_, err = s.Bind(t.Context(), claim)
	refused(t, err, ares.Fenced, "not offered to cluster "+two.Name)
}

func bindCancelled(t *testing.T, s *store.Store) {
	job, one := NewJob(t, s), NewCluster(t, s, "one-1")
	lead, _ := NewLead(t, s)
	g := OfferJob(t, s, lead, job.ID, one.Name)
	if _, err := s.RequestStop(t.Context(), job.ID, ares.Stop{Why: ares.StopCancel, By: "somebody", At: Noon}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Bind(t.Context(), store.Claim{Job: job.ID, Epoch: g.Epoch, Cluster: one.Name, Incarnation: "one-1", At: Noon})
	refused(t, err, ares.Fenced, "cannot be bound")
	phase(t, s, job.ID, ares.Cancelled)
}

func reportOwner(t *testing.T, s *store.Store) {
	b := newBound(t, s)
	final := b.report(store.GrantFinal, ownerRun(t, ares.Succeeded, ares.OutcomeSucceeded, 9))
	for what, change := range map[string]func(*store.Report){
		"another cluster":     func(r *store.Report) { r.Cluster, r.Incarnation = b.two.Name, "two-1" },
		"a later epoch":       func(r *store.Report) { r.Epoch++ },
		"an earlier epoch":    func(r *store.Report) { r.Epoch-- },
		"another incarnation": func(r *store.Report) { r.Incarnation = "one-0" },
	} {
		r := final
		change(&r)
		if err := s.Report(t.Context(), r); ares.CodeOf(err) != ares.Fenced && ares.CodeOf(err) != ares.Conflict {
			t.Errorf("the end by %s is answered %v", what, err)
		}
	}
	r := final
	r.Incarnation = "one-0"
	refused(t, s.Report(t.Context(), r), ares.Conflict, "say hello first")
	bad := final
	bad.Run = ownerRun(t, ares.Running, "", 9)
	refused(t, s.Report(t.Context(), bad), ares.Invalid, "no ended run")
	if run := Get(t, s, b.job.ID).Run; run.Phase.Final() || run.Cluster != b.one.Name {
		t.Errorf("the job is %s in cluster %q", run.Phase, run.Cluster)
	}
	wroteNothing(t, s, "a return of an earlier grant", func() error {
		r := b.report(store.GrantReturned, nil)
		r.Epoch--
		return s.Report(t.Context(), r)
	})
	if g := GrantOf(t, s, b.job.ID); g == nil || g.Cluster != b.one.Name {
		t.Errorf("the grant is %s", grantText(g))
	}
}

func reportReturned(t *testing.T, s *store.Store) {
	b := newBound(t, s)
	ret := b.report(store.GrantReturned, ownerRun(t, ares.Returned, ares.OutcomeFailed, 9))
	ret.Moves = true
	if err := s.Report(t.Context(), ret); err != nil {
		t.Fatal(err)
	}
	run := phase(t, s, b.job.ID, ares.Pending)
	if run.Cluster != "" || run.Epoch != b.grant.Epoch || run.Placed != 1 || GrantOf(t, s, b.job.ID) != nil || !run.Free() {
		t.Errorf("returned: %+v", run)
	}
	if !run.HasLeft(b.one.Name, Noon) || run.HasLeft(b.two.Name, Noon) || run.HasLeft(b.one.Name, Noon.Add(ares.LeftFor)) {
		t.Errorf("the clusters that gave the job back: %+v", run.Left)
	}
	wroteNothing(t, s, "the same return again", func() error { return s.Report(t.Context(), ret) })
	late := b.report(store.GrantFinal, ownerRun(t, ares.Succeeded, ares.OutcomeSucceeded, 10))
	refused(t, s.Report(t.Context(), late), ares.Fenced, "no longer owns")
	next := OfferJob(t, s, b.lead, b.job.ID, b.two.Name)
	if _, err := s.Bind(t.Context(), store.Claim{Job: b.job.ID, Epoch: next.Epoch, Cluster: b.two.Name, Incarnation: "two-1", At: Noon}); err != nil {
		t.Fatal(err)
	}
	wroteNothing(t, s, "the same return after a new grant", func() error { return s.Report(t.Context(), ret) })
	refused(t, s.Report(t.Context(), late), ares.Fenced, "no longer owns")
	end := store.Report{Job: b.job.ID, Epoch: next.Epoch, Cluster: b.two.Name, Incarnation: "two-1", Outcome: store.GrantFinal, Run: ownerRun(t, ares.Succeeded, ares.OutcomeSucceeded, 4), At: Noon}
	if err := s.Report(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if run = phase(t, s, b.job.ID, ares.Succeeded); run.Placed != 2 || run.Last().Number != 2 || run.Cluster != b.two.Name {
		t.Errorf("%d attempts, the last is %d, in %q", run.Placed, run.Last().Number, run.Cluster)
	}
}

func reportTaken(t *testing.T, s *store.Store) {
	b := newBound(t, s)
	if err := s.Report(t.Context(), b.report(store.GrantTaken, nil)); err != nil {
		t.Fatal(err)
	}
	run := phase(t, s, b.job.ID, ares.Pending)
	if len(run.ExcludedClusters) != 1 || run.ExcludedClusters[0] != b.one.Name {
		t.Errorf("excluded: %v", run.ExcludedClusters)
	}
	if made, err := s.Offer(t.Context(), b.lead, []store.Offer{{Job: b.job.ID, Clusters: []string{b.one.Name}, RunRevision: run.Revision}}); err != nil || len(made) > 0 {
		t.Errorf("offered to a cluster that has another job with this ID: %v, %v", made, err)
	}
	OfferJob(t, s, b.lead, b.job.ID, b.two.Name)
}

func reportFinal(t *testing.T, s *store.Store) {
	b := newBound(t, s)
	end := b.report(store.GrantFinal, ownerRun(t, ares.Failed, ares.OutcomeFailed, 9))
	if err := s.Report(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	run := phase(t, s, b.job.ID, ares.Failed)
	if run.Cluster != b.one.Name || GrantOf(t, s, b.job.ID) != nil || !run.Free() {
		t.Errorf("ended: %+v", run)
	}
	wroteNothing(t, s, "the same end again", func() error { return s.Report(t.Context(), end) })
	if err := s.Archive(t.Context(), Get(t, s, b.job.ID).Job, &run, nil); err != nil {
		t.Fatalf("a hub's job cannot be archived: %v", err)
	}
	wroteNothing(t, s, "the same end after the archive", func() error { return s.Report(t.Context(), end) })
}

func cancelBound(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	for what, end := range map[string]struct {
		report func(*bound) store.Report
		want   ares.Phase
	}{
		"returned": {func(b *bound) store.Report { return b.report(store.GrantReturned, nil) }, ares.Cancelled},
		"taken":    {func(b *bound) store.Report { return b.report(store.GrantTaken, nil) }, ares.Cancelled},
		"final": {func(b *bound) store.Report {
			return b.report(store.GrantFinal, ownerRun(t, ares.Succeeded, ares.OutcomeSucceeded, 9))
		}, ares.Succeeded},
	} {
		b := newBoundUnder(t, s, lead)
		stop := ares.Stop{Why: ares.StopCancel, By: "somebody", At: Noon}
		if _, err := s.RequestStop(t.Context(), b.job.ID, stop); err != nil {
			t.Fatal(err)
		}
		if run := Get(t, s, b.job.ID).Run; run.Phase.Final() || run.Stop == nil {
			t.Errorf("%s: a cancelled bound job is %s, its intent is %v", what, run.Phase, run.Stop)
		}
		wroteNothing(t, s, "the same cancel again", func() error {
			_, err := s.RequestStop(t.Context(), b.job.ID, stop)
			return err
		})
		mirror := b.report("", ownerRun(t, ares.Running, "", 8))
		if err := s.Mirror(t.Context(), []store.Report{mirror}); err != nil {
			t.Fatal(err)
		}
		if run := phase(t, s, b.job.ID, ares.Running); run.Stop == nil {
			t.Errorf("%s: a copy of the owner's run removed the intent to cancel", what)
		}
		if err := s.Report(t.Context(), end.report(b)); err != nil {
			t.Fatal(err)
		}
		if run := phase(t, s, b.job.ID, end.want); run.Stop != nil {
			t.Errorf("%s: the ended job still has %+v", what, run.Stop)
		}
	}
}

func mirrorRun(t *testing.T, s *store.Store) {
	b := newBound(t, s)
	mirror := func(change func(*store.Report)) {
		t.Helper()
		r := b.report("", ownerRun(t, ares.Running, "", 8))
		if change != nil {
			change(&r)
		}
		if err := s.Mirror(t.Context(), []store.Report{r}); err != nil {
			t.Fatal(err)
		}
	}
	mirror(func(r *store.Report) { r.Incarnation = "one-0" })
	mirror(func(r *store.Report) { r.Epoch-- })
	mirror(func(r *store.Report) { r.Run = ownerRun(t, ares.Succeeded, ares.OutcomeSucceeded, 8) })
	phase(t, s, b.job.ID, ares.Pending)
	mirror(nil)
	run := phase(t, s, b.job.ID, ares.Running)
	if run.AsOf != 8 || run.Cluster != b.one.Name || run.Epoch != b.grant.Epoch || run.Last().Seats[0].Node != "far-1" {
		t.Errorf("the copy is %+v", run)
	}
	wroteNothing(t, s, "an older copy", func() error {
		mirror(func(r *store.Report) { r.Run.Revision, r.Run.Phase = 7, ares.Pending })
		return nil
	})
	phase(t, s, b.job.ID, ares.Running)
}

func regrantReleased(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	for _, c := range []struct {
		mode   ares.Mode
		cancel bool
		want   ares.Phase
	}{{ares.Restart, false, ares.Pending}, {ares.AtMostOnce, false, ares.Lost}, {ares.Restart, true, ares.Cancelled}} {
		b := newBoundUnder(t, s, lead, func(spec *ares.Spec) { spec.Mode = c.mode })
		if err := s.Mirror(t.Context(), []store.Report{b.report("", ownerRun(t, ares.Running, "", 8))}); err != nil {
			t.Fatal(err)
		}
		if c.cancel {
			if _, err := s.RequestStop(t.Context(), b.job.ID, ares.Stop{Why: ares.StopCancel, By: "somebody", At: Noon}); err != nil {
				t.Fatal(err)
			}
		}
		r := store.Regrant{Job: b.job.ID, Old: b.grant.Epoch, To: store.RegrantReleased, Cluster: b.one.Name, Why: "it was declared dead", At: Noon}
		stale := r
		stale.Old--
		if err := s.Regrant(t.Context(), b.lead, nil, stale); ares.CodeOf(err) != ares.Fenced {
			t.Errorf("a decision about an earlier grant is answered %v", err)
		}
		if err := s.Regrant(t.Context(), b.lead, nil, r); err != nil {
			t.Fatal(err)
		}
		if run := phase(t, s, b.job.ID, c.want); run.Current() != nil || !run.Free() {
			t.Errorf("%s: its attempt is %+v", c.want, run.Last())
		}
		wroteNothing(t, s, "taken back again", func() error { return s.Regrant(t.Context(), b.lead, nil, r) })
		wroteNothing(t, s, "a late report of the owner", func() error {
			err := s.Report(t.Context(), b.report(store.GrantFinal, ownerRun(t, ares.Succeeded, ares.OutcomeSucceeded, 10)))
			if !c.want.Final() {
				refused(t, err, ares.Fenced, "no longer owns")
				err = nil
			}
			return err
		})
		phase(t, s, b.job.ID, c.want)
	}
}

func regrantBound(t *testing.T, s *store.Store) {
	b := newBound(t, s)
	r := store.Regrant{Job: b.job.ID, Old: b.grant.Epoch, To: store.RegrantBound, Epoch: b.grant.Epoch, Cluster: b.one.Name, Incarnation: "one-2", At: Noon}
	if err := s.Regrant(t.Context(), nil, nil, r); err != nil {
		t.Fatal(err)
	}
	wroteNothing(t, s, "bound to it again", func() error { return s.Regrant(t.Context(), nil, nil, r) })
	if g := GrantOf(t, s, b.job.ID); g == nil || !g.IsHeldBy(b.one.Name, "one-2", b.grant.Epoch) {
		t.Errorf("the grant is %s", grantText(g))
	}
	end := b.report(store.GrantFinal, ownerRun(t, ares.Succeeded, ares.OutcomeSucceeded, 9))
	refused(t, s.Report(t.Context(), end), ares.Conflict, "say hello")
	end.Incarnation = "one-2"
	if err := s.Report(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	phase(t, s, b.job.ID, ares.Succeeded)
}
