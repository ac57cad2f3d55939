// Command benchkube measures schedulers on a real API server with fake GPU nodes.
//
// Throughput: all pods exist before the scheduler starts. The sides take turns, each round in a fresh cluster: upstream's
// kube-scheduler, a client that only posts bindings (no scheduler can be faster), and ares-kube-scheduler.
// Latency: pods arrive at a steady rate. Recovery: a node of a gang is lost.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// settings are the flags of the benchmark.
type settings struct {
	nodes, pods, rounds int
	sides               []string
	workers             int // bindings that the bare client posts at once
	settle, quiet       time.Duration

	rate      int // pods per second
	ratePods  int
	lostNodes int
	gang      int
	losses    int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := benchmark
	if len(os.Args) > 1 && os.Args[1] == bindCommand {
		run = bindAll
	}
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "benchkube: %v\n", err)
		os.Exit(1)
	}
}

func benchmark(ctx context.Context) error {
	var s settings
	flag.IntVar(&s.nodes, "nodes", 1000, "fake nodes with 8 GPUs each")
	flag.IntVar(&s.pods, "pods", 2000, "pods of 1,1,1,1,2,2,4,8 GPUs in turn")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds of each side; the figures are medians")
	sides := flag.String("sides", "kube-scheduler,bindings,ares", "sides of the throughput benchmark; empty leaves it out")
	flag.IntVar(&s.workers, "bind-workers", 64, "bindings that the bare client posts at once")
	flag.DurationVar(&s.settle, "settle", time.Minute, "how long to wait at most until the API server is idle before a side starts")
	flag.DurationVar(&s.quiet, "quiet", 20*time.Second, "a side has finished when it bound nothing for so long")
	flag.IntVar(&s.rate, "rate", 50, "pods per second in the latency benchmark; 0 leaves it out")
	flag.IntVar(&s.ratePods, "rate-pods", 1500, "pods in the latency benchmark; fewer if the nodes cannot hold them")
	flag.IntVar(&s.losses, "losses", 5, "nodes lost one after the other in the recovery benchmark; 0 leaves it out")
	flag.IntVar(&s.lostNodes, "recovery-nodes", 64, "nodes in the recovery benchmark")
	flag.IntVar(&s.gang, "gang", 8, "pods of the gang in the recovery benchmark, with 8 GPUs each")
	flag.Parse()
	if *sides != "" {
		s.sides = strings.Split(*sides, ",")
	}
	return s.run(ctx, os.Stdout)
}

// run prints a table for each benchmark as soon as it has ended.
func (s settings) run(ctx context.Context, out io.Writer) error {
	if s.nodes < 1 || s.pods < 1 || s.rounds < 1 {
		return fmt.Errorf("-nodes %d, -pods %d and -rounds %d must be at least 1", s.nodes, s.pods, s.rounds)
	}
	if _, err := kubetest.AresScheduler(); err != nil {
		return err
	}
	all, err := s.throughput(ctx)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		fmt.Fprintln(out, throughputTable(s, all))
	}
	if s.rate > 0 {
		latencies, err := s.latencies(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, latencyTable(s, latencies))
	}
	if s.losses > 0 {
		recoveries, err := s.recovery(ctx)
		if err != nil {
			return fmt.Errorf("recovery: %w", err)
		}
		fmt.Fprintln(out, recoveryTable(s, recoveries))
	}
	return nil
}

// progress prints what happens now, on standard error, so that standard output is only the tables.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
