package check_test

import (
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

func TestNothingLost(t *testing.T) {
	t.Parallel()
	plant(t, []planted{
		{"never ended", check.NothingLost, "it never ended: it is running", func(r *trace.Run) {
			for _, run := range runs(r, "plain")[2:] {
				run.Phase = ares.Running
			}
			r.Store = slices.DeleteFunc(r.Store, func(e trace.Entry) bool {
				return len(e.Batch.Events) > 0 && e.Batch.Events[0].Gone.Kind == ares.KindJob
			})
		}},
		{"never ended, and nobody knew it was accepted", check.NothingLost, "it never ended: it is pending", func(r *trace.Run) {
			runs(r, "lost")[6].Phase = ares.Pending
		}},
		{"accepted and not there", check.NothingLost, "accepted and is not in the store", func(r *trace.Run) {
			r.Calls = append(r.Calls, trace.Call{Op: trace.Submit, Outcome: trace.OK, Job: "ghost", Body: "x", Start: r.Meta.Start, End: r.Meta.End})
		}},
	})
	t.Run("vanished in a gap", func(t *testing.T) {
		t.Parallel()
		m := good(t)
		m.rev += 10
		m.order = slices.DeleteFunc(m.order, func(id string) bool { return id == "gang" })
		m.snapshot()
		found(t, m.finish(), check.NothingLost, "gone without a trace")
	})
	t.Run("a run that broke off", func(t *testing.T) {
		t.Parallel()
		m := good(t)
		m.submit("young", 1)
		r := m.finish()
		found(t, r, check.NothingLost, "it never ended: it is pending")
		r.Meta.Healed = 0
		if got := check.Run(r); len(got.Violations) != 0 || got.Totals.Complete {
			t.Errorf("the run did not come to its end: got %v", got.Violations)
		}
	})
	t.Run("an unknown submission that did nothing", func(t *testing.T) {
		t.Parallel()
		m := good(t)
		m.call(trace.Call{Op: trace.Submit, Job: "never", Body: "x", Outcome: trace.Unknown}, nil)
		m.notFound(trace.Get, "never")
		if got := check.Run(m.finish()); len(got.Violations) != 0 {
			t.Errorf("got %v", got.Violations)
		}
	})
}

// TestGap checks a record with a gap. Changes during the gap must not be
// reported as violations, but the state after the gap must be checked.
func TestGap(t *testing.T) {
	t.Parallel()
	m := good(t)
	m.submit("hidden", 1)
	recorded := len(m.r.Store)
	m.place("hidden", "n1/0")
	m.start("hidden")
	m.get("hidden")
	m.end("hidden", ares.OutcomeSucceeded)
	m.r.Store = m.r.Store[:recorded]
	m.snapshot()
	m.get("hidden")
	m.list()
	got := check.Run(copied(t, m.finish()))
	if len(got.Violations) != 0 {
		t.Errorf("got %v", got.Violations)
	}
	if n := got.Totals; n.Gaps != 1 || n.GetsUnseen != 1 || n.Ended != 5 {
		t.Errorf("miscounted: %+v", n)
	}
}
