package control

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestLoopRunsAnArrayToItsEnd has more elements than one step makes, and fewer
// at once than there is room for.
func TestLoopRunsAnArrayToItsEnd(t *testing.T) {
	s := storetest.Embedded(t)
	srv := newServer(t, "server-1", s)
	open := make(chan struct{})
	close(open)
	for range 2 {
		agent(t, s, srv.view, storetest.NewNode(t, s), open)
	}
	array := storetest.NewJob(t, s, storetest.Elements(90), func(sp *ares.Spec) { sp.GPUs, sp.Array.Parallelism = 0, 60 })
	await(t, srv.view, "the array to succeed", func() bool { return phaseOf(srv.view, array.ID) == ares.Succeeded })
	var elements []ares.JobID
	for i := range 90 {
		elements = append(elements, ares.ElementID(array.ID, i))
	}
	await(t, srv.view, "its elements to be free", func() bool { return over(srv.view, elements) })
	onlyOnce(t, s, elements)
	placedAll(t, len(elements), srv)
	e := srv.view.Elements(array)
	if e != (ares.Elements{Total: 90, Made: 90, Succeeded: 90}) {
		t.Errorf("elements are %+v", e)
	}
}

// TestACancelledArrayEndsUnderTheNextLeader: the cancel is one write; what is
// left to do is done by whoever leads.
func TestACancelledArrayEndsUnderTheNextLeader(t *testing.T) {
	s := storetest.Embedded(t)
	first := newServer(t, "server-1", s)
	array := storetest.NewJob(t, s, storetest.Elements(50), func(sp *ares.Spec) { sp.GPUs = 1 })
	node := storetest.NewNode(t, s)
	await(t, first.view, "the node to be full", func() bool { return first.view.Elements(array).Made == 8 })
	first.stop()
	v := follow(t, s)
	d := &Desk{Store: s, View: v, Now: time.Now}
	for range 2 { // asking twice is the same as once
		run, err := d.Cancel(t.Context(), array.ID, "me")
		if err != nil || run.Phase != ares.Running || run.Stop == nil {
			t.Fatalf("cancel: %+v, %v", run, err)
		}
	}
	newServer(t, "server-2", s)
	await(t, v, "its elements to be asked to stop", func() bool {
		for _, e := range v.Jobs(Filter{ArrayOf: array.ID}).Entries {
			if e.Run.Stop == nil || e.Run.Stop.Why != ares.StopCancel || e.Run.Stop.By != "me" {
				return false
			}
		}
		return true
	})
	agent(t, s, v, node, nil)
	await(t, v, "the array to end", func() bool { return phaseOf(v, array.ID) == ares.Cancelled })
	if e := v.Elements(array); e != (ares.Elements{Total: 50, Made: 8, Cancelled: 8}) {
		t.Errorf("elements are %+v", e)
	}
	if run, err := d.Cancel(t.Context(), array.ID, "me"); err != nil || run.Phase != ares.Cancelled {
		t.Errorf("cancel again: %+v, %v", run, err)
	}
}

// TestListsOfArrays: a list has the array, another its elements, page by page.
func TestListsOfArrays(t *testing.T) {
	s := storetest.Embedded(t)
	lead, _ := storetest.NewLead(t, s)
	node, single := storetest.NewNode(t, s), storetest.NewJob(t, s)
	array := storetest.NewJob(t, s, storetest.Elements(7))
	seats := storetest.Grow(t, s, lead, array, 5, node)
	storetest.Claim(t, s, seats[:1], node)
	storetest.Finish(t, s, seats[0], ares.OutcomeSucceeded)
	v := follow(t, s)
	if p := v.Jobs(Filter{}); p.Total != 2 || !slices.Equal(ids(p.Entries), []ares.JobID{array.ID, single.ID}) {
		t.Errorf("the list is %v, %d in all", ids(p.Entries), p.Total)
	}
	if p := v.Jobs(Filter{Elements: true}); p.Total != 7 || len(p.Entries) != 7 {
		t.Errorf("with elements it is %v, %d in all", ids(p.Entries), p.Total)
	}
	if e := v.Elements(array); e != (ares.Elements{Total: 7, Made: 5, Running: 4, Succeeded: 1}) {
		t.Errorf("elements are %+v", e)
	}
	var got []int
	f := Filter{ArrayOf: array.ID, Limit: 2}
	for {
		p := v.Jobs(f)
		for _, e := range p.Entries {
			got = append(got, e.Job.ArrayIndex)
		}
		if p.Total != 5 {
			t.Fatalf("%d elements in all", p.Total)
		}
		if !p.More {
			break
		}
		last := p.Entries[len(p.Entries)-1].Job
		f.Before, f.After = last.Revision, last.ID
	}
	if fmt.Sprint(got) != "[0 1 2 3 4]" {
		t.Errorf("page by page: %v", got)
	}
	if p := v.Jobs(Filter{ArrayOf: array.ID, Phases: []ares.Phase{ares.Succeeded}}); p.Total != 1 || len(p.Entries) != 1 {
		t.Errorf("that succeeded: %d", p.Total)
	}
}

// TestAnArrayIsArchivedWithItsElements: none before it has ended and all are
// free, and its line before theirs.
func TestAnArrayIsArchivedWithItsElements(t *testing.T) {
	s := storetest.Embedded(t)
	lead, _ := storetest.NewLead(t, s)
	node, array := storetest.NewNode(t, s), storetest.NewJob(t, s, storetest.Elements(2))
	seats := storetest.Grow(t, s, lead, array, 2, node)
	v := follow(t, s)
	path := filepath.Join(t.TempDir(), "a.jsonl")
	r := &Recorder{
		Store: s, View: v, Log: quiet, Archive: &Journal{Path: path},
		Now: func() time.Time { return storetest.Noon.Add(48 * time.Hour) },
	}
	defer r.Archive.Close()
	archive := func(want int) {
		t.Helper()
		d := &Desk{Store: s, View: v}
		d.caughtUp(t)
		if err := r.archive(t.Context(), lead); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); want == 0 && err == nil {
			t.Fatal("something was archived")
		} else if want == 0 {
			return
		}
		if got := lines(t, path); len(got) != want {
			t.Fatalf("%d lines, want %d", len(got), want)
		}
	}
	storetest.Claim(t, s, seats[:1], node)
	storetest.Finish(t, s, seats[0], ares.OutcomeSucceeded)
	storetest.Release(t, s, seats[0])
	archive(0) // its array goes on
	storetest.Claim(t, s, seats[1:], node)
	storetest.Finish(t, s, seats[1], ares.OutcomeSucceeded)
	run := storetest.Get(t, s, array.ID).Run
	if err := run.Advance(&ares.ArrayStep{Job: array.ID, Next: 2, Phase: ares.Succeeded}, storetest.Noon); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "d", []store.Change{{Job: array.ID, Next: run}}); err != nil || len(dropped) > 0 {
		t.Fatal(dropped, err)
	}
	archive(0) // a seat is not free
	storetest.Release(t, s, seats[1])
	archive(3)
	if got := lines(t, path); !strings.Contains(got[0], string(array.ID)+`"`) || !strings.Contains(got[0], `"count":2`) {
		t.Errorf("the first line is not the array's: %s", got[0])
	}
	for _, id := range []ares.JobID{array.ID, seats[0].Job, seats[1].Job} {
		if snap := storetest.Get(t, s, id); snap.Tombstone == nil {
			t.Errorf("%s is still live", id)
		}
	}
}
