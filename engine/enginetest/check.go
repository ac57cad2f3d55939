package enginetest

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// CheckState returns the law that a state breaks, nil for none.
func CheckState(s *engine.State) error { return s.Check() }

// CheckPlan returns the first law that a plan made from this state breaks, nil
// for none.
func CheckPlan(s *engine.State, p ares.Plan) error {
	if broken := laws.Check(s, &p); len(broken) > 0 {
		return broken[0]
	}
	return nil
}
