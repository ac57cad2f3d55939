package enginetest

import (
	"fmt"
	"reflect"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// checkPlanChanges checks that engine.PlanChanges and ApplyPlan change the same runs for a plan, and that each run
// changes only once.
func (w *Cluster) checkPlanChanges(plan *ares.Plan, events []ares.Event) error {
	changes, err := engine.PlanChanges(w.State, plan, plan.Now)
	if err != nil {
		return fmt.Errorf("plan changes: %w", err)
	}
	got := map[ares.JobID]ares.Run{}
	add := func(id ares.JobID, run ares.Run, placed bool) error {
		if _, twice := got[id]; twice {
			return fmt.Errorf("plan changes: the run of %s is changed twice", id)
		}
		run.Revision = w.revision + 1
		if placed {
			run.Last().Fence = ares.Fence(w.revision + 1)
		}
		got[id] = run
		return nil
	}
	for i := range changes {
		c := &changes[i]
		if err := add(c.Job, c.Run, c.Kind == engine.ChangePlace); err != nil {
			return err
		}
		for _, e := range c.Elements {
			if err := add(e.Job.ID, e.Run, true); err != nil {
				return err
			}
		}
	}
	for i := range events {
		want := events[i].Run
		if want == nil {
			continue
		}
		if run, changed := got[want.Job]; !changed || !reflect.DeepEqual(run, want.Run) {
			return fmt.Errorf("plan changes: the run of %s is %+v, want %+v", want.Job, run, want.Run)
		}
		delete(got, want.Job)
	}
	for id := range got {
		return fmt.Errorf("plan changes: the run of %s is changed, and the plan does not say so", id)
	}
	return nil
}
