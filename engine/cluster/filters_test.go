package cluster

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestFilterTable checks that every reason has a row at its own index. Each row must have a kind. Each row must have
// a text, except the row for reservations, which have their own blockers. A row for a static filter must also have a
// test of nodes or of devices.
func TestFilterTable(t *testing.T) {
	t.Parallel()
	if len(Filters) != int(ReasonNone) {
		t.Fatalf("%d rows for %d reasons", len(Filters), ReasonNone)
	}
	w := RequestOf(&ares.Job{Spec: ares.Spec{GPUs: 1}})
	for i := range Filters {
		f := &Filters[i]
		if f.Reason != Reason(i) || f.Kind == "" {
			t.Errorf("row %d is of reason %d, kind %q", i, f.Reason, f.Kind)
		}
		if f.static && f.rejects == nil && f.passesDevice == nil {
			t.Errorf("reason %d is static and tests nothing", i)
		}
		if f.Text == nil && f.Reason != ReasonReserved || f.Text != nil && f.Text(&Details{Request: w}) == "" {
			t.Errorf("reason %d says nothing", i)
		}
	}
}
