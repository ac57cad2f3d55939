package control

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

func after(jobs ...*ares.Job) func(*ares.Spec) {
	return func(s *ares.Spec) {
		for _, j := range jobs {
			s.After = append(s.After, string(j.ID))
		}
	}
}

// end has a job end with an outcome, its seat free.
func (d *Desk) end(t *testing.T, job *ares.Job, outcome ares.Outcome) {
	t.Helper()
	lead, resign := storetest.NewLead(t, d.Store)
	defer resign()
	node := storetest.NewNode(t, d.Store)
	seats := storetest.Place(t, d.Store, lead, job, node)
	storetest.Claim(t, d.Store, seats, node)
	storetest.Finish(t, d.Store, seats[0], outcome)
	storetest.Release(t, d.Store, seats...)
	d.caughtUp(t)
}

func once(s *ares.Spec) { s.Retry.MaxRetries = new(0) }

// TestAfter: what a job may come after, live or archived, and what is kept for
// it.
func TestAfter(t *testing.T) {
	d := newDesk(t)
	good, bad, waited := d.submit(t, spec(once)), d.submit(t, spec(once)), d.submit(t, spec(once))
	d.caughtUp(t)
	waits := d.submit(t, spec(after(waited)))
	d.end(t, good, ares.OutcomeSucceeded)
	d.end(t, bad, ares.OutcomeFailed)
	d.end(t, waited, ares.OutcomeSucceeded)

	refusals := func(when string) {
		t.Helper()
		_, err := d.Submit(t.Context(), spec(after(good, bad)), "me")
		if ares.CodeOf(err) != ares.Refused || !strings.Contains(err.Error(), "after[1]: job "+string(bad.ID)+" is failed and will never succeed") {
			t.Errorf("%s: after a failed one: %v", when, err)
		}
	}
	refusals("live")
	if j := d.submit(t, spec(after(good))); len(j.After) != 1 {
		t.Errorf("a live job that has succeeded is still looked at: %v", j.After)
	}
	_, err := d.Submit(t.Context(), spec(func(s *ares.Spec) { s.After = []string{string(ares.NewJobID("no", "body"))} }), "me")
	if ares.CodeOf(err) != ares.Refused || !strings.Contains(err.Error(), "there is no job") {
		t.Errorf("after an unknown one: %v", err)
	}
	self := spec()
	self.RequestID = "self"
	self.After = []string{string(ares.NewJobID(ares.DefaultTenant, "self"))}
	if _, err = d.Submit(t.Context(), self, "me"); ares.CodeOf(err) != ares.Refused {
		t.Errorf("after itself: %v", err)
	}

	d.caughtUp(t)
	r := &Recorder{
		Store: d.Store, View: d.View, Log: quiet, Archive: &Journal{Path: filepath.Join(t.TempDir(), "a.jsonl")},
		Now: func() time.Time { return storetest.Noon.Add(48 * time.Hour) },
	}
	defer r.Archive.Close()
	if err := r.archive(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if d.View.Job(waited.ID) == nil || d.View.Job(good.ID) == nil || d.View.Job(bad.ID) != nil {
		t.Fatal("jobs that others wait for must stay, others go")
	}
	refusals("archived")

	// Once nobody waits for it, it goes; and counts as done for those that come.
	if _, err := d.Cancel(t.Context(), waits.ID, "me"); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if err := r.archive(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if d.View.Job(waited.ID) != nil {
		t.Fatal("nobody waits for it any more, yet it stays")
	}
	ask := spec(after(waited, good))
	ask.RequestID = "late"
	late := d.submit(t, ask)
	if len(late.After) != 1 || late.After[0] != string(good.ID) {
		t.Errorf("what is over is still waited for: %v", late.After)
	}
	if got, err := d.Submit(t.Context(), ask, "me"); err != nil || !got.Duplicate {
		t.Errorf("the same again: %+v, %v", got, err)
	}
}

// TestADuplicateStaysOneWhenItsPastIsGone: a repeated request finds its job
// though it would be refused now.
func TestADuplicateStaysOneWhenItsPastIsGone(t *testing.T) {
	d := newDesk(t)
	first := d.submit(t, spec(once))
	d.caughtUp(t)
	ask := spec(after(first))
	ask.RequestID = "twice"
	second := d.submit(t, ask)
	d.end(t, first, ares.OutcomeFailed)
	if got, err := d.Submit(t.Context(), ask, "me"); err != nil || !got.Duplicate || got.ID != second.ID {
		t.Errorf("the same again: %+v, %v", got, err)
	}
}
