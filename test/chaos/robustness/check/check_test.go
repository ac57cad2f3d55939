package check_test

import (
	"bytes"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

func TestGood(t *testing.T) {
	t.Parallel()
	r := copied(t, good(t).finish())
	got := check.Run(r)
	for _, v := range append(got.Violations, got.Excused...) {
		t.Error(v)
	}
	n := got.Totals
	if n.Accepted != 3 || n.Jobs != 4 || n.Ended != 4 || n.Attempts != 5 || n.Phases[ares.Succeeded] != 3 || n.Phases[ares.Cancelled] != 1 {
		t.Errorf("the jobs are miscounted: %+v", n)
	}
	if n.Linearized != 4 || n.Undecided != 0 || n.GetsCompared != 7 || n.GetsUnseen != 0 || n.ListsCompared != 2 || n.ListsUnseen != 0 || n.Laws == 0 {
		t.Errorf("not everything was judged: %+v", n)
	}
	if n.Calls[trace.Get][trace.Refused] != 1 || n.Faults["node-kill"] != 1 || n.Gaps != 0 || !n.Complete {
		t.Errorf("miscounted: %+v", n)
	}
	var out bytes.Buffer
	got.Print(&out)
	if !strings.Contains(out.String(), "0 violations, 0 excused") {
		t.Errorf("printed:\n%s", &out)
	}
}

// This function checks that the tampered record violates the oracle. The
// violation's text must contain the given words.
func found(t *testing.T, r *trace.Run, oracle check.Oracle, words string) {
	t.Helper()
	got := check.Run(copied(t, r))
	for _, v := range got.Violations {
		if v.Oracle == oracle && strings.Contains(v.Text, words) {
			return
		}
	}
	t.Errorf("no violation of %s with %q; found %v", oracle, words, got.Violations)
}

// The type `planted` holds one error that a test plants in a good record. It
// also holds the violation that must be reported for this error.
type planted struct {
	name   string
	oracle check.Oracle
	words  string
	plant  func(r *trace.Run)
}

func plant(t *testing.T, cases []planted) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := copied(t, good(t).finish())
			c.plant(r)
			found(t, r, c.oracle, c.words)
		})
	}
}
