package enginetest

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// CheckState returns an error if the state breaks a law, which is an invariant of the scheduler.
func CheckState(s *engine.State) error { return s.Check() }

// CheckPlan checks a plan that was made from this state, and returns an error for the first law that the plan
// breaks.
func CheckPlan(s *engine.State, p ares.Plan) error {
	if broken := laws.Check(s, &p); len(broken) > 0 {
		return broken[0]
	}
	return nil
}
