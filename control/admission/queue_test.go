package admission

import (
	"slices"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/store/storetest"
)

func (a *Admission) addQueue(t *testing.T, q ares.Queue) ares.Queue {
	t.Helper()
	q.Limits = ares.NoLimits()
	made, err := a.Store.CreateQueue(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func queued(name string) func(*ares.Spec) { return func(s *ares.Spec) { s.Queue = name } }

func TestSubmissionToAQueue(t *testing.T) {
	d := newAdmission(t)
	d.add(t, ares.Tenant{ID: "other", Limits: ares.NoLimits()})
	d.addQueue(t, ares.Queue{Tenant: "other", Name: "training"})
	_, err := d.submitOne(t.Context(), spec(queued("training")), "me")
	wantCode(t, err, ares.Invalid, "tenant default has no queue", "queue create")
	d.submit(t, spec(queued("default")))
	d.addQueue(t, ares.Queue{Tenant: "default", Name: "training"}) // the view may not know the queue yet
	d.submit(t, spec(queued("training")))
	d.caughtUp(t)
	if use, waiting := d.View.Use("default/training"); waiting != 1 || use.Jobs != 0 {
		t.Errorf("%d wait in the queue, %+v is held", waiting, use)
	}
	if _, waiting := d.View.Use("default"); waiting != 2 {
		t.Errorf("%d wait in the tenant", waiting)
	}
	var names []string
	for _, q := range d.View.Queues("") {
		names = append(names, q.ID())
	}
	if want := []string{"default/default", "default/training", "other/default", "other/training"}; !slices.Equal(names, want) {
		t.Errorf("the view lists %q, want %q", names, want)
	}
}

// TestQueueLimits checks that a queue rejects a job that exceeds its own limits or those of its parent queues.
func TestQueueLimits(t *testing.T) {
	d := newAdmission(t)
	top := d.addQueue(t, ares.Queue{Tenant: "default", Name: "top"})
	d.addQueue(t, ares.Queue{Tenant: "default", Name: "low", Parent: "top"})
	top.Limits.GPUs, top.Limits.PendingJobs = 4, 3
	if _, err := d.Store.UpdateQueue(t.Context(), top); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	_, err := d.submitOne(t.Context(), spec(queued("low"), func(s *ares.Spec) { s.GPUs = 5 }), "me")
	wantCode(t, err, ares.QuotaExceeded, "queue default/top", "requested=5, quota=4")
	specs := []ares.Spec{spec(queued("low")), spec(queued("top")), spec(queued("low")), spec(queued("low")), spec()}
	for i, got := range d.submitAll(t.Context(), specs, "me") {
		if (got.Err != nil) != (i == 3) {
			t.Errorf("job %d: %v, want only the fourth, one too many for the queue, to be rejected", i, got.Err)
		}
	}
	d.caughtUp(t)
	_, err = d.submitOne(t.Context(), spec(queued("low")), "me")
	wantCode(t, err, ares.QuotaExceeded, "queue default/top", "pending jobs requested=1, quota=3, current=3")
}

// TestDeletedQueueInAStaleView submits to a queue that was deleted but is still in the view.
func TestDeletedQueueInAStaleView(t *testing.T) {
	d := newAdmission(t)
	q := d.addQueue(t, ares.Queue{Tenant: "default", Name: "training"})
	d.caughtUp(t)
	stale := cache.NewView(d.View.Now)
	stale.Apply(ares.Batch{Revision: 1, Reset: true, Events: []ares.Event{{Revision: 1, Queue: &q}}})
	if err := d.DeleteQueue(t.Context(), "default", "training"); err != nil {
		t.Fatal(err)
	}
	late := *d
	late.View = stale
	_, err := late.submitOne(t.Context(), spec(queued("training")), "me")
	wantCode(t, err, ares.Invalid, "no queue")
}

func TestDeleteQueue(t *testing.T) {
	d := newAdmission(t)
	d.addQueue(t, ares.Queue{Tenant: "default", Name: "training"})
	job := d.submit(t, spec(queued("training")))
	wantCode(t, d.DeleteQueue(t.Context(), "default", "training"), ares.Conflict, "1 live jobs")
	if _, err := d.Cancel(t.Context(), job.ID, "me"); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteQueue(t.Context(), "default", "training"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, d.DeleteQueue(t.Context(), "default", "training"), ares.NotFound)
	wantCode(t, d.DeleteQueue(t.Context(), "default", "default"), ares.Conflict, "built in")
}

// TestQueueDeletedDuringSubmissions submits jobs while their queue is deleted. The queue of
// every accepted job must still exist, no matter whether the submission or the deletion comes
// first.
func TestQueueDeletedDuringSubmissions(t *testing.T) {
	d := newAdmission(t)
	for round := range 20 {
		d.addQueue(t, ares.Queue{Tenant: "default", Name: "q"})
		d.caughtUp(t)
		var wg sync.WaitGroup
		var accepted Accepted
		var deleted error
		wg.Go(func() { accepted, _ = d.submitOne(t.Context(), spec(queued("q")), "me") })
		wg.Go(func() { deleted = d.DeleteQueue(t.Context(), "default", "q") })
		wg.Wait()
		_, readErr := d.Store.Queue(t.Context(), "default", "q")
		if (accepted.Err == nil) != (readErr == nil) {
			t.Fatalf("round %d: submit %v, delete %v, queue %v", round, accepted.Err, deleted, readErr)
		}
		if accepted.Err == nil {
			if _, err := d.Cancel(t.Context(), accepted.ID, "me"); err != nil {
				t.Fatal(err)
			}
			if err := d.DeleteQueue(t.Context(), "default", "q"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestQueuesAreDeletedWithTheirTenant(t *testing.T) {
	d := newAdmission(t)
	d.add(t, ares.Tenant{ID: "team", Limits: ares.NoLimits()})
	d.addQueue(t, ares.Queue{Tenant: "team", Name: "training"})
	if err := d.DeleteTenant(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	if left := storetest.Records(t, d.Store, "queues/team/"); len(left) > 0 {
		t.Errorf("the tenant left %+v", left)
	}
	d.caughtUp(t)
	if left := d.View.Queues("team"); len(left) > 0 {
		t.Errorf("the view still lists %+v", left)
	}
}

func TestTopologyInTheView(t *testing.T) {
	d := newAdmission(t)
	if got := d.View.Topology(); got.Revision != 0 {
		t.Errorf("before the first: %+v", got)
	}
	made, err := d.Store.PutTopology(t.Context(), ares.Topology{MaxNodesPerLeaf: 4})
	if err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if got := d.View.Topology(); got.Revision != made.Revision || got.MaxNodesPerLeaf != 4 {
		t.Errorf("got %+v", got)
	}
	d.View.Apply(ares.Batch{Revision: made.Revision + 1, Events: []ares.Event{{Revision: made.Revision + 1, Gone: ares.Gone{Kind: ares.KindTopology, ID: "fleet"}}}})
	if got := d.View.Topology(); got.Revision != 0 {
		t.Errorf("after it went: %+v", got)
	}
}

func TestDraftStoresNothing(t *testing.T) {
	s := storetest.Embedded(t)
	v := cache.NewView(func() time.Time { return storetest.Noon })
	l := scheduler.NewLoop(v, config.Default())
	l.Now = v.Now
	controltest.Follow(t, s, v.Apply)
	d := &Admission{Store: s, View: v, Now: v.Now}
	d.add(t, ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()})
	d.caughtUp(t)
	job, err := d.Draft(t.Context(), Request{Submitted: spec(func(s *ares.Spec) { s.GPUs = 4 }), Owner: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if _, why := l.Plan(job, nil); why == nil || len(why.Blockers) == 0 || why.Queue != "default" {
		t.Errorf("without a node: %+v", why)
	}
	n := storetest.NewNode(t, s)
	d.caughtUp(t)
	for range 3 { // if a draft held devices, three drafts would exhaust them
		if p, why := l.Plan(job, nil); why != nil || len(p.Seats) != 1 || p.Seats[0].Node != n.ID || len(p.Seats[0].Shares) != 4 {
			t.Errorf("got %+v, %+v", p, why)
		}
	}
	if _, err = s.Job(t.Context(), job.ID); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("a draft was stored: %v", err)
	}
	_, err = d.Draft(t.Context(), Request{Submitted: spec(queued("nowhere")), Owner: "me"})
	wantCode(t, err, ares.Invalid, "no queue")
}
