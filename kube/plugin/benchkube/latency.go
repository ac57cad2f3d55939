package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// latency creates pods at a steady rate for a scheduler that already runs, and returns how long each took from the request
// that creates it until its binding was seen.
func (s settings) latency(ctx context.Context, side side) ([]time.Duration, error) {
	count := s.ratePods
	if room := s.nodes * gpusPerNode / 2; count*sum(mix)/len(mix) > room {
		count = room * len(mix) / sum(mix)
	}
	progress("latency of %s: %d pods at %d/s on %d nodes", side.name, count, s.rate, s.nodes)
	c, stop, err := cluster(ctx, s.nodes, kubetest.Options{NodeLease: longLease})
	if err != nil {
		return nil, err
	}
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := watch(ctx, c)
	if err != nil {
		return nil, err
	}
	process, err := side.start(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel = process.While(ctx)
	defer cancel()
	if err := warmUp(ctx, c, seen, process, side.scheduler); err != nil {
		return nil, err
	}
	if err := s.awaitIdle(ctx, c); err != nil {
		return nil, err
	}
	sent, err := s.arrive(ctx, c, side.scheduler, count)
	if err != nil {
		return nil, err
	}
	if err := awaitCount(ctx, seen, process, count+1); err != nil {
		return nil, err
	}
	var all []time.Duration
	for _, pod := range seen.records() {
		if at, ok := sent[pod.name]; ok {
			all = append(all, pod.bound.Sub(at))
		}
	}
	return all, nil
}

// latencies measures the schedulers, upstream's as a control: where both are slow, the machine is.
func (s settings) latencies(ctx context.Context) (map[string][]time.Duration, error) {
	all := map[string][]time.Duration{}
	for _, name := range latencySides {
		side, err := s.sideOf(name)
		if err != nil {
			return nil, err
		}
		if all[name], err = s.latency(ctx, side); err != nil {
			return nil, fmt.Errorf("latency of %s: %w", name, err)
		}
	}
	return all, nil
}

// latencySides are the sides that take pods as they arrive.
var latencySides = []string{"kube-scheduler", "ares"}

// warmUp waits until the scheduler binds a first pod, so that its start is not measured.
func warmUp(ctx context.Context, c *kubetest.Cluster, seen *recorder, process *kubetest.Process, scheduler string) error {
	first := kubetest.Pod("first", scheduler, 1)
	if _, err := c.Client.CoreV1().Pods(first.Namespace).Create(ctx, first, metav1.CreateOptions{}); err != nil {
		return err
	}
	return awaitCount(ctx, seen, process, 1)
}

// arrive creates the pods, each at its time even if the requests before it are slow, and returns when each was sent.
func (s settings) arrive(ctx context.Context, c *kubetest.Cluster, scheduler string, count int) (map[string]time.Time, error) {
	sent := map[string]time.Time{}
	errs := make(chan error, count)
	var group sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(s.rate))
	defer tick.Stop()
	for i := range count {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		pod := kubetest.Pod(fmt.Sprintf("pod-%05d", i), scheduler, mix[i%len(mix)])
		sent[pod.Name] = time.Now()
		group.Go(func() {
			_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			errs <- err
		})
	}
	group.Wait()
	for range count {
		if err := <-errs; err != nil {
			return nil, err
		}
	}
	return sent, nil
}

// awaitCount waits until so many pods were bound since the watch began. It gives up when there was no binding for a while.
func awaitCount(ctx context.Context, seen *recorder, process *kubetest.Process, want int) error {
	const patience = time.Minute
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for {
		bound, last := seen.count()
		if bound >= want {
			return nil
		}
		if last.Before(begin) {
			last = begin
		}
		if time.Since(last) > patience {
			return fmt.Errorf("%d of %d pods are bound, and none more for %s; the end of %s:\n%s", bound, want, patience, process.Log, process.Tail())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; the end of %s:\n%s", context.Cause(ctx), process.Log, process.Tail())
		}
	}
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
