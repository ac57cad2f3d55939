package metrics

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
)

// The type `recovering` feeds a Scheduler that leads, with a clock that the test sets.
type recovering struct {
	t        *testing.T
	metrics  *Scheduler
	revision int64
}

func newRecovering(t *testing.T) *recovering {
	t.Helper()
	r := &recovering{t: t, metrics: New()}
	r.metrics.Recovery.Lead()
	return r
}

// The method `at` applies one revision at a time after noon.
func (r *recovering) at(after time.Duration, events ...ares.Event) {
	r.revision++
	r.metrics.Follow(ares.Batch{Revision: r.revision, Reset: r.revision == 1, Events: events}, noon.Add(after))
}

// The method `counted` checks how many recoveries were counted, and the sum of their durations.
func (r *recovering) counted(n uint64, sum time.Duration) {
	r.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.metrics.Recovery.durations)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "topology_scheduler_recovery_duration_seconds" {
		r.t.Fatalf("%v, %v", families, err)
	}
	h := families[0].GetMetric()[0].GetHistogram()
	if got := time.Duration(h.GetSampleSum() * float64(time.Second)).Round(time.Millisecond); h.GetSampleCount() != n || got != sum {
		r.t.Errorf("%d recoveries were counted, with a sum of %s; want %d and %s", h.GetSampleCount(), got, n, sum)
	}
}

// The type `gangRun` is the run of a gang, which the test changes step by step.
type gangRun struct {
	t   *testing.T
	job ares.Job
	run ares.Run
}

func newGangRun(t *testing.T, id ares.JobID) *gangRun {
	t.Helper()
	return &gangRun{t: t, job: ares.Job{ID: id, AcceptedAt: noon, Spec: ares.Spec{Command: []string{"true"}}.WithDefaults()}, run: ares.NewRun(noon)}
}

// The method `event` returns the run's current state as an event. The metrics never see later changes.
func (g *gangRun) event() ares.Event {
	r := g.run
	r.Attempts = slices.Clone(r.Attempts)
	for i := range r.Attempts {
		r.Attempts[i].Seats = slices.Clone(r.Attempts[i].Seats)
	}
	return ares.Event{Run: &ares.RunEvent{Job: g.job.ID, Run: r}}
}

func (g *gangRun) place(fence ares.Fence, nodes ...string) ares.Event {
	g.t.Helper()
	if g.run.Phase == ares.Retrying { // lost twice in a row
		if err := g.run.Ready(noon); err != nil {
			g.t.Fatal(err)
		}
	}
	var seats []ares.Seat
	for rank, n := range nodes {
		seats = append(seats, ares.Seat{Node: n, Rank: rank})
	}
	if err := g.run.Place(seats, 0, noon); err != nil {
		g.t.Fatal(err)
	}
	g.run.Last().Fence = fence
	return g.event()
}

func (g *gangRun) claim(rank int) ares.Event {
	g.t.Helper()
	a := g.run.Last()
	if err := g.run.Claim(&g.job, a.Fence, rank, a.Seats[rank].Node, noon); err != nil {
		g.t.Fatal(err)
	}
	return g.event()
}

func (g *gangRun) void(rank int) ares.Event {
	g.t.Helper()
	if err := g.run.Void(&g.job, g.run.Last().Fence, rank, noon); err != nil {
		g.t.Fatal(err)
	}
	return g.event()
}

func (g *gangRun) release(rank int) ares.Event {
	g.t.Helper()
	if err := g.run.Release(g.run.Last().Fence, rank); err != nil {
		g.t.Fatal(err)
	}
	return g.event()
}

func sessionOf(node string, ttl time.Duration) []ares.Event {
	return []ares.Event{{Node: &ares.Node{ID: node, SessionTTL: ttl}}, {Session: &ares.Session{Node: node}}}
}

func gone(kind ares.Kind, id string) ares.Event {
	return ares.Event{Gone: ares.Gone{Kind: kind, ID: id}}
}

