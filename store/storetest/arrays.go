package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var arrayLaws = []law{
	{"ElementsAreMadeWithTheirArraysStep", arrayMakes},
	{"ACancelInBetweenMakesNoElement", arrayCancelled},
	{"AnElementIsMadeOnce", arrayOnce},
	{"TheLargestStepIsOneTransaction", arrayLargest},
	{"AnElementRunsAsAnyJob", arrayElementRuns},
	{"AWatcherKnowsAnElementBeforeItsRun", arrayWatched},
	{"AnArrayOfALargeSpecIsRefused", arrayTooLarge},
}

// Elements returns a function that turns a spec into an array of n elements.
func Elements(n int) func(*ares.Spec) {
	return func(s *ares.Spec) { s.Name, s.Array = "sweep", ares.Array{Count: n} }
}

// Growing returns the change that creates the next n elements of an array, all on one node.
func Growing(tb testing.TB, s *store.Store, array *ares.Job, n int, node *Node) store.Change {
	tb.Helper()
	snap := Get(tb, s, array.ID)
	c := store.Change{Job: array.ID, Next: snap.Run}
	for i := range n {
		el := store.Element{Job: snap.Job.Element(snap.Run.Next + i), Run: ares.NewRun(snap.Job.AcceptedAt)}
		if err := el.Run.Place([]ares.Seat{{Node: node.ID, CPUs: 1, NUMA: -1}}, 0, Noon); err != nil {
			tb.Fatal(err)
		}
		c.Make = append(c.Make, el)
	}
	if err := c.Next.Advance(&ares.ArrayStep{Job: array.ID, Next: snap.Run.Next + n}, Noon); err != nil {
		tb.Fatal(err)
	}
	return c
}

// Grow commits the creation of elements and returns their seats.
func Grow(tb testing.TB, s *store.Store, lead *store.Leadership, array *ares.Job, n int, node *Node) []store.SeatRef {
	tb.Helper()
	c := Growing(tb, s, array, n, node)
	if _, dropped, err := s.Commit(tb.Context(), lead, "digest", []store.Change{c}); err != nil || len(dropped) > 0 {
		tb.Fatalf("make elements: dropped %v, %v", dropped, err)
	}
	var out []store.SeatRef
	for _, el := range c.Make {
		run := Get(tb, s, el.Job.ID).Run
		out = append(out, store.SeatRef{Job: el.Job.ID, Fence: run.Fence(), Node: node.ID})
	}
	return out
}

func arrayMakes(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, array := NewNode(t, s), NewJob(t, s, Elements(5))
	Grow(t, s, lead, array, 2, node)
	Grow(t, s, lead, array, 1, node)
	if run := phase(t, s, array.ID, ares.Running); run.Next != 3 || len(run.Attempts) != 0 {
		t.Errorf("the array's run is %+v", run)
	}
	for i := range 3 {
		snap := Get(t, s, ares.ElementID(array.ID, i))
		j := snap.Job
		if j.ArrayOf != array.ID || j.ArrayIndex != int32(i) || j.ArrayCount != 5 || j.IsArray() || j.Digest != array.Digest || j.Owner != array.Owner || !j.AcceptedAt.Equal(array.AcceptedAt) {
			t.Errorf("element %d is %+v", i, j)
		}
		lease := Records(t, s, "leases/"+string(j.ID))
		if len(lease) != 1 || lease[0].CreateRevision != int64(snap.Run.Fence()) || snap.Run.Phase != ares.Scheduled || j.Revision != snap.Run.Revision {
			t.Errorf("element %d has run %+v and leases %+v", i, snap.Run, lease)
		}
	}
	if _, err := s.Job(t.Context(), ares.ElementID(array.ID, 3)); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("an element that was not made: %v", err)
	}
}

