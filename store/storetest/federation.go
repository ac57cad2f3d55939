package storetest

import (
	"fmt"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// NewCluster stores a ready member of a hub with one incarnation.
func NewCluster(tb testing.TB, s *store.Store, incarnation string) store.Cluster {
	tb.Helper()
	c, err := s.RegisterCluster(tb.Context(), store.Cluster{Name: Name("cluster"), RegisteredAt: Noon})
	if err != nil {
		tb.Fatalf("register cluster: %v", err)
	}
	c, err = s.UpdateCluster(tb.Context(), c.Name, func(c *store.Cluster) error {
		c.Decided, c.Incarnation, c.Known = store.ClusterReady, incarnation, true
		return nil
	})
	if err != nil {
		tb.Fatalf("update cluster: %v", err)
	}
	return c
}

// OfferJob offers a waiting job to clusters, as the hub's leader does.
func OfferJob(tb testing.TB, s *store.Store, lead *store.Leadership, id ares.JobID, clusters ...string) store.Grant {
	tb.Helper()
	made, err := s.Offer(tb.Context(), lead, []store.Offer{{Job: id, Clusters: clusters, RunRevision: Get(tb, s, id).Run.Revision, At: Noon}})
	if err != nil || len(made) != 1 {
		tb.Fatalf("offer: %+v, %v", made, err)
	}
	return made[0]
}

// GrantOf returns the grant of a job, or nil.
func GrantOf(tb testing.TB, s *store.Store, id ares.JobID) *store.Grant {
	tb.Helper()
	all, _, err := s.Grants(tb.Context())
	if err != nil {
		tb.Fatalf("read grants: %v", err)
	}
	for i := range all {
		if all[i].Job == id {
			return &all[i]
		}
	}
	return nil
}

// Granted returns a job of a new tenant that a hub has granted, as Accept gets it. It is not stored.
func Granted(tb testing.TB, s *store.Store, epoch int64, edit ...func(*ares.Spec)) *ares.Job {
	tb.Helper()
	spec := Sleep()
	for _, e := range edit {
		e(&spec)
	}
	job := JobOf(NewTenant(tb, s), spec).Job
	job.ID = ares.NewHubJobID(job.Tenant, job.RequestID)
	job.Origin = &ares.Origin{Hub: "hub", Epoch: epoch}
	return job
}

// GrantedAgain returns the same job under another grant.
func GrantedAgain(job *ares.Job, epoch int64) *ares.Job {
	again := *job
	again.Origin = &ares.Origin{Hub: job.Origin.Hub, Epoch: epoch}
	return &again
}

// ownerRun returns the run of a job as its owner would report it: with one attempt that ended, or is under way if the
// outcome is "".
func ownerRun(tb testing.TB, phase ares.Phase, outcome ares.Outcome, revision int64) *ares.Run {
	tb.Helper()
	r := ares.NewRun(Noon)
	if err := r.Place([]ares.Seat{{Node: "far-1", CPUs: 1, NUMA: -1}}, 0, Noon); err != nil {
		tb.Fatal(err)
	}
	a := r.Last()
	a.Fence, a.Outcome = ares.Fence(revision), outcome
	if outcome != "" {
		a.EndedAt, a.Seats[0].State = Noon, ares.SeatFinished
	}
	r.Phase, r.Revision = phase, revision
	if phase.Final() {
		r.FinishedAt = Noon
	}
	return &r
}

// bound is a hub's job that one of two clusters owns.
type bound struct {
	lead     *store.Leadership
	job      *ares.Job
	one, two store.Cluster
	grant    store.Grant
}

func newBound(t *testing.T, s *store.Store, edit ...func(*ares.Spec)) *bound {
	t.Helper()
	lead, _ := NewLead(t, s)
	return newBoundUnder(t, s, lead, edit...)
}

// newBoundUnder is newBound for a test that leads already: a second leader would wait for the first.
func newBoundUnder(t *testing.T, s *store.Store, lead *store.Leadership, edit ...func(*ares.Spec)) *bound {
	t.Helper()
	b := &bound{lead: lead, job: NewJob(t, s, edit...), one: NewCluster(t, s, "one-1"), two: NewCluster(t, s, "two-1")}
	b.grant = OfferJob(t, s, b.lead, b.job.ID, b.one.Name, b.two.Name)
	g, err := s.Bind(t.Context(), b.claim())
	if err != nil {
		t.Fatalf("bind: %v", err)
	}
	b.grant = g
	return b
}

func (b *bound) claim() store.Claim {
	return store.Claim{Job: b.job.ID, Epoch: b.grant.Epoch, Cluster: b.one.Name, Incarnation: "one-1", At: Noon}
}

func (b *bound) report(outcome store.GrantOutcome, run *ares.Run) store.Report {
	return store.Report{
		Job: b.job.ID, Epoch: b.grant.Epoch, Cluster: b.one.Name, Incarnation: "one-1", Outcome: outcome, Run: run, Why: "the test says so", At: Noon,
	}
}

// revision returns the store's revision, so that a test can check that a repeated verb wrote nothing.
func revision(tb testing.TB, s *store.Store) int64 {
	tb.Helper()
	rev, err := s.Revision(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return rev
}

// wroteNothing runs a function and checks that the store's revision stays.
func wroteNothing(tb testing.TB, s *store.Store, what string, do func() error) {
	tb.Helper()
	before := revision(tb, s)
	if err := do(); err != nil {
		tb.Errorf("%s: %v", what, err)
	}
	if after := revision(tb, s); after != before {
		tb.Errorf("%s: the store went from %d to %d", what, before, after)
	}
}

func grantText(g *store.Grant) string {
	if g == nil {
		return "none"
	}
	return fmt.Sprintf("%s %d %v %s/%s", g.State, g.Epoch, g.Clusters, g.Cluster, g.Incarnation)
}