// TestRecoveryIsMeasuredFromTheLastRenewal loses one node of a gang. The recovery begins with the node's last renewal, one TTL before the
// scheduler sees its session end. The recovery ends when the last rank of the next attempt is claimed.
func TestRecoveryIsMeasuredFromTheLastRenewal(t *testing.T) {
	r := newRecovering(t)
	g := newGangRun(t, "gang")
	r.at(0, slices.Concat(sessionOf("n1", 20*time.Second), sessionOf("n2", 20*time.Second), sessionOf("n3", 20*time.Second), []ares.Event{{Job: &g.job}})...)
	r.at(time.Second, g.place(10, "n1", "n2"))
	g.claim(0)
	r.at(2*time.Second, g.claim(1))
	r.counted(0, 0) // the first start is no recovery

	r.at(60*time.Second, gone(ares.KindSession, "n1")) // its last renewal was at 40 s
	r.at(65*time.Second, g.void(0))
	r.at(65200*time.Millisecond, g.release(1)) // the other rank's process was ended
	r.at(65300*time.Millisecond, g.place(11, "n2", "n3"))
	r.at(65400*time.Millisecond, g.claim(0))
	r.counted(0, 0)
	r.at(65500*time.Millisecond, g.claim(1))
	r.counted(1, 25500*time.Millisecond)
	r.at(90*time.Second, sessionOf("n1", 20*time.Second)...)
	r.at(91*time.Second, g.event()) // the same state again, for example after a checkpoint
	r.counted(1, 25500*time.Millisecond)

	// The job loses one node, and before it runs again, another. The time begins with the first loss.
	r.at(120*time.Second, gone(ares.KindSession, "n2")) // last renewed at 100 s
	r.at(125*time.Second, g.void(0))
	r.at(125200*time.Millisecond, g.release(1))
	r.at(126*time.Second, g.place(12, "n1", "n3"))
	r.at(140*time.Second, gone(ares.KindSession, "n3"))
	r.at(145*time.Second, g.void(1))
	r.at(145100*time.Millisecond, g.release(0))
	g.place(13, "n1")
	r.at(150*time.Second, g.claim(0))
	r.counted(2, 25500*time.Millisecond+50*time.Second)
}

// TestRecoveryAfterARevocation revokes a node. Its session ends without having been silent.
func TestRecoveryAfterARevocation(t *testing.T) {
	r := newRecovering(t)
	g := newGangRun(t, "job")
	g.place(10, "n1")
	r.at(0, slices.Concat(sessionOf("n1", 20*time.Second), []ares.Event{{Job: &g.job}, g.claim(0)})...)
	r.at(10*time.Second, gone(ares.KindSession, "n1"), ares.Event{Node: &ares.Node{ID: "n1", SessionTTL: -time.Second, SessionCut: true}})
	r.at(35*time.Second, g.void(0))
	g.place(11, "n2")
	r.at(36*time.Second, g.claim(0))
	r.counted(1, 26*time.Second)
}

// TestRecoveriesThatAreNotCounted checks jobs that end, replicas that do not lead, and losses whose beginning is not known.
func TestRecoveriesThatAreNotCounted(t *testing.T) {
	lose := func(edit func(*recovering, *gangRun)) *recovering {
		r := newRecovering(t)
		g := newGangRun(t, "job")
		g.place(10, "n1")
		r.at(0, slices.Concat(sessionOf("n1", 20*time.Second), []ares.Event{{Job: &g.job}, g.claim(0)})...)
		r.at(20*time.Second, gone(ares.KindSession, "n1"))
		r.at(25*time.Second, g.void(0))
		edit(r, g)
		return r
	}
	runs := func(r *recovering, g *gangRun) {
		g.place(11, "n2")
		r.at(26*time.Second, g.claim(0))
	}
	lose(runs).counted(1, 26*time.Second)
	lose(func(r *recovering, g *gangRun) {
		r.metrics.Recovery.Lead()()
		runs(r, g)
	}).counted(0, 0)
	lose(func(r *recovering, g *gangRun) { // the whole state was read again
		r.metrics.Follow(ares.Batch{Revision: 10, Reset: true, Events: []ares.Event{{Node: &ares.Node{ID: "n1"}}, {Job: &g.job}, g.event()}}, noon.Add(25*time.Second))
		runs(r, g)
	}).counted(0, 0)
	cancelled := lose(func(r *recovering, g *gangRun) {
		if err := g.run.RequestStop(ares.Stop{Why: ares.StopCancel, By: "me", At: noon}); err != nil {
			t.Fatal(err)
		}
		r.at(26*time.Second, g.event())
	})
	cancelled.counted(0, 0)
	if n := len(cancelled.metrics.Recovery.lost); n != 0 {
		t.Errorf("%d ended jobs are remembered", n)
	}
}

// TestRecoveryOfOtherLosses checks the calls for schedulers whose jobs lose nodes without a voided seat.
func TestRecoveryOfOtherLosses(t *testing.T) {
	r := newRecovering(t)
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	r.metrics.Recovery.Recovered("a", at(1)) // its first start
	r.counted(0, 0)
	r.metrics.Recovery.Lost("a", at(10))
	r.metrics.Recovery.Lost("a", at(12)) // a second node; the first loss counts
	r.metrics.Recovery.Lost("b", at(10))
	r.metrics.Recovery.Forget("b")
	r.metrics.Recovery.Recovered("a", at(15))
	r.metrics.Recovery.Recovered("a", at(20))
	r.metrics.Recovery.Recovered("b", at(20))
	r.counted(1, 5*time.Second)
}
