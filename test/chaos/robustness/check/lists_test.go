package check_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func TestLists(t *testing.T) {
	t.Parallel()
	list := func(r *trace.Run, n int) *trace.Call { return calls(r, trace.List, "")[n] }
	plant(t, []planted{
		{"a wrong phase", check.ListsAreTrue, "it is listed as pending of revision", func(r *trace.Run) { list(r, 0).Listed[0].Phase = ares.Pending }},
		{"an old revision of a job", check.ListsAreTrue, "it is listed as running of revision", func(r *trace.Run) { list(r, 0).Listed[0].Revision-- }},
		{"a job that is not there", check.ListsAreTrue, "is not in the store", func(r *trace.Run) { list(r, 0).Listed[0].Job = "nobody" }},
		{"an archived job", check.ListsAreTrue, "is not in the store", func(r *trace.Run) {
			list(r, 1).Listed = append(list(r, 1).Listed, trace.Listed{Job: "plain", Phase: ares.Succeeded})
		}},
		{"a job left out", check.ListsAreTrue, "and is missing", func(r *trace.Run) { list(r, 0).Listed = list(r, 0).Listed[:1] }},
		{"a job twice", check.ListsAreTrue, "it is there twice", func(r *trace.Run) { list(r, 0).Listed[1] = list(r, 0).Listed[0] }},
		{"the content of another revision", check.ListsAreTrue, "a list of s1 at revision", func(r *trace.Run) { list(r, 0).Revision-- }},
		{"older than asked for", check.ListsAreTrue, "was the least asked for", func(r *trace.Run) { list(r, 1).MinRevision = list(r, 1).Revision + 1 }},
		{"a server that leads back", check.ListsAreTrue, "after one of revision", func(r *trace.Run) {
			a, b := list(r, 0), list(r, 1)
			a.Start, a.End, b.Start, b.End = b.Start, b.End, a.Start, a.End
		}},
	})
	t.Run("another server may be behind", func(t *testing.T) {
		t.Parallel()
		r := copied(t, good(t).finish())
		a, b := list(r, 0), list(r, 1)
		a.Start, a.End, a.Server = b.End+1, b.End+2, "s2"
		if got := check.Run(r); len(got.Violations) != 0 {
			t.Errorf("got %v", got.Violations)
		}
	})
	t.Run("overlapping calls have no order", func(t *testing.T) {
		t.Parallel()
		r := copied(t, good(t).finish())
		a, b := list(r, 0), list(r, 1)
		a.Start, a.End = b.Start, b.End+2
		if got := check.Run(r); len(got.Violations) != 0 {
			t.Errorf("got %v", got.Violations)
		}
	})
	t.Run("not whole, or of a revision nobody recorded", func(t *testing.T) {
		t.Parallel()
		r := copied(t, good(t).finish())
		list(r, 0).Listed = nil
		list(r, 1).Revision += 100
		if got := check.Run(r); len(got.Violations) != 0 || got.Totals.ListsCompared != 0 || got.Totals.ListsUnseen != 2 {
			t.Errorf("got %v and %+v", got.Violations, got.Totals)
		}
	})
	t.Run("between two revisions that are recorded", func(t *testing.T) {
		t.Parallel()
		m := good(t)
		m.rev += 5 // revisions of other keys
		m.list()
		m.submit("next", 1)
		r := m.finish()
		r.Meta.Healed = 0
		if got := check.Run(r); len(got.Violations) != 0 || got.Totals.ListsCompared != 3 {
			t.Errorf("got %v and %+v", got.Violations, got.Totals)
		}
	})
}
