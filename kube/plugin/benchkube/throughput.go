package main

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// mix is the GPUs of the pods, in turn: 2,000 pods of it need 62 % of 1,000 nodes.
var mix = []int{1, 1, 1, 1, 2, 2, 4, 8}

// gpusPerNode of the fake nodes.
const gpusPerNode = 8

// result is what one side did in one round.
type result struct {
	bound      int
	fromStart  float64 // pods bound per second, from the start of the process to the last binding
	fromFirst  float64 // the same from the first binding, so without the time in which the process reads the cluster
	cpu        time.Duration
	wholeNodes int // pods of 8 GPUs that were left
	left       int
}

// throughput runs every round of every side and returns the results by side.
func (s settings) throughput(ctx context.Context) (map[string][]result, error) {
	all := map[string][]result{}
	for round := range s.rounds {
		for i := range s.sides {
			// Another side begins each round, so that none always runs on the same state of the machine.
			name := s.sides[(i+round)%len(s.sides)]
			side, err := s.sideOf(name)
			if err != nil {
				return nil, err
			}
			got, err := s.round(ctx, side)
			if err != nil {
				return nil, fmt.Errorf("round %d of %s: %w", round+1, name, err)
			}
			progress("round %d, %s: %d bound, %.0f/s from the start, %.0f/s from the first binding, %s CPU, %d left (%d of 8 GPUs)",
				round+1, name, got.bound, got.fromStart, got.fromFirst, got.cpu.Round(time.Millisecond), got.left, got.wholeNodes)
			all[name] = append(all[name], got)
		}
	}
	return all, nil
}

// cluster starts a cluster with nodes, whose directory is removed by the returned function.
func cluster(ctx context.Context, nodes int, o kubetest.Options) (*kubetest.Cluster, func(), error) {
	dir, err := os.MkdirTemp("", "benchkube")
	if err != nil {
		return nil, nil, err
	}
	o.Dir = dir
	c, err := kubetest.Launch(ctx, o)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	stop := func() {
		c.Stop()
		_ = os.RemoveAll(dir)
	}
	if _, err := c.CreateNodes(ctx, nodes, kubetest.NodeShape{GPUs: gpusPerNode}); err != nil {
		stop()
		return nil, nil, err
	}
	return c, stop, nil
}

// longLease keeps the renewals of a thousand leases from being the greater part of the API server's work.
const longLease = 10 * time.Minute

func (s settings) round(ctx context.Context, side side) (result, error) {
	progress("%s: a cluster of %d nodes and %d pods", side.name, s.nodes, s.pods)
	c, stop, err := cluster(ctx, s.nodes, kubetest.Options{NodeLease: longLease})
	if err != nil {
		return result{}, err
	}
	defer stop()
	err = kubetest.Each(kubetest.Workers, s.pods, func(i int) error {
		pod := kubetest.Pod(fmt.Sprintf("pod-%05d", i), side.scheduler, mix[i%len(mix)])
		_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := watch(ctx, c)
	if err != nil {
		return result{}, err
	}
	if err := s.awaitIdle(ctx, c); err != nil {
		return result{}, err
	}
	started := time.Now()
	process, err := side.start(c)
	if err != nil {
		return result{}, err
	}
	cpu, err := s.awaitBound(ctx, seen, process, started)
	if err != nil {
		return result{}, err
	}
	return s.judge(seen, started, cpu)
}

// awaitIdle waits until the API server has digested the creation of the nodes and pods: it then uses less than a tenth of a
// core. After s.settle the round begins anyway.
func (s settings) awaitIdle(ctx context.Context, c *kubetest.Cluster) error {
	before, err := c.APIServer.CPU()
	if err != nil {
		return err
	}
	const period = 2 * time.Second
	tick := time.NewTicker(period)
	defer tick.Stop()
	deadline := time.After(s.settle)
	for {
		select {
		case <-tick.C:
		case <-deadline:
			progress("the API server is still busy after %s", s.settle)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		now, err := c.APIServer.CPU()
		if err != nil {
			return err
		}
		if now-before < period/10 {
			return nil
		}
		before = now
	}
}

// awaitBound waits until all pods are bound, or none more for a while, and returns the CPU time that the process had used
// when it made its last binding. The time in which it only retries does not count.
func (s settings) awaitBound(ctx context.Context, seen *recorder, process *kubetest.Process, started time.Time) (time.Duration, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var cpu time.Duration
	most, told := -1, started
	ended := process.Ended()
	for {
		select {
		case <-tick.C:
		case <-ended:
			ended = nil // the bare client ends when it has posted everything; the watch may be behind
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		used, err := process.CPU()
		if err != nil {
			return 0, err
		}
		bound, last := seen.count()
		if bound > most {
			most, cpu = bound, used
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			progress("%d of %d bound after %s", bound, s.pods, time.Since(started).Round(time.Second))
		}
		if last.IsZero() {
			last = started
		}
		switch idle := time.Since(last); {
		case bound == s.pods:
			return cpu, nil
		case idle > s.quiet && bound == 0 && idle < 3*s.quiet:
			// A process that has not yet bound anything gets more time to read the cluster.
		case idle > s.quiet && bound == 0:
			return 0, fmt.Errorf("nothing was bound; the end of %s:\n%s", process.Log, process.Tail())
		case idle > s.quiet:
			return cpu, nil
		}
	}
}

// judge computes the result, and fails if a node got more pods than it has GPUs.
func (s settings) judge(seen *recorder, started time.Time, cpu time.Duration) (result, error) {
	used := map[string]int{}
	got := result{cpu: cpu}
	for _, pod := range seen.records() {
		if pod.node == "" {
			got.left++
			if pod.gpus == gpusPerNode {
				got.wholeNodes++
			}
			continue
		}
		got.bound++
		used[pod.node] += pod.gpus
		if used[pod.node] > gpusPerNode {
			return result{}, fmt.Errorf("node %s got pods with more than %d GPUs", pod.node, gpusPerNode)
		}
	}
	got.fromStart = float64(got.bound) / seen.last.Sub(started).Seconds()
	got.fromFirst = float64(got.bound) / seen.last.Sub(seen.first).Seconds()
	return got, nil
}
