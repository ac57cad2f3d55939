package planner

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// forecastsPerCycle limits how many predictions and scores one cycle passes to the engine.
const forecastsPerCycle = 10_000

// predict passes to the engine what was learned: the predicted runtimes of new units, and changed scores of nodes.
func (p *Planner) predict(now time.Time) {
	p.events = append(p.events, p.learner.Events(now, forecastsPerCycle)...)
}

// Learned returns what was learned about runtimes and nodes, for SetLearned of a later process.
func (p *Planner) Learned(now time.Time) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.learner.Export(now)
}

// SetLearned continues from what an earlier process has learned. It must be called before the first cycle.
func (p *Planner) SetLearned(data []byte, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.learner.Import(data, now)
}

// resultOf returns how a pod ended that leaves its unit. A pod that was deleted before it ended was lost with its node, or
// stopped by a person or a program.
func (p *Planner) resultOf(o *pod, now time.Time) *ares.RankResult {
	r := ares.RankResult{Outcome: ares.OutcomeStopped, StartedAt: o.Started}
	switch n := p.nodes[o.Node]; {
	case o.Result != nil:
		r = *o.Result
	case n == nil || !n.online:
		r.Outcome = ares.OutcomeLost
	}
	if r.EndedAt.IsZero() {
		r.EndedAt = now
	}
	return &r
}

// end tells the engine and the learner how a unit ended, after its last pod is gone. The engine itself needs only the
// devices that became free before.
func (p *Planner) end(u *unit) {
	p.changeRun(u, func(r *ares.Run) {
		a := r.Last()
		a.Outcome = outcomeOf(a.Seats)
		for i := range a.Seats {
			result := a.Seats[i].Result
			if result == nil {
				continue // its pod went to another unit
			}
			if began := result.StartedAt; !began.IsZero() && (a.StartedAt.IsZero() || began.Before(a.StartedAt)) {
				a.StartedAt = began
			}
			if result.EndedAt.After(a.EndedAt) {
				a.EndedAt = result.EndedAt
			}
		}
		r.Stop, r.FinishedAt = nil, a.EndedAt
		switch a.Outcome {
		case ares.OutcomeSucceeded:
			r.Phase = ares.Succeeded
		case ares.OutcomeFailed, ares.OutcomeTimeout:
			r.Phase = ares.Failed
		default:
			r.Phase = ares.Cancelled
		}
	})
}

// outcomeOf returns the outcome of a unit: the worst of its pods.
func outcomeOf(seats []ares.SeatStatus) ares.Outcome {
	order := []ares.Outcome{ares.OutcomeSucceeded, ares.OutcomeStopped, ares.OutcomeTimeout, ares.OutcomeFailed, ares.OutcomeLost}
	worst := 0
	for i := range seats {
		if seats[i].Result != nil {
			worst = max(worst, slices.Index(order, seats[i].Result.Outcome))
		}
	}
	return order[worst]
}
