package admission

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/control/lifecycle"
	"github.com/ares-scheduler/ares/store/storetest"
)

func after(jobs ...*ares.Job) func(*ares.Spec) {
	return func(s *ares.Spec) {
		for _, j := range jobs {
			s.After = append(s.After, string(j.ID))
		}
	}
}

// The method `end` ends a job with an outcome and frees its seat.
func (a *Admission) end(t *testing.T, job *ares.Job, outcome ares.Outcome) {
	t.Helper()
	lead, resign := storetest.NewLead(t, a.Store)
	defer resign()
	node := storetest.NewNode(t, a.Store)
	seats := storetest.Place(t, a.Store, lead, job, node)
	storetest.Claim(t, a.Store, seats, node)
	storetest.Finish(t, a.Store, seats[0], outcome)
	storetest.Release(t, a.Store, seats...)
	a.caughtUp(t)
}

// TestDependencies checks which live or archived jobs a job may depend on. The test also checks
// that a finished job stays live while another job depends on it.
func TestDependencies(t *testing.T) {
	d := newAdmission(t)
	good, bad, waited := d.submit(t, spec(controltest.Once)), d.submit(t, spec(controltest.Once)), d.submit(t, spec(controltest.Once))
	d.caughtUp(t)
	waits := d.submit(t, spec(after(waited)))
	d.end(t, good, ares.OutcomeSucceeded)
	d.end(t, bad, ares.OutcomeFailed)
	d.end(t, waited, ares.OutcomeSucceeded)

	refusals := func(when string) {
		t.Helper()
		_, err := d.submitOne(t.Context(), spec(after(good, bad)), "me")
		if ares.CodeOf(err) != ares.DependencyFailed || !strings.Contains(err.Error(), "after[1]: job "+string(bad.ID)+" is failed and will never succeed") {
			t.Errorf("%s: after a failed one: %v", when, err)
		}
	}
	refusals("live")
	if j := d.submit(t, spec(after(good))); len(j.After) != 1 {
		t.Errorf("a live job that has succeeded must stay a dependency: %v", j.After)
	}
	_, err := d.submitOne(t.Context(), spec(func(s *ares.Spec) { s.After = []string{string(ares.NewJobID("no", "body"))} }), "me")
	if ares.CodeOf(err) != ares.DependencyUnknown || !strings.Contains(err.Error(), "there is no job") {
		t.Errorf("after an unknown one: %v", err)
	}
	self := spec()
	self.RequestID = "self"
	self.After = []string{string(ares.NewJobID(ares.DefaultTenant, "self"))}
	if _, err = d.submitOne(t.Context(), self, "me"); ares.CodeOf(err) != ares.DependencyUnknown {
		t.Errorf("after itself: %v", err)
	}

	d.caughtUp(t)
	r := &lifecycle.Archiver{
		Store: d.Store, View: d.View, Log: controltest.Quiet, Archive: &lifecycle.Journal{Path: filepath.Join(t.TempDir(), "a.jsonl")},
		Now: func() time.Time { return storetest.Noon.Add(48 * time.Hour) },
	}
	defer r.Archive.Close()
	if err := r.ArchiveDue(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if d.View.Job(waited.ID) == nil || d.View.Job(good.ID) == nil || d.View.Job(bad.ID) != nil {
		t.Fatal("a job that others depend on must stay live, and others must be archived")
	}
	refusals("archived")

	// A dependency is archived once no job depends on it any more. When a new job depends on the
	// archived job, that dependency counts as succeeded.
	if _, err := d.Cancel(t.Context(), waits.ID, "me"); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if err := r.ArchiveDue(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if d.View.Job(waited.ID) != nil {
		t.Fatal("no job depends on it any more, yet it stays live")
	}
	ask := spec(after(waited, good))
	ask.RequestID = "late"
	late := d.submit(t, ask)
	if len(late.After) != 1 || late.After[0] != string(good.ID) {
		t.Errorf("a job depends on one that has succeeded: %v", late.After)
	}
	if got, err := d.submitOne(t.Context(), ask, "me"); err != nil || !got.Duplicate {
		t.Errorf("the same again: %+v, %v", got, err)
	}
}

// TestDuplicateOfAnArchivedDependency checks that a repeated request returns its job, even if a new request with the
// same dependency would be rejected.
func TestDuplicateOfAnArchivedDependency(t *testing.T) {
	d := newAdmission(t)
	first := d.submit(t, spec(controltest.Once))
	d.caughtUp(t)
	ask := spec(after(first))
	ask.RequestID = "twice"
	second := d.submit(t, ask)
	d.end(t, first, ares.OutcomeFailed)
	if got, err := d.submitOne(t.Context(), ask, "me"); err != nil || !got.Duplicate || got.ID != second.ID {
		t.Errorf("the same again: %+v, %v", got, err)
	}
}
