package cluster

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestFilterTable: every reason has its row at its own index, with a kind, a text
// unless somebody else tells it, and a test of nodes or of devices where it is static.
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
		if f.Static && f.Rejects == nil && f.PassesDevice == nil {
			t.Errorf("reason %d is static and tests nothing", i)
		}
		if f.Text == nil && f.Reason != ReasonReserved || f.Text != nil && f.Text(&Details{Request: w}) == "" {
			t.Errorf("reason %d says nothing", i)
		}
	}
}
