package store

import (
	"fmt"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

func TestATenantHasSoManyQueues(t *testing.T) {
	f := &queueTree{tenant: "t", queues: map[string]*ares.Queue{}}
	for i := range ares.MaxQueues {
		name := fmt.Sprintf("q%d", i)
		if err := f.admits(&ares.Queue{Tenant: "t", Name: name}); err != nil {
			t.Fatalf("queue %d: %v", i, err)
		}
		f.queues[name] = &ares.Queue{Tenant: "t", Name: name, Revision: 5}
	}
	err := f.admits(&ares.Queue{Tenant: "t", Name: "more"})
	if ares.CodeOf(err) != ares.LimitReached || !strings.Contains(err.Error(), "1000 queues") {
		t.Errorf("got %v", err)
	}
	if err := f.admits(&ares.Queue{Tenant: "t", Name: "q7", Revision: 5, Parent: "q8"}); err != nil {
		t.Errorf("those that are there may change: %v", err)
	}
}

// TestARingThatIsThereEndsTheSearch checks that the search through the hierarchy ends even if the
// stored queues form a cycle. Ares never creates a cycle, but a restore or a manual write may
// create one.
func TestARingThatIsThereEndsTheSearch(t *testing.T) {
	f := &queueTree{tenant: "t", queues: map[string]*ares.Queue{
		"a": {Tenant: "t", Name: "a", Parent: "b", Revision: 5}, "b": {Tenant: "t", Name: "b", Parent: "a", Revision: 5},
	}}
	if err := f.admits(&ares.Queue{Tenant: "t", Name: "c", Parent: "a"}); ares.CodeOf(err) != ares.Invalid {
		t.Errorf("got %v", err)
	}
	if err := f.admits(&ares.Queue{Tenant: "t", Name: "a", Revision: 5}); err != nil {
		t.Errorf("the ring cannot be opened: %v", err)
	}
}
