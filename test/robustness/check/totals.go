package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// Totals say how much a run did and how much of it was judged: a promise that
// held because nothing happened is no proof.
type Totals struct {
	Accepted  int                // jobs that a client was told are accepted
	Forgotten int                // of these, what a restore of an older backup may forget
	Jobs      int                // in the store at the end
	Ended     int                // of these, final or archived
	Complete  bool               // the run came to its end, so that what has not ended is lost
	Phases    map[ares.Phase]int // at the end; "" for archived ones whose end is not recorded
	Attempts  int
	Calls     map[trace.Op]map[trace.Outcome]int
	Revisions int // of the store, that are recorded
	Gaps      int // times the recorder missed some
	Witnesses int // lines that processes wrote
	Faults    map[string]int
	Laws      int // revisions at which the engine was asked for its laws

	Linearized    int // jobs whose calls were put into an order
	Undecided     int // jobs for which that took too long
	GetsCompared  int // with what the store held at their revision
	GetsUnseen    int // of revisions that are not recorded
	ListsCompared int
	ListsUnseen   int // of revisions that are not recorded, or not whole
}

// count counts what needs no judging.
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

// tellAtMost bounds how many violations of one oracle are printed.
const tellAtMost = 40

// Print writes the report for people.
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

// tally is ": 3 this, 4 that", in a stable order.
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
