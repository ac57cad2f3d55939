package accounting

import (
	"sync/atomic"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history/historytest"
)

// TestAJobThatEndsIsCountedOnce counts the jobs while one job moves from the running
// jobs to the finished jobs and back.
func TestAJobThatEndsIsCountedOnce(t *testing.T) {
	v := cache.NewView(nil)
	l := NewAccounting(v, historytest.SQLite(t).Open(t), nil)
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
		if n, known := l.total(t.Context(), cache.Filter{}); known && n != 1 {
			t.Errorf("one job is counted as %d", n)
			break
		}
	}
	enough.Store(true)
	<-done
}
