package check_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// This function returns a record with an array job. The array has two
// elements with the given outcomes.
func array(t *testing.T, outcomes ...ares.Outcome) *made {
	t.Helper()
	m := good(t)
	m.call(trace.Call{Op: trace.Submit, Job: "sweep", Body: "x"}, func(*trace.Call) {
		m.jobs["sweep"] = &ares.Job{ID: "sweep", AcceptedAt: m.wall(), Revision: m.rev + 1, Spec: ares.Spec{Tenant: "t", GPUs: 1, Array: ares.Array{Count: 2}}.WithDefaults()}
		m.runs["sweep"] = new(ares.NewRun(m.wall()))
		m.order = append(m.order, "sweep")
		m.commit(ares.Event{Job: m.jobs["sweep"]})
	})
	for i, outcome := range outcomes {
		e := m.jobs["sweep"].Element(i)
		id := string(e.ID)
		e.Revision = m.rev + 1
		m.jobs[id], m.runs[id] = e, new(ares.NewRun(m.wall()))
		m.commit(ares.Event{Job: e})
		m.move("sweep", func(r *ares.Run) error { return r.Advance(&ares.ArrayStep{Next: i + 1}, m.wall()) })
		m.place(id, "n1/0")
		m.start(id)
		m.list()
		if outcome != "" {
			m.end(id, outcome)
		}
	}
	return m
}

func (m *made) close(t *testing.T, p ares.Phase) *trace.Run {
	m.move("sweep", func(r *ares.Run) error { return r.Advance(&ares.ArrayStep{Next: r.Next, Phase: p}, m.wall()) })
	return copied(t, m.finish())
}

func TestArrays(t *testing.T) {
	t.Parallel()
	well := ares.OutcomeSucceeded
	r := array(t, well, well).close(t, ares.Succeeded)
	if got := check.Run(r); len(got.Violations) != 0 {
		t.Errorf("nothing is wrong, but: %v", got.Violations)
	}
	found(t, array(t, well, "").close(t, ares.Cancelled), check.OneCommit, "its element 1 has not ended")
	found(t, array(t, well).close(t, ares.Succeeded), check.OneCommit, "1 of its 2 elements have succeeded")
	found(t, array(t, well, well).close(t, ares.Failed), check.OneCommit, "2 of its 2 elements have succeeded")
	// An array element must not be in the list of all jobs.
	r = array(t, well, well).close(t, ares.Succeeded)
	lists := calls(r, trace.List, "")
	last := lists[len(lists)-1]
	last.Listed = append(last.Listed, trace.Listed{Job: string(ares.ElementID("sweep", 1)), Phase: ares.Running, Revision: last.Revision})
	found(t, r, check.ListsAreTrue, "does not belong there")
}
