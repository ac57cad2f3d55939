package scheduler_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestLoopRunsAnArrayToItsEnd runs an array that has more elements than one decision creates. The array's limit of
// running elements is below the capacity of the node.
func TestLoopRunsAnArrayToItsEnd(t *testing.T) {
	s := storetest.Embedded(t)
	srv := controltest.NewServer(t, "server-1", s)
	open := make(chan struct{})
	close(open)
	for range 2 {
		controltest.Agent(t, s, srv.View, storetest.NewNode(t, s), open)
	}
	array := storetest.NewJob(t, s, storetest.Elements(90), func(sp *ares.Spec) { sp.GPUs, sp.Array.Parallelism = 0, 60 })
	controltest.Await(t, srv.View, "the array to succeed", func() bool { return controltest.PhaseOf(srv.View, array.ID) == ares.Succeeded })
	var elements []ares.JobID
	for i := range 90 {
		elements = append(elements, ares.ElementID(array.ID, i))
	}
	controltest.Await(t, srv.View, "its elements to be free", func() bool { return controltest.AllSucceeded(srv.View, elements) })
	controltest.CheckPlacedOnce(t, s, elements)
	controltest.AwaitPlaced(t, len(elements), srv)
	e := srv.View.Elements(array)
	if e != (ares.Elements{Total: 90, Made: 90, Succeeded: 90}) {
		t.Errorf("elements are %+v", e)
	}
}

// TestACancelledArrayEndsUnderTheNextLeader checks that cancelling an array is a single write, and that the next leader then ends the
// array.
func TestACancelledArrayEndsUnderTheNextLeader(t *testing.T) {
	s := storetest.Embedded(t)
	first := controltest.NewServer(t, "server-1", s)
	array := storetest.NewJob(t, s, storetest.Elements(50), func(sp *ares.Spec) { sp.GPUs = 1 })
	node := storetest.NewNode(t, s)
	controltest.Await(t, first.View, "the node to be full", func() bool { return first.View.Elements(array).Made == 8 })
	first.Stop()
	v := controltest.Follow(t, s)
	cancel := func() (ares.Run, error) {
		return s.RequestStop(t.Context(), array.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: time.Now()})
	}
	for range 2 { // a second request has no further effect
		run, err := cancel()
		if err != nil || run.Phase != ares.Running || run.Stop == nil {
			t.Fatalf("cancel: %+v, %v", run, err)
		}
	}
	controltest.NewServer(t, "server-2", s)
	controltest.Await(t, v, "its elements to be asked to stop", func() bool {
		for _, e := range v.Jobs(cache.Filter{ArrayOf: array.ID}).Entries {
			if e.Run.Stop == nil || e.Run.Stop.Why != ares.StopCancel || e.Run.Stop.By != "me" {
				return false
			}
		}
		return true
	})
	controltest.Agent(t, s, v, node, nil)
	controltest.Await(t, v, "the array to end", func() bool { return controltest.PhaseOf(v, array.ID) == ares.Cancelled })
	if e := v.Elements(array); e != (ares.Elements{Total: 50, Made: 8, Cancelled: 8}) {
		t.Errorf("elements are %+v", e)
	}
	if run, err := cancel(); err != nil || run.Phase != ares.Cancelled {
		t.Errorf("cancel again: %+v, %v", run, err)
	}
}
