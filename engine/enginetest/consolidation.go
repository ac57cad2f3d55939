package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// doConsolidate prints the migrations that are worthwhile now, with their gain and cost.
func doConsolidate(w *Cluster, _ *arguments) (string, error) {
	var b strings.Builder
	for _, c := range engine.Consolidate(w.State, w.Now) {
		known := "assumed"
		if c.Foreseen {
			known = "foreseen"
		}
		fmt.Fprintf(&b, "%s on %s starts %s sooner (%s): gains %d GPU-seconds, costs %d\n",
			w.displayName(c.For), formatSeats(c.Seats), c.Wait.Round(time.Second), known, c.Gain/1000, c.Lost/1000)
		for _, m := range c.Moves {
			fmt.Fprintf(&b, "  %s from %s to %s, loses %d GPU-seconds\n", w.displayName(m.Job), formatSeats(m.From), formatSeats(m.To), m.Lost/1000)
		}
	}
	if b.Len() == 0 {
		return "nothing is worth moving\n", nil
	}
	return b.String(), nil
}

// CheckMoves checks that a consolidation succeeds. Once the migrated jobs have stopped, the cycle must start them
// again together with the waiting job that needed the capacity. CheckMoves applies the plan to a copy of the
// cluster, in which nothing else happens. The plan must not be committed yet.
func (w *Cluster) CheckMoves(plan ares.Plan) error {
	var all []ares.JobID
	for i := range plan.Nominate {
		n := &plan.Nominate[i]
		if n.Nomination.Why != ares.PreemptByMove {
			continue
		}
		all = append(all, n.Job)
		for k := range n.Nomination.Victims {
			all = append(all, n.Nomination.Victims[k].Job)
		}
	}
	if len(all) == 0 {
		return nil
	}
	f := w.Fork()
	if err := f.applyUntil(plan, len(plan.Nominate), ""); err != nil {
		return err
	}
	if _, err := f.DecideUntilStable(); err != nil {
		return err
	}
	for _, id := range slices.Compact(all) {
		if run, _ := f.State.Run(id); run.Current() == nil {
			return fmt.Errorf("%s is %s after a move, by which all should run", id, run.Phase)
		}
	}
	return nil
}
