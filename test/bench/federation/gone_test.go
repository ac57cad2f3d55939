package federation

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

var (
	flood    = rounds.Sized(500, 10) // jobs that are submitted at once
	single   = rounds.Sized(50, 3)   // jobs that are submitted one after the other
	heldJobs = rounds.Sized(10_000, 20)
	outages  = rounds.Sized(3, 1)
)

// away is how long the hub is silent in BenchmarkHubGone, and turns is the number of measurements of each cluster before that, and during
// that time. ARES_BENCH_AWAY=1h is the long form.
var (
	away  = rounds.Sized(10*time.Minute, 0)
	turns = rounds.Sized(40, 1)
)

// A local is what one cluster does with its own jobs, turn by turn.
type local struct {
	*site
	name       string
	rate, wait rounds.Figures
}

// The method `measure` submits jobs to the cluster itself, and adds how fast they are started.
func (l *local) measure() {
	s := l.site
	specs := make([]*apipb.JobSpec, flood)
	for i := range specs {
		specs[i] = &apipb.JobSpec{Name: "flood", Command: []string{"true"}, GpuCount: 1}
	}
	before, began := s.claimed(), time.Now()
	if got, err := s.api.SubmitBatch(s.b.Context(), specs); err != nil || int(got.GetAccepted()) != flood {
		s.b.Fatalf("%d of %d jobs were accepted: %v", got.GetAccepted(), flood, err)
	}
	live.AwaitCount(s.b, cluster.Patience, "jobs that were started", before+flood, s.claimed)
	l.rate.Rate(flood, time.Since(began))
	took := make([]time.Duration, single)
	for i := range took {
		began := time.Now()
		took[i] = s.awaitStart(submit(s.b, s.api, &apipb.JobSpec{Name: "single", GpuCount: 1})).Sub(began)
	}
	slices.Sort(took)
	l.wait = append(l.wait, took[len(took)/2].Seconds()*1000)
}

// awaitEnd waits until every job of the cluster has succeeded.
func (l *local) awaitEnd() {
	l.b.Helper()
	live.Await(l.b, cluster.Patience, "the end of all jobs of "+l.name, func() (bool, string) {
		got, err := l.api.Jobs(l.b.Context(), &apipb.ListJobsRequest{State: []string{"pending", "scheduled", "running", "failed", "lost", "cancelled"}, PageSize: 1})
		return err == nil && got.GetTotal() == 0, fmt.Sprint(got.GetTotal(), err)
	})
	if ran, want := l.claimed(), len(l.rate)*(flood+single); ran != want {
		l.b.Errorf("%s has run %d jobs of %d", l.name, ran, want)
	}
}

// BenchmarkHubGone measures, in turns, what clusters do with their own jobs: two without a hub, which are the same program, and a member,
// first with a hub that answers, and then while the hub is silent. Every job must have succeeded in the end.
func BenchmarkHubGone(b *testing.B) {
	if text := os.Getenv("ARES_BENCH_AWAY"); text != "" {
		var err error
		if away, err = time.ParseDuration(text); err != nil {
			b.Fatal("ARES_BENCH_AWAY: ", err)
		}
	}
	for range b.N {
		hub := newHub(b)
		all := []*local{
			{site: newSite(b, "plain", 8, true), name: "no hub"},
			{site: newSite(b, "same", 8, true), name: "no hub, the same again"},
			{site: newSite(b, "member", 8, true), name: "member"},
		}
		wire := newLink(b, hub.Servers[0].At.GRPC, 0)
		all[2].join(hub, wire)
		inTurns(b, all, 0)
		rows := compare(nil, all, "the hub answers")
		wire.silence(true)
		all[2].awaitMode("autonomous")
		began := time.Now()
		inTurns(b, all, away)
		gone := time.Since(began)
		wire.silence(false)
		all[2].awaitMode("federated")
		for _, l := range all {
			l.awaitEnd()
		}
		rows = compare(rows, all, "the hub is silent")
		title := fmt.Sprintf("A cluster's own jobs with and without a hub; median of %d turns, and the 95 %% interval of the median; the hub was silent for %s",
			turns, gone.Round(time.Second))
		if err := rounds.Table(os.Stdout, title, rows); err != nil {
			b.Fatal(err)
		}
	}
}

