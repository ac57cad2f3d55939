package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Limits on one plan, so that a commit stays small and a decision short.
const (
	// MaxPlacings is the most jobs one plan places, and the most delays it
	// ends. A plan that was cut there has Wake = now: decide again.
	MaxPlacings = 500
	// MaxRefusals is the most shapes one plan names as refused. Beyond it
	// shapes are refused without being named; Explain answers for each.
	MaxRefusals = 500
)

// Decide runs one cycle: which delays are over, and which waiting jobs are
// placed where. The plan touches each run at most once, so a job whose delay
// is over is placed by a later plan, when its run is pending. The state is as
// before afterwards; it changes when the committed plan comes back by Apply.
func Decide(s *State, now time.Time) ares.Plan {
	plan := ares.Plan{Revision: s.revision, Now: now}
	t := s.begin()
	defer t.backTo(mark{})

	// 1. Settle: arrays that are over, delays that are over, and the next one
	// that will be.
	s.settle(&plan, now)
	s.finish(&plan)

	// 2. Order: the queue is kept in it.
	for _, e := range s.pending {
		sh := e.shape
		if t.isRefused(sh) || s.doomed(e) {
			continue
		}
		if len(plan.Place) == MaxPlacings {
			plan.Wake = now
			break
		}

		// 3. Admit: requirements, dependencies, the tenant's limits.
		admitted, fitted := s.admits(sh), 0
		if admitted {
			// 4. Place: the whole gang or nothing.
			if e.isArray() {
				var all bool
				if all, fitted = t.grow(e, &plan); all {
					continue
				}
				admitted = s.admits(sh)
			} else if seats, n := t.place(sh); seats != nil {
				t.spend(sh, len(seats))
				plan.Place = append(plan.Place, ares.Placing{Job: e.id, Seats: seats, Score: s.score(seats)})
				continue
			} else {
				fitted = n
			}
		}

		// 5. Refuse, once for each shape.
		t.refuse(sh)
		if len(plan.Refuse) < MaxRefusals {
			plan.Refuse = append(plan.Refuse, ares.Refusal{Job: e.id, Blockers: s.short(sh, admitted, fitted)})
		}
	}
	return plan
}

// short is a refusal without a look at the nodes one by one: what forbids the
// job, or how many of its members had found a place. Explain says the rest.
func (s *State) short(sh *shape, admitted bool, fitted int) []ares.Blocker {
	if !admitted {
		return s.admit(sh)
	}
	return []ares.Blocker{fewFit(sh, fitted)}
}

// settle readies the jobs whose delay is over, once none of their seats can
// still hold a live process, and notes when the next delay ends.
func (s *State) settle(plan *ares.Plan, now time.Time) {
	for _, e := range s.delayed {
		if now.Before(e.due) {
			plan.Wake = e.due
			return
		}
		if !e.settled() || s.doomed(e) {
			continue // an event will say when
		}
		if len(plan.Ready) == MaxPlacings {
			plan.Wake = now
			return
		}
		plan.Ready = append(plan.Ready, e.id)
	}
}
