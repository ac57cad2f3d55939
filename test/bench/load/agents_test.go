package load

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

var (
	fleetTTL   = rounds.Sized(time.Minute, 12*time.Second)
	steady     = rounds.Sized(40*time.Second, 4*time.Second)
	fleetSizes = rounds.Sized([]int{200, 2000}, []int{2, 6})
)

// fleetRun holds the measurements of one benchmark run with simulated agents.
type fleetRun struct {
	agents       int
	opening      time.Duration // until every agent had its first session
	reopening    time.Duration // until every agent had a session again after the cut
	retried      int64
	calm, storm  usage
	before       []time.Duration // latencies of renewals
	after        []time.Duration
	lost, fenced int64
}

// BenchmarkAgents connects many simulated agents to one server over real gRPC.
// The agents renew their sessions for a while. Then the benchmark cuts every
// connection, and all agents reconnect at the same time. No agent may lose its
// session.
func BenchmarkAgents(b *testing.B) {
	var runs []fleetRun
	for _, n := range fleetSizes {
		runs = append(runs, runFleet(b, n))
	}
	rows := [][]string{
		{"agents"},
		{"all sessions open after"},
		{"renewals/s"},
		{"renewal p50"},
		{"renewal p99"},
		{"renewal max"},
		{"server CPU, cores"},
		{"server memory, MB"},
		{"server goroutines"},
		{"server descriptors"},
		{"etcd CPU, cores"},
		{"etcd memory, MB"},
		{"all back after the cut"},
		{"opened at a later try"},
		{"renewal p99 after it"},
		{"renewal max after it"},
		{"server peak memory, MB"},
		{"sessions lost"},
	}
	for _, r := range runs {
		p50, p99 := quantiles(r.before)
		_, p99after := quantiles(r.after)
		for i, cell := range []string{
			fmt.Sprint(r.agents), short(r.opening), fmt.Sprintf("%.0f", float64(len(r.before))/steady.Seconds()),
			short(p50), short(p99), short(longest(r.before)), fmt.Sprintf("%.2f", r.calm.server), fmt.Sprintf("%.0f", r.calm.serverMB),
			fmt.Sprint(r.calm.goroutines), fmt.Sprint(r.calm.openDescriptors), fmt.Sprintf("%.2f", r.calm.etcd), fmt.Sprintf("%.0f", r.calm.etcdMB),
			short(r.reopening), fmt.Sprint(r.retried), short(p99after), short(longest(r.after)), fmt.Sprintf("%.0f", r.storm.serverPeakMB), fmt.Sprint(r.lost + r.fenced),
		} {
			rows[i] = append(rows[i], cell)
		}
	}
	table(b, fmt.Sprintf("Agents on one server, sessions of %s", fleetTTL), rows)
	small, large := runs[0], runs[1]
	more := float64(large.agents - small.agents)
	table(b, "Growth for each agent more", [][]string{
		{"", "for each agent"},
		{"server CPU", fmt.Sprintf("%.0f µs/s", (large.calm.server-small.calm.server)/more*1e6)},
		{"server memory", fmt.Sprintf("%.0f KB", (large.calm.serverMB-small.calm.serverMB)/more*1024)},
		{"etcd CPU", fmt.Sprintf("%.0f µs/s", (large.calm.etcd-small.calm.etcd)/more*1e6)},
	})
}

// longest returns the longest latency, or 0 if there is none.
func longest(ds []time.Duration) time.Duration { return slices.Max(append(ds, 0)) }

func short(d time.Duration) string {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}

func runFleet(b *testing.B, n int) fleetRun {
	p := startServer(b, fmt.Sprintf("sessions: {ttl_seconds: %d}", int(fleetTTL.Seconds())))
	f := newFleet(b, p, n, fleetTTL)
	r := fleetRun{agents: n}
	open := func(ctx context.Context) (took time.Duration, end func()) {
		ctx, cut := context.WithCancel(ctx)
		begin, all := time.Now(), make(chan struct{})
		running := f.live(ctx, f.agents, func() { close(all) })
		<-all
		return time.Since(begin), func() { cut(); running.Wait() }
	}
	var cut func()
	r.opening, cut = open(b.Context())
	pause.For(b.Context(), fleetTTL/8) // wait for the first renewals
	f.latencies()
	r.calm = p.during(func() { pause.For(b.Context(), steady) })
	r.before = f.latencies()
	before := f.retried.Load()
	cut()
	r.storm = p.during(func() {
		r.reopening, cut = open(b.Context())
		pause.For(b.Context(), steady/2)
	})
	r.after = f.latencies()
	r.retried, r.fenced = f.retried.Load()-before, f.fenced.Load()
	r.lost = f.ended.Load()
	if r.lost+r.fenced > 0 || f.opened.Load() < int64(2*n) {
		b.Errorf("%d agents: %d sessions ended, %d renewals were refused, %d sessions were opened", n, r.lost, r.fenced, f.opened.Load())
	}
	if failed := f.failed.Load(); failed > 0 {
		b.Errorf("%d agents: %d renewals failed", n, failed)
	}
	cut()
	return r
}
