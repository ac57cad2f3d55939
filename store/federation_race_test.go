package store_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// interrupted is a store in which a test can run something between two operations of one verb.
type interrupted struct {
	*store.Store

	after string // name of an operation
	do    func() // runs once after it
}

func newInterrupted(t *testing.T) *interrupted {
	t.Helper()
	i := &interrupted{}
	s, err := store.Open(t.Context(), store.Config{Dir: t.TempDir(), Timeout: time.Minute, Observe: func(op string, _ time.Duration, _ error) {
		if do := i.do; do != nil && op == i.after {
			i.do = nil
			do()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	i.Store = s
	t.Cleanup(func() { closeStore(t, s) })
	return i
}

// between sets what happens once, after the next operation with this name.
func (i *interrupted) between(op string, do func()) { i.after, i.do = op, do }

var cancelIt = ares.Stop{Why: ares.StopCancel, By: "somebody", At: storetest.Noon}

// TestGrantsAreCompared changes a record between the read and the write of a verb. The verb must then decide again (F9).
func TestGrantsAreCompared(t *testing.T) {
	i := newInterrupted(t)
	ctx, s := t.Context(), i.Store
	one, two := storetest.NewCluster(t, s, "one-1"), storetest.NewCluster(t, s, "two-1")
	lead, _ := storetest.NewLead(t, s)
	claim := func(g store.Grant, c *store.Cluster, incarnation string) store.Claim {
		return store.Claim{Job: g.Job, Epoch: g.Epoch, Cluster: c.Name, Incarnation: incarnation, At: storetest.Noon}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	offer := func() store.Grant {
		t.Helper()
		return storetest.OfferJob(t, s, lead, storetest.NewJob(t, s).ID, one.Name, two.Name)
	}

	g := offer()
	i.between("read grants", func() { _, err := s.Bind(ctx, claim(g, &two, "two-1")); must(err) })
	if _, err := s.Bind(ctx, claim(g, &one, "one-1")); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("two clusters were bound: %v", err)
	}

	g = offer()
	i.between("read grants", func() { _, err := s.RequestStop(ctx, g.Job, cancelIt); must(err) })
	if _, err := s.Bind(ctx, claim(g, &one, "one-1")); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("a job that was cancelled meanwhile was bound: %v", err)
	}

	g = offer()
	i.between("read grants", func() {
		_, err := s.UpdateCluster(ctx, one.Name, func(c *store.Cluster) error { c.Reconciling = true; return nil })
		must(err)
	})
	if _, err := s.Bind(ctx, claim(g, &one, "one-1")); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("a job was bound to a cluster that is being reconciled: %v", err)
	}
	_, err := s.UpdateCluster(ctx, one.Name, func(c *store.Cluster) error { c.Reconciling = false; return nil })
	must(err)

	g = offer()
	i.between("read grants", func() { _, err := s.Bind(ctx, claim(g, &one, "one-1")); must(err) })
	if err := s.Withdraw(ctx, g.Job, g.Epoch); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("a bound job was withdrawn: %v", err)
	}

	job := storetest.NewJob(t, s)
	i.between("read grants", func() { _, err := s.RequestStop(ctx, job.ID, cancelIt); must(err) })
	if made, err := s.Offer(ctx, lead, []store.Offer{{Job: job.ID, Clusters: []string{one.Name}}}); err != nil || len(made) > 0 {
		t.Errorf("a job that was cancelled meanwhile was offered: %v, %v", made, err)
	}

	g = offer()
	_, err = s.Bind(ctx, claim(g, &one, "one-1"))
	must(err)
	i.between("read grants", func() {
		must(s.Regrant(ctx, lead, nil, store.Regrant{Job: g.Job, Old: g.Epoch, To: store.RegrantReleased, Cluster: one.Name, Why: "dead", At: storetest.Noon}))
	})
	run := ares.NewRun(storetest.Noon)
	run.Phase, run.Revision, run.FinishedAt = ares.Succeeded, 5, storetest.Noon
	err = s.Report(ctx, store.Report{Job: g.Job, Epoch: g.Epoch, Cluster: one.Name, Incarnation: "one-1", Outcome: store.GrantFinal, Run: &run, At: storetest.Noon})
	if ares.CodeOf(err) != ares.Fenced {
		t.Errorf("the end by a cluster that was declared dead meanwhile: %v", err)
	}
}

// TestReturnIsCompared starts a job between the read and the write of its return, and the other way round (F3).
func TestReturnIsCompared(t *testing.T) {
	i := newInterrupted(t)
	s := i.Store
	lead, _ := storetest.NewLead(t, s)
	node := storetest.NewNode(t, s)
	job := storetest.Granted(t, s, 10)
	mustAccept(t, s, job)
	i.between("read granted job", func() { storetest.Place(t, s, lead, job, node) })
	if _, err := s.Return(t.Context(), job.ID, 10, "full", storetest.Noon); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("a job that was started meanwhile was returned: %v", err)
	}
	if run := storetest.Get(t, s, job.ID).Run; run.Phase != ares.Scheduled {
		t.Errorf("the job is %s", run.Phase)
	}
	if f, err := s.Floor(t.Context(), job.ID); f != nil || err != nil {
		t.Errorf("a job that was not returned has the floor %+v, %v", f, err)
	}

	job = storetest.Granted(t, s, 10)
	mustAccept(t, s, job)
	decided := storetest.Placing(t, s, job, node)
	if _, err := s.Return(t.Context(), job.ID, 10, "full", storetest.Noon); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{decided}); err != nil || len(dropped) != 1 {
		t.Errorf("a returned job was started: %v, %v", dropped, err)
	}
}

// TestAcceptIsCompared returns a job between the read and the write of Accept.
func TestAcceptIsCompared(t *testing.T) {
	i := newInterrupted(t)
	s := i.Store
	job := storetest.Granted(t, s, 10)
	i.between("read granted job", func() {
		mustAccept(t, s, job)
		if _, err := s.Return(t.Context(), job.ID, 10, "full", storetest.Noon); err != nil {
			t.Error(err)
		}
	})
	if got, err := s.Accept(t.Context(), job, storetest.Noon); err != nil || got != store.AcceptedIgnored {
		t.Errorf("a job that was returned meanwhile was accepted: %q, %v", got, err)
	}
	if run := storetest.Get(t, s, job.ID).Run; run.Phase != ares.Returned {
		t.Errorf("the job is %s", run.Phase)
	}
}