// inTurns measures the clusters, each turn in another order, spread over at least the given time.
func inTurns(b *testing.B, all []*local, over time.Duration) {
	b.Helper()
	began := time.Now()
	for i := range turns {
		for k := range all {
			all[(i+k)%len(all)].measure()
		}
		pause.For(b.Context(), over*time.Duration(i+1)/time.Duration(turns)-time.Since(began))
	}
}

// The function `compare` adds the last turns to a table.
func compare(rows [][]string, all []*local, when string) [][]string {
	if rows == nil {
		rows = [][]string{{"cluster", "while", "jobs started a second", "÷ no hub", "start of a single job, ms", "÷ no hub"}}
	}
	last := func(f rounds.Figures) rounds.Figures { return f[len(f)-turns:] }
	for _, l := range all {
		rate, wait := last(l.rate), last(l.wait)
		rows = append(rows, []string{
			l.name, when, rate.Interval(1, 0), rate.Over(last(all[0].rate)).Interval(1, 3), wait.Interval(1, 1), wait.Over(last(all[0].wait)).Interval(1, 3),
		})
	}
	return rows
}

// BenchmarkAutonomy lets a cluster run many jobs of its hub, and measures how long it takes until the cluster notices that
// the hub is silent, and until the two have compared their jobs and go on afterwards.
func BenchmarkAutonomy(b *testing.B) {
	for range b.N {
		hub := newHub(b)
		s := newSite(b, "holder", (heldJobs+63)/64, false) // a node has 64 CPUs
		wire := newLink(b, hub.Servers[0].At.GRPC, 0)
		s.join(hub, wire)
		specs := make([]*apipb.JobSpec, heldJobs)
		for i := range specs {
			specs[i] = &apipb.JobSpec{Name: "held", Command: []string{"true"}, CpuCores: 1}
		}
		began := time.Now()
		if got, err := hub.Client().SubmitBatch(b.Context(), specs); err != nil || int(got.GetAccepted()) != heldJobs {
			b.Fatalf("%d of %d jobs were accepted: %v", got.GetAccepted(), heldJobs, err)
		}
		live.AwaitCount(b, cluster.Patience, "jobs that run", heldJobs, s.claimed)
		filled := time.Since(began)
		var entered, left []time.Duration
		for range outages {
			wire.silence(true)
			began = time.Now()
			s.awaitMode("autonomous")
			entered = append(entered, time.Since(began))
			live.Await(b, cluster.Patience, "the hub to end the session", func() (bool, string) {
				c, err := hub.Client().Cluster(b.Context(), "holder")
				return c.GetState() == "unreachable", fmt.Sprint(c.GetState(), err)
			})
			wire.silence(false)
			began = time.Now()
			s.awaitMode("federated")
			left = append(left, time.Since(began))
		}
		rows := [][]string{
			{"figure", "p50, s", "p99, s", "longest, s", "aim, s"},
			slices.Concat([]string{"from the silence of the hub to autonomous"}, spread(entered, time.Second), []string{"6"}),
			slices.Concat([]string{"from its return to federated"}, spread(left, time.Second), []string{"5"}),
			{fmt.Sprintf("from the submission of %d jobs until all run", heldJobs), fmt.Sprintf("%.1f", filled.Seconds()), "", "", ""},
		}
		if err := rounds.Table(os.Stdout, fmt.Sprintf("A member that runs %d jobs of its hub; %d outages", heldJobs, outages), rows); err != nil {
			b.Fatal(err)
		}
	}
}
