package federation

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
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

// A local is what one cluster does with its own jobs, round by round.
type local struct {
	name       string
	rate, wait rounds.Figures
}

// The method `measure` submits jobs to the cluster itself.
func (l *local) measure(s *site) {
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

// BenchmarkHubGone measures, in turns, what a cluster does with its own jobs: two clusters without a hub, which are the
// same program, and a member whose hub answers and does not answer.
func BenchmarkHubGone(b *testing.B) {
	for range b.N {
		hub := newHub(b)
		plain, same, member := newSite(b, "plain", 8, true), newSite(b, "same", 8, true), newSite(b, "member", 8, true)
		wire := newLink(b, hub.Servers[0].At.GRPC, 0)
		member.join(hub, wire)
		all := []*local{{name: "no hub"}, {name: "no hub, the same again"}, {name: "member, the hub answers"}, {name: "member, the hub is silent"}}
		for range rounds.Count {
			all[0].measure(plain)
			all[2].measure(member)
			wire.silence(true)
			member.awaitMode("autonomous")
			all[3].measure(member)
			wire.silence(false)
			member.awaitMode("federated")
			all[1].measure(same)
		}
		rows := [][]string{{"cluster", "jobs started a second", "÷ no hub", "÷ hub answers", "start of a single job, ms", "÷ no hub", "÷ hub answers"}}
		for _, l := range all {
			rows = append(rows, []string{
				l.name, l.rate.String(), l.rate.Over(all[0].rate).Text(1, 2), l.rate.Over(all[2].rate).Text(1, 2),
				l.wait.Text(1, 1), l.wait.Over(all[0].wait).Text(1, 2), l.wait.Over(all[2].wait).Text(1, 2),
			})
		}
		title := fmt.Sprintf("A cluster's own jobs with and without a hub, in turns; median of %d rounds (range)", rounds.Count)
		if err := rounds.Table(os.Stdout, title, rows); err != nil {
			b.Fatal(err)
		}
	}
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
