package robustness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/chaos/recorder"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// BenchmarkFailover measures how long scheduling stops when a leader dies or
// resigns. During this time, 64 clients keep submitting jobs. The benchmark also
// measures how long a gang takes to run again when one of its nodes dies, with
// the default times and with shorter ones. The store must contain every
// acknowledged submission.
func BenchmarkFailover(b *testing.B) {
	dir := b.TempDir()
	record, err := trace.Create(filepath.Join(dir, "record"))
	if err != nil {
		b.Fatal(err)
	}
	defer record.Close()
	f := newFleet(b, usual, recoveryNodes, dir, record.Dir)
	defer f.end()
	ctx, stop := context.WithCancel(b.Context())
	rec := recorder.New(b, f.endpoints(), record)
	var background sync.WaitGroup
	background.Go(func() { rec.Run(ctx) })
	defer background.Wait()
	defer stop()

	for b.Loop() {
		f.shorten(b, quick)
		quickly := nodeLosses(b, f, rec, record, "quick", quick)
		lost := quickly // the tiny form does not wait a second time
		if !rounds.Tiny() {
			f.shorten(b, usual.session)
			lost = nodeLosses(b, f, rec, record, "usual", 0)
		}
		begun := time.Now()
		hammer := startHammer(b, f)
		killed := outages(b, f, rec, syscall.SIGKILL, rounds.Sized(5, 1))
		resigned := outages(b, f, rec, syscall.SIGTERM, rounds.Sized(5, 1))
		accepted := hammer.end()
		rate := float64(len(accepted)) / time.Since(begun).Seconds()
		table(b, fmt.Sprintf("The leader ends while %d clients submit %.0f jobs a second", hammerers, rate), [][]string{
			{"", "value"},
			{fmt.Sprintf("killed (TTL %s): time until the next decision", f.patience.leader), fmt.Sprint(killed)},
			{"resigned: time until the next decision", fmt.Sprint(resigned)},
			{"submissions acknowledged meanwhile", fmt.Sprint(len(accepted))},
			{"of these lost", fmt.Sprint(missing(b, f, accepted))},
		})
		b.ReportMetric(slices.Max(killed).Seconds(), "s-killed-max")
		b.ReportMetric(slices.Max(resigned).Seconds(), "s-resigned-max")
		lost.print(b, "at the defaults: session TTL 20 s, lost_after 25 s", 27*time.Second)
		quickly.print(b, "with sessions.ttl_seconds: 12 and lost_after_seconds: 12", 15*time.Second)
		b.ReportMetric(slices.Max(lost.total).Seconds(), "s-node-lost-max")
		b.ReportMetric(slices.Max(quickly.total).Seconds(), "s-node-lost-quick-max")
	}
}

func table(b *testing.B, title string, rows [][]string) {
	b.Helper()
	if err := rounds.Table(os.Stdout, title, rows); err != nil {
		b.Fatal(err)
	}
}

// This function stops the leader several times. It measures the time until the
// next leader places a job.
func outages(b *testing.B, f *fleet, rec *recorder.Recorder, sig syscall.Signal, times int) []time.Duration {
	var out []time.Duration
	for range times {
		i := awaitLeader(b, f)
		since := rec.Placements()
		live.Await(b, time.Minute, "the leader to decide", func() (bool, string) { return rec.Placements() >= since+5, "" })
		at := trace.Now()
		f.servers[i].Stop(sig, 20*time.Second)
		gone := trace.Now()
		out = append(out, (rec.PlacedAfter(gone) - at).Round(time.Millisecond))
		f.servers[i].Start()
		c := f.client(i, 5*time.Second)
		live.Await(b, time.Minute, "the server to be ready again", func() (bool, string) {
			err := c.Ready(b.Context())
			return err == nil, fmt.Sprint(err)
		})
		_ = c.Close()
	}
	return out
}

func awaitLeader(b *testing.B, f *fleet) int {
	for {
		if i := f.leader(b.Context()); i >= 0 {
			return i
		}
		if b.Context().Err() != nil {
			b.Fatal("there is no leader")
		}
	}
}

const hammerers = 64

// A `hammer` is a set of clients that submit jobs as fast as two CPU cores
// allow.
type hammer struct {
	stop     context.CancelFunc
	wg       sync.WaitGroup
	mu       sync.Mutex
	accepted []string
}

func startHammer(b *testing.B, f *fleet) *hammer {
	ctx, stop := context.WithCancel(b.Context())
	h := &hammer{stop: stop}
	var number atomic.Int64
	for k := range hammerers {
		h.wg.Go(func() {
			c := f.anyClient(k)
			defer c.Close()
			for ctx.Err() == nil {
				n := number.Add(1)
				spec := &apipb.JobSpec{RequestId: fmt.Sprintf("hammer-%d", n), Name: "hammer", GpuCount: 1, LostAfterSeconds: 20, Command: []string{"true"}}
				if n%50 != 0 { // two cores cannot run that many: most jobs only wait
					spec.Placement = &apipb.Placement{NodeSelector: map[string]string{"there": "is-none"}}
				}
				answer, err := c.Submit(ctx, spec)
				if err == nil {
					h.mu.Lock()
					h.accepted = append(h.accepted, answer.GetJobId())
					h.mu.Unlock()
				}
				pause.For(ctx, 50*time.Millisecond)
			}
		})
	}
	return h
}

func (h *hammer) end() []string {
	h.stop()
	h.wg.Wait()
	return h.accepted
}

// anyClient returns a client that switches between the servers by itself.
func (f *fleet) anyClient(first int) *client.Client {
	var at []string
	for k := range f.controls {
		at = append(at, fmt.Sprintf("%s:%d", f.controls[(first+k)%members].IP, grpcPort))
	}
	c, err := client.New(client.Options{Addresses: at, Token: f.token, TLS: f.tls, Attempts: 20, CallTimeout: 5 * time.Second})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// This function counts the accepted jobs that the servers have no record of.
func missing(b *testing.B, f *fleet, accepted []string) int {
	c := f.anyClient(0)
	defer c.Close()
	n := 0
	for _, id := range accepted {
		switch _, err := c.Job(b.Context(), id); ares.CodeOf(err) {
		case "":
		case ares.NotFound:
			b.Errorf("%s was accepted and is not there", id)
			n++
		default:
			b.Fatal(err)
		}
	}
	return n
}
