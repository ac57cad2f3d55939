package control

import (
	"sync/atomic"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history/historytest"
)

// TestTheTotalComesWithTheFirstPage: later pages do not pay for it, and a page is
// worth having without it.
func TestTheTotalComesWithTheFirstPage(t *testing.T) {
	b := newBooks(t, t.TempDir())
	past := historytest.SQLite(t)
	b.rec.Ledger.History = past.Open(t)
	for range 3 {
		_, end := b.job()
		end()
	}
	b.record()
	first, err := b.rec.Ledger.Jobs(t.Context(), Filter{Limit: 1})
	if err != nil || first.Total == nil || *first.Total != 3 {
		t.Fatalf("the first page says %v, %v", first.Total, err)
	}
	last := first.Jobs[0].Job
	page, err := b.rec.Ledger.Jobs(t.Context(), Filter{Limit: 1, Before: last.Revision, After: last.ID})
	if err != nil || len(page.Jobs) != 1 || page.Total != nil {
		t.Errorf("the second page is %+v, %v", page, err)
	}
	if _, err = past.Raw.ExecContext(t.Context(), "DROP TABLE job_counts"); err != nil {
		t.Fatal(err)
	}
	page, err = b.rec.Ledger.Jobs(t.Context(), Filter{Limit: 1})
	if err != nil || len(page.Jobs) != 1 || !page.More || page.Total != nil {
		t.Errorf("where jobs cannot be counted, the page is %+v, %v", page, err)
	}
}

// TestAJobThatEndsIsCountedOnce counts while a job goes to and fro between those
// that run and those that have ended.
func TestAJobThatEndsIsCountedOnce(t *testing.T) {
	v := NewView(nil)
	l := NewLedger(v, historytest.SQLite(t).Open(t), nil)
	job := historytest.Made{ID: "a"}.Finished().Job
	v.Apply(ares.Batch{Revision: 1, Events: []ares.Event{{Revision: 1, Job: job}}})
	turn := func(revision int64) {
		run := ares.Run{Phase: ares.Running, Revision: revision}
		if revision%2 == 0 {
			run.Phase = ares.Succeeded
		}
		v.Apply(ares.Batch{Revision: revision, Events: []ares.Event{{Revision: revision, Run: &ares.RunEvent{Job: job.ID, Run: run}}}})
	}
	turn(2)
	var enough atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for revision := int64(3); !enough.Load(); revision++ {
			turn(revision)
		}
	}()
	for range 1000 {
		if n, known := l.total(t.Context(), Filter{}); known && n != 1 {
			t.Errorf("one job is counted as %d", n)
			break
		}
	}
	enough.Store(true)
	<-done
}
