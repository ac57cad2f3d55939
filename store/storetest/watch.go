package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var watchLaws = []law{
	{"ASnapshotAndThenEveryRevisionWhole", watchWhole},
	{"AWatchShowsWhatIsStored", watchShows},
	{"AWatchEndsWithItsContextOrItsReader", watchEnds},
}

// watchWhole watches the store during concurrent writes. It checks that no revision is missed,
// repeated, reordered or split.
func watchWhole(t *testing.T, s *store.Store) {
	const writers, each = 4, 20
	tenant := NewTenant(t, s)
	accepted := &sync.Map{}
	write := func(asks ...store.Creation) {
		for _, got := range s.Create(t.Context(), asks) {
			if got.Err != nil {
				t.Error(got.Err)
			}
			accepted.Store(got.ID, true)
		}
	}
	write(JobOf(tenant, Sleep()), JobOf(tenant, Sleep()))
	r := &reader{tenant: tenant.ID, seen: map[ares.JobID]int64{}, begun: make(chan struct{}), last: JobOf(tenant, Sleep())}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			<-r.begun
			for i := range each {
				asks := make([]store.Creation, 1+(w+i)%7)
				for k := range asks {
					asks[k] = JobOf(tenant, Sleep())
				}
				write(asks...)
			}
		})
	}
	go func() { // the last job tells the reader to stop
		wg.Wait()
		write(r.last)
	}()
	if err := s.Watch(t.Context(), func(b ares.Batch) error { return r.read(t, b) }); !errors.Is(err, errDone) {
		t.Fatalf("the watch ended with %v", err)
	}
	accepted.Range(func(id, _ any) bool {
		if want := Get(t, s, id.(ares.JobID)).Job.Revision; r.seen[id.(ares.JobID)] != want {
			t.Errorf("job %s was accepted at %d, the watch said %d", id, want, r.seen[id.(ares.JobID)])
		}
		return true
	})
}

var errDone = errors.New("done")

// A `reader` checks the batches of a watch one by one.
type reader struct {
	tenant   string
	begun    chan struct{} // closed after the snapshot
	last     store.Creation
	revision int64
	seen     map[ares.JobID]int64
}

func (r *reader) read(t *testing.T, b ares.Batch) error {
	if first := r.revision == 0; first != b.Reset {
		t.Errorf("revision %d: reset is %v", b.Revision, b.Reset)
	}
	if b.Revision <= r.revision {
		t.Errorf("revision %d follows %d", b.Revision, r.revision)
	}
	r.revision = b.Revision
	for _, e := range b.Events {
		if e.Job == nil || e.Job.Tenant != r.tenant {
			continue
		}
		if _, again := r.seen[e.Job.ID]; again {
			t.Errorf("job %s came twice", e.Job.ID)
		}
		if !b.Reset && e.Job.Revision != b.Revision {
			t.Errorf("job %s of revision %d came with revision %d", e.Job.ID, e.Job.Revision, b.Revision)
		}
		r.seen[e.Job.ID] = e.Job.Revision
	}
	if b.Reset {
		close(r.begun)
	}
	if _, there := r.seen[r.last.Job.ID]; there {
		return errDone
	}
	return nil
}

// watchShows checks each kind of record that a watch reports. The record must equal the record
// that was written.
func watchShows(t *testing.T, s *store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches := make(chan ares.Batch, 1024)
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- s.Watch(ctx, func(b ares.Batch) error {
			if b.Reset {
				close(ready)
				return nil
			}
			batches <- b
			return nil
		})
	}()
	<-ready
	st := newStage(t, s, 1)
	st.claim(t, s)
	if err := s.ReportProgress(ctx, st.seats[0], st.nodes[0].Session, ares.Progress{Percent: 5, At: Noon}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cordon(ctx, ares.Cordon{Node: st.nodes[0].ID, By: "me", Since: Noon}); err != nil {
		t.Fatal(err)
	}
	Finish(t, s, st.seats[0], ares.OutcomeSucceeded)
	Release(t, s, st.seats...)
	run := Get(t, s, st.job.ID).Run
	if err := s.Archive(ctx, st.job, &run, nil); err != nil {
		t.Fatal(err)
	}
	node, id := st.nodes[0].ID, string(st.job.ID)
	st.nodes[0].Close(t, s)
	want := []string{
		"tenant " + st.job.Tenant, "job " + id, "node " + node, "session " + node, "scheduled", "running", "progress " + id, "cordon " + node,
		"succeeded", "gone progress " + id, "succeeded", "gone job " + id, "gone run " + id, "gone session " + node,
	}
	got := collect(t, batches, id, st.job.Tenant, node, len(want))
	// Within one revision, events are in the order of the transaction's writes.
	slices.Sort(got[2:4])
	slices.Sort(want[2:4])
	if !slices.Equal(got, want) {
		t.Errorf("the watch said\n%q, want\n%q", got, want)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

// This function formats the events about one job, one tenant and one node as text.
func collect(t *testing.T, batches <-chan ares.Batch, job, tenant, node string, n int) []string {
	t.Helper()
	var out []string
	for len(out) < n {
		b := <-batches
		for _, e := range b.Events {
			switch {
			case e.Job != nil && string(e.Job.ID) == job:
				out = append(out, "job "+job)
			case e.Run != nil && string(e.Run.Job) == job:
				if e.Run.Run.Revision != b.Revision {
					t.Errorf("a run of revision %d came with %d", e.Run.Run.Revision, b.Revision)
				}
				out = append(out, string(e.Run.Run.Phase))
			case e.Node != nil && e.Node.ID == node:
				out = append(out, "node "+node)
			case e.Session != nil && e.Session.Node == node:
				out = append(out, "session "+node)
			case e.Cordon != nil && e.Cordon.Node == node:
				out = append(out, "cordon "+node)
			case e.Tenant != nil && e.Tenant.ID == tenant:
				out = append(out, "tenant "+tenant)
			case e.Progress != nil && string(e.Progress.Job) == job:
				out = append(out, "progress "+job)
			case e.Gone.ID == job || e.Gone.ID == node:
				out = append(out, "gone "+string(e.Gone.Kind)+" "+e.Gone.ID)
			}
		}
	}
	return out
}

func watchEnds(t *testing.T, s *store.Store) {
	enough := errors.New("enough")
	if err := s.Watch(t.Context(), func(ares.Batch) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v, want the reader's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Watch(ctx, func(ares.Batch) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
