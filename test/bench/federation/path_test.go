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
)

// BenchmarkSubmitToRunning submits jobs one after the other, and measures the time until an agent has claimed the job. The
// agents are simulated, so no process starts.
func BenchmarkSubmitToRunning(b *testing.B) {
	jobs := rounds.Sized(100, 3)
	for range b.N {
		rows := [][]string{{"submitted", "round trip, ms", "jobs", "p50, ms", "p99, ms", "longest, ms"}}
		for _, trip := range []time.Duration{0, 150 * time.Millisecond} {
			hub := newHub(b)
			s := newSite(b, "far", 1, true)
			s.join(hub, newLink(b, hub.Servers[0].At.GRPC, trip/2))
			at, name := hub.Client(), "at the hub"
			for range 2 {
				took := make([]time.Duration, jobs)
				for i := range took {
					began := time.Now()
					took[i] = s.awaitStart(submit(b, at, &apipb.JobSpec{Name: "path", GpuCount: 1})).Sub(began)
				}
				rows = append(rows, slices.Concat([]string{name, fmt.Sprint(trip.Milliseconds()), fmt.Sprint(jobs)}, spread(took, time.Millisecond)))
				at, name = s.api, "in the cluster"
			}
		}
		if err := rounds.Table(os.Stdout, "From the submission of a job until it runs; aim at the hub with 150 ms: p50 < 600 ms, p99 < 1,500 ms", rows); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJoin joins clusters to a hub with a waiting job, and measures the time from the command until the job runs.
func BenchmarkJoin(b *testing.B) {
	clusters := rounds.Sized(5, 1)
	for range b.N {
		hub := newHub(b)
		api := hub.Client()
		took := make([]time.Duration, clusters)
		for i := range took {
			s := newSite(b, fmt.Sprintf("site-%d", i), 1, true)
			token := register(b, hub, s)
			id := submit(b, api, &apipb.JobSpec{Name: "first", GpuCount: 1, Placement: &apipb.Placement{Clusters: []string{s.name}}})
			began := time.Now()
			command(b, s.c, "join", "--global", hub.Servers[0].At.GRPC, "--token", token, "--federated", "default")
			took[i] = s.awaitStart(id).Sub(began)
		}
		rows := [][]string{{"clusters", "p50, ms", "p99, ms", "longest, ms"}, slices.Concat([]string{fmt.Sprint(clusters)}, spread(took, time.Millisecond))}
		if err := rounds.Table(os.Stdout, "From the start of the command ares join until the first job runs; aim 5,000 ms", rows); err != nil {
			b.Fatal(err)
		}
	}
}

// known is the time after which the hub has a summary that says which clusters are full.
const known = 2500 * time.Millisecond

// BenchmarkSilence lets the link of a cluster fall silent that has a running job and an open offer, and measures how long
// it takes until the offered job runs in another cluster. The running job must not be started there.
func BenchmarkSilence(b *testing.B) {
	times := rounds.Sized(3, 1) // after three cuts, the link counts as flapping
	for range b.N {
		hub := newHub(b)
		api := hub.Client()
		east, west := newSite(b, "east", 1, false), newSite(b, "west", 1, false)
		wire := newLink(b, hub.Servers[0].At.GRPC, 0)
		east.join(hub, wire)
		west.join(hub, newLink(b, hub.Servers[0].At.GRPC, 0))
		took, twice := make([]time.Duration, times), 0
		for i := range took {
			full := submit(b, west.api, &apipb.JobSpec{Name: "local", GpuCount: 8})
			west.awaitStart(full)
			owned := submit(b, api, &apipb.JobSpec{Name: "owned", GpuCount: 4})
			east.awaitStart(owned)
			pause.For(b.Context(), known) // otherwise the job may be offered to both clusters
			wire.silence(true)
			began := time.Now()
			waits := submit(b, api, &apipb.JobSpec{Name: "waits", GpuCount: 4})
			west.end(full)
			took[i] = west.awaitStart(waits).Sub(began)
			if started, _ := west.of(owned); len(started) > 0 {
				twice++
			}
			wire.silence(false)
			east.awaitMode("federated")
			for _, id := range []string{owned, waits} {
				west.end(id)
				if id == owned {
					east.end(id)
				}
				if _, err := api.Wait(b.Context(), id); err != nil {
					b.Fatal(err)
				}
			}
		}
		rows := [][]string{
			{"cuts", "p50, s", "p99, s", "longest, s", "owned jobs that were started elsewhere"},
			slices.Concat([]string{fmt.Sprint(times)}, spread(took, time.Second), []string{fmt.Sprint(twice)}),
		}
		if err := rounds.Table(os.Stdout, "From the silence of a cluster until a job that was offered to it runs in another one; aim 10 s", rows); err != nil {
			b.Fatal(err)
		}
	}
}
