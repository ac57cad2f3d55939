package logs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
)

const (
	maxDisorder = 200 * time.Millisecond // how much earlier than the line before a line may have been printed
	maxGrowth   = 64 << 20               // of the server's memory
)

// printer is the program of each rank: when the file GO exists, it prints lines with the time, with a pause after each of them or without
// one. It uses only what is built into bash, so that 64 of them do not measure the start of processes.
const printer = `exec 3<> <(:)
echo "0 $EPOCHREALTIME ready"
until [[ -e $GO ]]; do read -rt 0.2 _ <&3; done
for ((i = 1; i <= LINES_EACH; i++)); do
	echo "$i $EPOCHREALTIME $KIND, with a text that makes the line as long as that of a usual log"
	[[ $KIND == flood ]] || read -rt 0.1 _ <&3
done
exit 0`

// BenchmarkLogs follows 64 ranks on four nodes with "all ranks": ranks that print ten lines a second, and ranks that print as fast as they
// can. The order is checked only for the first: ranks that print all the time wait for a processor before they write, and so do their
// supervisors before they read.
func BenchmarkLogs(b *testing.B) {
	c := cluster.Start(b, cluster.Servers(1))
	nodes := make([]string, 4)
	for i := range nodes {
		nodes[i] = fmt.Sprint("node-", i)
		c.StartAgentWith(nodes[i], []string{
			"--token-file", filepath.Join(c.Servers[0].Dir, server.NodeTokenFile), "--isolation", "none", "--mock", "dgx-h100",
		}, c.Servers...)
	}
	c.AwaitOnline(nodes...)
	var steady, flood run
	for b.Loop() {
		steady = follow(b, c, "steady", rounds.Sized(100, 5))
		flood = follow(b, c, "flood", rounds.Sized(2000, 50))
	}
	slices.Sort(steady.delays)
	growth := max(steady.growth, flood.growth)
	b.ReportMetric(float64(steady.lines+flood.lines), "lines")
	b.ReportMetric(float64(steady.disorder.Milliseconds()), "disorder-ms")
	b.ReportMetric(float64(steady.delays[len(steady.delays)/2].Milliseconds()), "delay-p50-ms")
	b.ReportMetric(float64(steady.growth)/(1<<20), "steady-growth-MiB")
	b.ReportMetric(float64(flood.growth)/(1<<20), "flood-growth-MiB")
	b.ReportMetric(0, "ns/op")
	if !rounds.Tiny() && (steady.disorder > maxDisorder || growth > maxGrowth) {
		b.Errorf("disorder %v and growth %d MiB, want at most %v and %d MiB", steady.disorder, growth>>20, maxDisorder, maxGrowth>>20)
	}
}

// The type `run` is the result of following one job.
type run struct {
	*order
	growth int64 // of the server's memory while the job was followed
}

// The function `follow` runs a job and follows all of its ranks.
func follow(b *testing.B, c *cluster.Cluster, kind string, lines int) run {
	jobs, ranks, start := c.Client(), rounds.Sized(64, 4), filepath.Join(b.TempDir(), "go")
	job, err := jobs.Submit(b.Context(), &apipb.JobSpec{
		Name: kind, Command: []string{"bash", "-c", printer}, Members: int32(ranks),
		Environment: map[string]string{"GO": start, "KIND": kind, "LINES_EACH": fmt.Sprint(lines)},
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := jobs.WaitUntil(b.Context(), job.GetJobId(), func(j *apipb.Job) bool { return j.GetState() == string(ares.Running) }); err != nil {
		b.Fatal(err)
	}
	out := &order{next: make([]int, ranks), ready: func() {
		if err := os.WriteFile(start, nil, 0o600); err != nil {
			b.Error(err)
		}
	}}
	before, _ := c.Servers[0].Memory()
	peak := watchMemory(b, c.Servers[0].Process, func() {
		if _, err := jobs.FollowLogs(b.Context(), job.GetJobId(), client.LogOptions{AllRanks: true}, out, nil); err != nil {
			b.Fatal(err)
		}
	})
	out.complete(b, lines+1)
	return run{out, max(peak-before, 0)}
}

// watchMemory returns the peak of a process's memory while a function runs.
func watchMemory(b *testing.B, p *cluster.Process, run func()) (peak int64) {
	ctx, cancel := context.WithCancel(b.Context())
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause.For(ctx, 20*time.Millisecond) {
			now, _ := p.Memory()
			most.Store(max(most.Load(), now))
		}
	}()
	run()
	cancel()
	<-done
	return most.Load()
}

// The type `order` is a writer that checks the lines of a followed log.
type order struct {
	next     []int // number of each rank's next line
	lines    int
	ready    func()          // called when all ranks have printed their first line
	latest   time.Time       // of the steady lines so far
	disorder time.Duration   // the largest step back in time between steady lines
	delays   []time.Duration // from the print of a steady line to its arrival
}

// Write gets whole lines, because the client writes each message at once.
func (o *order) Write(b []byte) (int, error) {
	now := time.Now()
	for line := range bytes.Lines(b) {
		var rank, number int
		var seconds, micros int64
		var kind string
		if n, err := fmt.Sscanf(string(line), "r%d| %d %d.%d %s", &rank, &number, &seconds, &micros, &kind); n != 5 || err != nil || line[len(line)-1] != '\n' {
			return 0, fmt.Errorf("a line is broken: %q: %v", line, err)
		}
		if rank >= len(o.next) || number != o.next[rank] {
			return 0, fmt.Errorf("line %d of rank %d comes instead of line %d", number, rank, o.next[rank])
		}
		o.next[rank]++
		o.lines++
		if o.lines == len(o.next) {
			o.ready()
		}
		if !strings.HasPrefix(kind, "steady") {
			continue
		}
		printed := time.Unix(seconds, micros*1000)
		o.disorder = max(o.disorder, o.latest.Sub(printed))
		if printed.After(o.latest) {
			o.latest = printed
		}
		o.delays = append(o.delays, now.Sub(printed))
	}
	return len(b), nil
}

// The method `complete` checks that no line is missing.
func (o *order) complete(b *testing.B, lines int) {
	for rank, next := range o.next {
		if next != lines {
			b.Fatalf("%d lines of rank %d, want %d", next, rank, lines)
		}
	}
}
