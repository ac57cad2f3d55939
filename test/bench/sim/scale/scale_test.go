package scale

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// The type `run` holds the result and the cost of one simulation.
type run struct {
	nodes, jobs int
	load        float64
	lap         rounds.Lap
	queue       int // longest queue
	moments     int
	report      sim.Report
}

func (r *run) do(b *testing.B) {
	b.Helper()
	const gpus = 8
	f := &sim.Fleet{Machines: []sim.Machine{{Name: "m", Count: r.nodes, GPUs: gpus, Model: "H100", CPUs: 96, MemoryMB: 1 << 20, LeafSize: 32}}}
	var err error
	r.lap.Time(func() {
		w := sim.NewWorld(f, sim.Policy{Name: "ares", Engine: config.Default()})
		w.Expect(r.jobs)
		err = w.RunStream(sim.Synthetic{Jobs: r.jobs, GPUs: r.nodes * gpus, Load: r.load, Seed: 1}.Stream(), 0, func(_ time.Time, waiting int) {
			r.moments++
			r.queue = max(r.queue, waiting)
		})
		r.report = w.Report()
	})
	if err != nil {
		b.Fatal(err)
	}
	if r.report.Ended != r.jobs {
		b.Fatalf("of %d jobs %d ended", r.jobs, r.report.Ended)
	}
}

func (r *run) row() []string {
	return []string{
		fmt.Sprint(r.nodes), fmt.Sprint(r.jobs), fmt.Sprintf("%.2f", r.load), fmt.Sprint(r.queue), fmt.Sprintf("%.1f", r.report.Virtual/86400), fmt.Sprintf("%.1f", r.report.Use),
		fmt.Sprint(r.moments), fmt.Sprintf("%.1f", r.lap.Wall.Seconds()), fmt.Sprintf("%.1f", r.lap.Thread.Seconds()), fmt.Sprintf("%.1f", r.lap.Process.Seconds()),
		fmt.Sprintf("%.1f", r.lap.Thread.Seconds()*1e6/float64(r.jobs)),
	}
}

var head = []string{"nodes", "jobs", "load", "longest queue", "virtual days", "GPU use, %", "moments", "s", "CPU s, one thread", "CPU s, with the collector's", "µs a job"}

// BenchmarkMillion simulates 1,000,000 jobs on 10,000 nodes of 8 GPUs.
func BenchmarkMillion(b *testing.B) {
	for range b.N {
		r := run{nodes: rounds.Sized(10_000, 100), jobs: rounds.Sized(1_000_000, 1000), load: 1}
		r.do(b)
		if err := rounds.Table(os.Stdout, fmt.Sprintf("one million jobs; to beat: 60 s and 2 GiB; the process has had at most %s", peak(b)), [][]string{head, r.row()}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGrowth prints the simulation cost per job for clusters of several
// sizes and queues of several lengths.
func BenchmarkGrowth(b *testing.B) {
	for range b.N {
		rows := [][]string{head}
		for _, r := range []run{
			{nodes: 100, jobs: 100_000, load: 1},
			{nodes: 300, jobs: 100_000, load: 1},
			{nodes: 1000, jobs: 100_000, load: 1},
			{nodes: 3000, jobs: 100_000, load: 1},
			{nodes: 10_000, jobs: 100_000, load: 1},
			{nodes: 1000, jobs: 100_000, load: 0.7},
			{nodes: 1000, jobs: 100_000, load: 1.2},
			{nodes: 1000, jobs: 100_000, load: 2},
			{nodes: 1000, jobs: 100_000, load: 10},
		} {
			r.jobs = rounds.Sized(r.jobs, 500)
			r.nodes = rounds.Sized(r.nodes, 20)
			runtime.GC()
			r.do(b)
			rows = append(rows, r.row())
		}
		if err := rounds.Table(os.Stdout, "growth", rows); err != nil {
			b.Fatal(err)
		}
	}
}

// The function `peak` returns the peak memory of this process.
func peak(b *testing.B) string {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(kb)
		}
	}
	return "?"
}
