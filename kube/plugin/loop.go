package plugin

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// batchDelay is how long the loop collects events before it decides. Pods that are created together are then placed
// together, which is cheaper and packs better.
const batchDelay = 5 * time.Millisecond

// A loop runs the planner's cycles while this process leads.
type loop struct {
	plugin *Plugin
	signal chan struct{}
	leads  chan struct{} // closed when this process leads
}

func newLoop(p *Plugin) *loop {
	return &loop{plugin: p, signal: make(chan struct{}, 1), leads: make(chan struct{})}
}

// wake asks for a cycle. It never blocks.
func (l *loop) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// absorbEvery is how often a replica that does not lead brings its state up to date.
const absorbEvery = time.Second

// standBy keeps the planner's state up to date until this process leads.
func (l *loop) standBy(ctx context.Context) {
	tick := time.NewTicker(absorbEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.leads:
			return
		case now := <-tick.C:
			if l.plugin.ready() {
				l.plugin.feed.claiming.Lock()
				l.plugin.planner.Absorb(now)
				l.plugin.feed.claiming.Unlock()
			}
		}
	}
}

func (l *loop) run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("ares")
	if !awaitSync(ctx, 0, l.plugin.ready) {
		return
	}
	l.plugin.claims.releaseStale(ctx)
	go l.releaseStale(ctx)
	go l.plugin.report(ctx)
	go l.plugin.saveLearned(ctx)
	l.wake()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.signal:
			timer.Reset(batchDelay)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		case <-timer.C:
		}
		timer.Reset(l.cycle(ctx, logger))
	}
}

// releaseEvery is how often claims are looked for that should not be allocated any more. There are none unless a request
// to the API server failed.
const releaseEvery = 2 * time.Second

func (l *loop) releaseStale(ctx context.Context) {
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.plugin.claims.releaseStale(ctx)
		}
	}
}

// ready reports whether the planner knows everything that existed when this process started.
func (p *Plugin) ready() bool {
	return p.feed.synced() && p.configured() && p.learnedRead.Load()
}

// awaitSync waits until a condition holds, at most for the given time, or without a limit if it is 0. It reports whether
// the condition holds.
func awaitSync(ctx context.Context, limit time.Duration, holds func() bool) bool {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// idle is the time between two cycles if nothing happens.
const idle = time.Minute

// cycle runs one cycle and returns the time until the next one is due.
func (l *loop) cycle(ctx context.Context, logger klog.Logger) time.Duration {
	p := l.plugin
	begin := time.Now()
	p.feed.claiming.Lock() // no decision while devices pass from a pod to a claim, or back
	d, err := p.planner.Cycle(begin)
	p.feed.claiming.Unlock()
	if err != nil {
		logger.Error(err, "The planner cannot decide; it tries again in a second")
		return time.Second
	}
	if d.Placed > 0 || len(d.Evictions) > 0 {
		logger.Info("Decided", "units", d.Placed, "pods", len(d.Planned), "evictions", len(d.Evictions), "took", time.Since(begin))
	}
	for _, c := range d.Corrected {
		logger.Info("The kubelet chose other devices than planned", "pod", c.Pod.String(), "node", c.Node, "planned", c.Planned, "real", c.Real, "devices", c.Devices)
	}
	took := time.Since(begin)
	p.metrics.ObserveDecision(took)
	p.metrics.ObservePlan(&d.Plan, nil, took)
	p.reject(d.Withdrawn)
	p.activate(logger, d.Planned)
	for _, e := range d.Evictions {
		go p.evict(ctx, e)
	}
	if d.Again {
		l.wake()
	}
	if !d.Wake.IsZero() {
		return min(max(d.Wake.Sub(begin), batchDelay), idle)
	}
	return idle
}