func arrayCancelled(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, array, kept := NewNode(t, s), NewJob(t, s, Elements(9)), NewJob(t, s)
	first := Grow(t, s, lead, array, 1, node)
	plan := []store.Change{Growing(t, s, array, 3, node), Placing(t, s, kept, node)}
	stop := ares.Stop{Why: ares.StopCancel, By: "me", At: Noon}
	for range 2 { // the second changes nothing
		if run, err := s.RequestStop(t.Context(), array.ID, stop); err != nil || run.Phase != ares.Running || run.Stop == nil {
			t.Fatalf("cancel: %+v, %v", run, err)
		}
	}
	_, dropped, err := s.Commit(t.Context(), lead, "digest", plan)
	if err != nil || !slices.Equal(dropped, []ares.JobID{array.ID}) {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	if run := phase(t, s, array.ID, ares.Running); run.Next != 1 {
		t.Errorf("%d elements were made", run.Next)
	}
	for i := 1; i < 4; i++ {
		if left := Records(t, s, "jobs/"+string(ares.ElementID(array.ID, i))); len(left) > 0 {
			t.Errorf("element %d was made all the same", i)
		}
	}
	phase(t, s, kept.ID, ares.Scheduled)
	phase(t, s, first[0].Job, ares.Scheduled) // the store does not ask the elements to stop; a plan does
}

func arrayOnce(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, array := NewNode(t, s), NewJob(t, s, Elements(5))
	c := Growing(t, s, array, 2, node)
	for i, want := range []int{0, 1} {
		_, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{c})
		if err != nil || len(dropped) != want {
			t.Fatalf("commit %d: dropped %v, %v", i, dropped, err)
		}
	}
	// An element may be created after a plan was made. This plan must not overwrite the
	// element.
	again := c
	again.Next.Revision = Get(t, s, array.ID).Run.Revision
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{again}); err != nil || len(dropped) != 1 {
		t.Errorf("dropped %v, %v", dropped, err)
	}
}

func arrayLargest(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, array, other := NewNode(t, s), NewJob(t, s, Elements(200)), NewJob(t, s, Elements(200))
	most := array.ElementsAtOnce()
	plan := []store.Change{Growing(t, s, array, most, node), Growing(t, s, other, most, node), Placing(t, s, NewJob(t, s), node)}
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", plan); err != nil || len(dropped) > 0 {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	// One array changes before the commit, so Commit must fall back to nested
	// transactions. Only the change of this array may be dropped.
	plan = []store.Change{Growing(t, s, array, most, node), Growing(t, s, other, most, node), Placing(t, s, NewJob(t, s), node)}
	if _, err := s.RequestStop(t.Context(), array.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon}); err != nil {
		t.Fatal(err)
	}
	_, dropped, err := s.Commit(t.Context(), lead, "digest", plan)
	if err != nil || !slices.Equal(dropped, []ares.JobID{array.ID}) {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	if run := phase(t, s, other.ID, ares.Running); run.Next != 2*most {
		t.Errorf("%d elements were made", run.Next)
	}
}

func arrayElementRuns(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, array := NewNode(t, s), NewJob(t, s, Elements(1))
	seat := Grow(t, s, lead, array, 1, node)[0]
	Claim(t, s, []store.SeatRef{seat}, node)
	phase(t, s, seat.Job, ares.Running)
	Finish(t, s, seat, ares.OutcomeFailed)
	phase(t, s, seat.Job, ares.Retrying)
	Release(t, s, seat)
	element := Get(t, s, seat.Job).Job
	makeReady(t, s, lead, element)
	seat = Place(t, s, lead, element, node)[0]
	Claim(t, s, []store.SeatRef{seat}, node)
	if run := Finish(t, s, seat, ares.OutcomeSucceeded); run.Phase != ares.Succeeded {
		t.Errorf("the element is %s", run.Phase)
	}
	Release(t, s, seat)
	run := phase(t, s, array.ID, ares.Running)
	if err := run.Advance(&ares.ArrayStep{Job: array.ID, Next: 1, Phase: ares.Succeeded, Reason: "all"}, Noon); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{{Job: array.ID, Next: run}}); err != nil || len(dropped) > 0 {
		t.Fatalf("end: dropped %v, %v", dropped, err)
	}
	phase(t, s, array.ID, ares.Succeeded)
}

func arrayWatched(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	node, array := NewNode(t, s), NewJob(t, s, Elements(2))
	done := errors.New("seen")
	known := map[ares.JobID]bool{}
	ready := make(chan struct{})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		ended <- s.Watch(ctx, func(b ares.Batch) error {
			runs := 0
			for _, ev := range b.Events {
				if ev.Job != nil {
					known[ev.Job.ID] = true
				}
				if ev.Run != nil && ev.Run.Job != array.ID && !b.Reset {
					if !known[ev.Run.Job] {
						return errors.New("a run came before its job")
					}
					runs++
				}
			}
			if b.Reset {
				close(ready)
			}
			if runs == 2 {
				return done
			}
			return nil
		})
	}()
	<-ready
	Grow(t, s, lead, array, 2, node)
	if err := <-ended; !errors.Is(err, done) {
		t.Error(err)
	}
}

func arrayTooLarge(t *testing.T, s *store.Store) {
	spec := Sleep()
	spec.Array.Count = 3
	spec.Args = []string{string(make([]byte, ares.MaxArraySpecBytes))}
	refused(t, create(t, s, JobOf(NewTenant(t, s), spec))[0].Err, ares.TooLarge, "the limit for arrays is")
}
