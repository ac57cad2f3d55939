package logs

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

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

// printer is the program of each rank: it prints lines with the time at a steady pace, and then many lines at once. It
// uses only what is built into bash, so that 64 of them do not measure the start of processes.
const printer = `exec 3<> <(:)
for ((i = 0; i < STEADY; i++)); do echo "$i $EPOCHREALTIME steady"; read -rt 0.1 _ <&3; done
for ((; i < STEADY + FLOOD; i++)); do echo "$i $EPOCHREALTIME flood, with a text that makes the line as long as that of a usual log"; done`

// BenchmarkLogs follows 64 ranks on four nodes with "all ranks".
func BenchmarkLogs(b *testing.B) {
	ranks, steady, flood := rounds.Sized(64, 4), rounds.Sized(100, 5), rounds.Sized(5000, 50)
	c := cluster.Start(b, cluster.Servers(1))
	nodes := make([]string, 4)
	for i := range nodes {
		nodes[i] = fmt.Sprint("node-", i)
		c.StartAgentWith(nodes[i], []string{
			"--token-file", filepath.Join(c.Servers[0].Dir, server.NodeTokenFile), "--isolation", "none", "--mock", "dgx-h100",
		}, c.Servers...)
	}
	c.AwaitOnline(nodes...)
	jobs := c.Client()
	var checked *order
	var growth int64
	for b.Loop() {
		job, err := jobs.Submit(b.Context(), &apipb.JobSpec{
			Name: "ranks", Command: []string{"bash", "-c", printer}, Members: int32(ranks),
			Environment: map[string]string{"STEADY": fmt.Sprint(steady), "FLOOD": fmt.Sprint(flood)},
		})
		if err != nil {
			b.Fatal(err)
		}
		checked = &order{next: make([]int, ranks)}
		before, _ := c.Servers[0].Memory()
		peak := watchMemory(b, c.Servers[0].Process, func() {
			if _, err := jobs.FollowLogs(b.Context(), job.GetJobId(), client.LogOptions{AllRanks: true}, checked, nil); err != nil {
				b.Fatal(err)
			}
		})
		growth = max(growth, peak-before)
		checked.complete(b, steady+flood)
	}
	slices.Sort(checked.delays)
	b.ReportMetric(float64(checked.lines), "lines")
	b.ReportMetric(float64(checked.disorder.Milliseconds()), "disorder-ms")
	b.ReportMetric(float64(checked.delays[len(checked.delays)/2].Milliseconds()), "delay-p50-ms")
	b.ReportMetric(float64(growth)/(1<<20), "growth-MiB")
	b.ReportMetric(0, "ns/op")
	if !rounds.Tiny() && (checked.disorder > maxDisorder || growth > maxGrowth) {
		b.Errorf("disorder %v and growth %d MiB, want at most %v and %d MiB", checked.disorder, growth>>20, maxDisorder, maxGrowth>>20)
	}
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
		if kind != "steady" { // a rank that prints all the time waits for the processor itself
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
