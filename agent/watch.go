package agent

import (
	"fmt"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

// Step is a step of one rank on this node, from the order to the commit of its result.
type Step string

// These are the steps, in order.
const (
	StepRegistered Step = "registered" // the node has a session; it is not about a rank
	StepFound      Step = "found"      // a server assigned the rank to this node
	StepClaimed    Step = "claimed"    // the servers confirmed the claim with its fencing token
	StepRunning    Step = "running"    // its process has started
	StepProgress   Step = "progress"   // the servers accepted a report of its progress
	StepEnded      Step = "ended"      // its processes have ended
	StepCommitted  Step = "committed"  // the servers accepted the result with this fencing token
	StepRejected   Step = "rejected"   // the servers rejected the result; Text says why
	StepDropped    Step = "dropped"    // steps were left out here, because the watching function was too slow; not about a rank
)

// Change is a step for those who watch the agent.
type Change struct {
	Step    Step
	Job     string
	Rank    int
	Fence   int64
	Attempt int    // number of the attempt; 0 if the rank was found again after a restart
	Of      int    // number of attempts that the job may have; 0 if unknown
	Ranks   int    // number of ranks of the job; 0 if unknown
	Text    string // the progress, the outcome or the reason
	OK      bool   // for StepEnded: the command succeeded
	Dropped int    // for StepDropped: how many steps were left out
}

const (
	watchQueue = 256         // steps that wait for the watching function
	watchEnd   = time.Second // how long an agent that stops waits for the watching function
)

// watcher tells the configured function about steps. The function may be stuck, such as on an output that nobody reads. So
// it has a goroutine of its own, and steps that do not fit into the queue are dropped and counted: claims, starts, results
// and renewals never wait for it. The watcher is nil if there is no such function.
type watcher struct {
	report func(Change)
	queue  chan Change
	ended  chan struct{} // closed when the goroutine ends

	mu      sync.Mutex
	dropped int // steps since the last one that was queued
}

func newWatcher(report func(Change)) *watcher {
	if report == nil {
		return nil
	}
	return &watcher{report: report, queue: make(chan Change, watchQueue), ended: make(chan struct{})}
}

// The method `tell` queues a step. It never blocks.
func (w *watcher) tell(c Change) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.Dropped = w.dropped // those before this step
	select {
	case w.queue <- c:
		w.dropped = 0
	default:
		w.dropped++
	}
}

// The method `start` starts the goroutine. It ends when `done` is closed and the queue is empty.
func (w *watcher) start(done <-chan struct{}) {
	if w == nil {
		return
	}
	go func() {
		defer close(w.ended)
		for {
			select {
			case c := <-w.queue:
				w.pass(c)
				continue
			default:
			}
			w.passDropped(w.takeDropped())
			select {
			case c := <-w.queue:
				w.pass(c)
			case <-done:
				if len(w.queue) == 0 {
					return
				}
			}
		}
	}()
}

func (w *watcher) pass(c Change) {
	w.passDropped(c.Dropped)
	c.Dropped = 0
	w.report(c)
}

func (w *watcher) passDropped(n int) {
	if n > 0 {
		w.report(Change{Step: StepDropped, Dropped: n})
	}
}

// takeDropped returns the number of steps that were dropped after the last queued one, if the queue is empty.
func (w *watcher) takeDropped() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		return 0 // the next step in the queue has the number, or a later one will
	}
	n := w.dropped
	w.dropped = 0
	return n
}

// The method `wait` waits until the goroutine has ended, but not for a function that is stuck.
func (w *watcher) wait() {
	if w == nil {
		return
	}
	select {
	case <-w.ended:
	case <-time.After(watchEnd):
	}
}

// The method `watch` tells the configured function about a step of the seat.
func (s *seat) watch(step Step, ok bool, text string) {
	if s.agent.watcher == nil {
		return
	}
	s.agent.mu.Lock()
	order := s.order
	s.agent.mu.Unlock()
	c := Change{Step: step, Job: s.key.Job, Rank: s.key.Rank, Fence: s.key.Fence, Text: text, OK: ok}
	if order != nil {
		c.Attempt, c.Ranks = int(order.GetAttempt()), int(order.GetWorldSize())
		if spec := order.GetSpec(); spec != nil {
			c.Of = ares.DefaultMaxRetries + 1
			if retry := spec.GetRetry(); retry != nil && retry.MaxRetries != nil {
				c.Of = int(retry.GetMaxRetries()) + 1
			}
		}
	}
	s.agent.watcher.tell(c)
}

// outcomeText describes the end of a process for those who watch.
func outcomeText(r run.Result) string {
	if r.Reason != "" {
		return r.Reason
	}
	if r.Outcome == run.Exited {
		return resultOf(r).GetReason()
	}
	return fmt.Sprint(r.Outcome)
}
