package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Totals counts what happened in a run, and how much of it was checked. The
// counts are needed because a run in which nothing happened proves nothing.
type Totals struct {
	Accepted  int                // jobs that a client was told are accepted
	Forgotten int                // of these, jobs that a restore may have forgotten
	Jobs      int                // in the store at the end
	Ended     int                // of these, final or archived
	Complete  bool               // the run reached its end, so jobs that have not ended are lost
	Phases    map[ares.Phase]int // at the end; "" for archived jobs whose end is not recorded
	Attempts  int
	Calls     map[trace.Op]map[trace.Outcome]int
	Revisions int // recorded revisions of the store
	Gaps      int // how often the recorder missed revisions
	Witnesses int // lines that processes wrote
	Faults    map[string]int
	Laws      int // revisions at which the engine's laws were checked

	Linearized    int // jobs whose calls were ordered
	Undecided     int // jobs for which ordering took too long
	GetsCompared  int // gets compared with the store at their revision
	GetsUnseen    int // gets at revisions that are not recorded
	ListsCompared int
	ListsUnseen   int // lists at revisions that are not recorded, or incomplete lists
}

// This function computes the totals that do not depend on the result of a check.
func count(r *trace.Run) Totals {
	t := Totals{Complete: r.Meta.Healed > 0, Revisions: len(r.Store), Calls: map[trace.Op]map[trace.Outcome]int{}, Faults: map[string]int{}}
	for _, c := range r.Calls {
		if t.Calls[c.Op] == nil {
			t.Calls[c.Op] = map[trace.Outcome]int{}
		}
		t.Calls[c.Op][c.Outcome]++
	}
	for _, f := range r.Faults {
		t.Faults[f.Kind]++
	}
	for _, lines := range r.Witnesses {
		t.Witnesses += len(lines)
	}
	return t
}

// tellAtMost limits how many violations of one oracle are printed.
const tellAtMost = 40

// Print writes the report as text.
func (r Report) Print(w io.Writer) {
	t := r.Totals
	fmt.Fprintf(w, "jobs      %d accepted, %d in the store, %d ended%s; %d attempts\n", t.Accepted, t.Jobs, t.Ended, tally(t.Phases), t.Attempts)
	if t.Forgotten > 0 {
		fmt.Fprintf(w, "          %d accepted ones are younger than a backup that was restored\n", t.Forgotten)
	}
	if !t.Complete {
		fmt.Fprintln(w, "          the run did not come to its end: jobs that have not ended are not judged")
	}
	for _, op := range slices.Sorted(maps.Keys(t.Calls)) {
		fmt.Fprintf(w, "%-9s %d%s\n", op, sum(t.Calls[op]), tally(t.Calls[op]))
	}
	fmt.Fprintf(w, "store     %d revisions, %d gaps; the engine's laws asked at %d\n", t.Revisions, t.Gaps, t.Laws)
	fmt.Fprintf(w, "judged    %d jobs put in order (%d undecided), %d gets (%d more unseen), %d lists (%d more unseen), %d lines of witnesses\n",
		t.Linearized, t.Undecided, t.GetsCompared, t.GetsUnseen, t.ListsCompared, t.ListsUnseen, t.Witnesses)
	fmt.Fprintf(w, "faults    %d%s\n", sum(t.Faults), tally(t.Faults))
	r.tell(w, "excused", r.Excused)
	r.tell(w, "VIOLATION", r.Violations)
	fmt.Fprintf(w, "%d violations, %d excused overlaps\n", len(r.Violations), len(r.Excused))
}

func (r Report) tell(w io.Writer, head string, found []Violation) {
	told := map[Oracle]int{}
	for _, v := range found {
		if told[v.Oracle]++; told[v.Oracle] <= tellAtMost {
			v.At -= r.start
			fmt.Fprintf(w, "%s %s\n", head, v)
		}
	}
	for _, o := range slices.Sorted(maps.Keys(told)) {
		if more := told[o] - tellAtMost; more > 0 {
			fmt.Fprintf(w, "%s %s: %d more\n", head, o, more)
		}
	}
}

func sum[K comparable](m map[K]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

// `tally` formats counts in a stable order, for example as ": 3 this, 4
// that".
func tally[K ~string](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		name := string(k)
		if name == "" {
			name = "archived"
		}
		parts = append(parts, fmt.Sprintf("%d %s", m[k], name))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
