package plugin

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// The framework records an event for every pod that it binds. Written at once, these events take as much of the API
// server as the bindings themselves. So they wait until no binding is being written.
const (
	eventsPerSecond = 100
	// eventsKept limits the events that wait. The oldest ones are dropped, because an event is only a help for people: the
	// pod itself says where it runs and why it waits.
	eventsKept = 20_000
)

// eventQueue holds events back while bindings are written.
type eventQueue struct {
	waiting chan func()
	busy    func() bool // reports whether bindings are being written
}

func newEventQueue(busy func() bool) *eventQueue {
	return &eventQueue{waiting: make(chan func(), eventsKept), busy: busy}
}

// run writes the events that wait, until the context ends.
func (q *eventQueue) run(ctx context.Context) {
	tick := time.NewTicker(time.Second / eventsPerSecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if q.busy() {
			continue
		}
		select {
		case write := <-q.waiting:
			write()
		default:
		}
	}
}

// add lets an event wait.
func (q *eventQueue) add(write func()) {
	for {
		select {
		case q.waiting <- write:
			return
		default:
		}
		select {
		case <-q.waiting: // drops the oldest one
		default:
		}
	}
}

// recorder returns a recorder whose events wait in the queue.
func (q *eventQueue) recorder(to events.EventRecorderLogger) events.EventRecorderLogger {
	return &queuedRecorder{queue: q, to: to}
}

type queuedRecorder struct {
	queue *eventQueue
	to    events.EventRecorderLogger
}

// Eventf lets an event wait.
func (r *queuedRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.queue.add(func() { r.to.Eventf(regarding, related, kind, reason, action, note, args...) })
}

// WithLogger returns the same recorder with another logger.
func (r *queuedRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return &queuedRecorder{queue: r.queue, to: r.to.WithLogger(logger)}
}
