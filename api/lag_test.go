package api

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// The type `late` is a store whose watch reports each revision with a delay, as on a busy server.
type late struct{ *store.Store }

func (l late) Watch(ctx context.Context, apply func(ares.Batch) error) error {
	return l.Store.Watch(ctx, func(b ares.Batch) error {
		moment := time.NewTimer(20 * time.Millisecond)
		defer moment.Stop()
		select {
		case <-ctx.Done():
		case <-moment.C:
		}
		return apply(b)
	})
}

// newLateHouse starts a test server whose view lags behind its store.
func newLateHouse(t *testing.T, e *fakeEngine) *house {
	t.Helper()
	view := cache.NewView(time.Now)
	h := newHouse(t, func(c *Config) { c.View, c.Admission.View, c.Engine = view, view, e })
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := view.Run(ctx, late{h.store}, func(error) {}); err != nil {
			t.Errorf("view: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	h.view = view
	h.seen()
	return h
}

// TestExplainOfAJobJustSubmitted checks that the server asks the engine to
// explain a job only after the engine knows the job. An engine that does not
// know the job yet would answer that nothing keeps the job waiting.
func TestExplainOfAJobJustSubmitted(t *testing.T) {
	e := &fakeEngine{}
	h := newLateHouse(t, e)
	for _, path := range []string{"/explain", ""} {
		id := h.submit()
		e.before = func() {
			if h.view.Job(ares.JobID(id)) == nil {
				t.Errorf("the engine is asked of %s before it knows it", id)
			}
		}
		if a := h.do("GET", "/api/v1/jobs/"+id+path, nil); a.code != 200 {
			t.Errorf("%s answered %d %s", path, a.code, a.body)
		}
	}
}

// TestAListShowsWhatWasAnsweredBefore checks the first list of jobs after a change. It must contain an
// accepted job, and must show a cancelled job as cancelled.
func TestAListShowsWhatWasAnsweredBefore(t *testing.T) {
	h := newLateHouse(t, &fakeEngine{})
	id := h.submit("name", "mine")
	if a := h.do("GET", "/api/v1/jobs?name=mine", nil); a.json["total"] != 1.0 {
		t.Errorf("the job just accepted is not in the list: %s", a.body)
	}
	if a := h.do("GET", "/api/v1/tenants/default", nil); !strings.Contains(a.body, `"pending_jobs":1`) {
		t.Errorf("nor does its tenant have it: %s", a.body)
	}
	if a := h.do("DELETE", "/api/v1/jobs/"+id, nil); a.code != 200 {
		t.Fatalf("cancel answered %d %s", a.code, a.body)
	}
	if a := h.do("GET", "/api/v1/jobs?state=cancelled", nil); a.json["total"] != 1.0 {
		t.Errorf("the job just cancelled is not so in the list: %s", a.body)
	}
}

// TestAListShowsTheNewJobOfABatch submits a batch in which one job repeats an
// earlier request. The jobs of the batch are written to the store separately,
// but the next list of jobs must contain the new job.
func TestAListShowsTheNewJobOfABatch(t *testing.T) {
	h := newLateHouse(t, &fakeEngine{})
	h.submit("request_id", "again", "name", "mine")
	h.seen()
	a := h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{
		job("request_id", "again", "name", "mine"), job("request_id", "new", "name", "mine"),
	}})
	if a.code != 200 || a.json["accepted"] != 1.0 || a.json["duplicates"] != 1.0 {
		t.Fatalf("the batch answered %d %s", a.code, a.body)
	}
	if a := h.do("GET", "/api/v1/jobs?name=mine", nil); a.json["total"] != 2.0 {
		t.Errorf("the job just accepted is not in the list: %s", a.body)
	}
}

// TestNodesAreShownAsTheyWereChanged checks that a caller that has cordoned or
// removed a node never sees the old state again.
func TestNodesAreShownAsTheyWereChanged(t *testing.T) {
	h := newLateHouse(t, &fakeEngine{})
	session, err := h.store.OpenSession(t.Context(), ares.Node{ID: "n1", CPUs: 8, MemoryMB: 1000}, "0123456789abcdef", "here", time.Minute, 0)
	must(t, err)
	h.seen()
	for _, step := range []struct{ change, by string }{{"cordon", "token:admin"}, {"uncordon", ""}, {"drain", "token:admin"}} {
		if a := h.do("POST", "/api/v1/nodes/n1/"+step.change, nil); a.code != 200 {
			t.Fatalf("%s answered %d %s", step.change, a.code, a.body)
		}
		if a := h.do("GET", "/api/v1/nodes/n1", nil); a.json["cordoned_by"] != step.by {
			t.Errorf("after %s the node is %s", step.change, a.body)
		}
	}
	must(t, h.store.CloseSession(t.Context(), "n1", session.Revision))
	if a := h.do("DELETE", "/api/v1/nodes/n1", nil); a.code != 200 {
		t.Fatalf("removing it answered %d %s", a.code, a.body)
	}
	h.refused(h.do("GET", "/api/v1/nodes/n1", nil), 404, ares.NotFound)
}
