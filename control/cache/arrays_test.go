package cache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestListsOfArrays checks that the list of jobs shows an array once, and that its elements can be
// listed page by page.
func TestListsOfArrays(t *testing.T) {
	s := storetest.Embedded(t)
	lead, _ := storetest.NewLead(t, s)
	node, single := storetest.NewNode(t, s), storetest.NewJob(t, s)
	array := storetest.NewJob(t, s, storetest.Elements(7))
	seats := storetest.Grow(t, s, lead, array, 5, node)
	storetest.Claim(t, s, seats[:1], node)
	storetest.Finish(t, s, seats[0], ares.OutcomeSucceeded)
	v := NewView(time.Now)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = v.Run(ctx, s, func(error) {}) })
	defer func() { stop(); running.Wait() }()
	revision, err := s.Revision(t.Context())
	if err == nil {
		err = v.WaitFor(t.Context(), revision)
	}
	if err != nil {
		t.Fatal(err)
	}
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
			got = append(got, int(e.Job.ArrayIndex))
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
