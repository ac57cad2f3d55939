package agent

import (
	"fmt"

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
}

// The method `watch` tells the configured function about a step of the seat.
func (s *seat) watch(step Step, ok bool, text string) {
	if s.agent.cfg.Watch == nil {
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
	s.agent.cfg.Watch(c)
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
