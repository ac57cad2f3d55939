package metrics

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

func submitted(id ares.JobID) ares.Event {
	return ares.Event{Job: &ares.Job{ID: id, AcceptedAt: noon}}
}

func entered(id ares.JobID, p ares.Phase) ares.Event {
	r := ares.NewRun(noon)
	r.Phase = p
	return ares.Event{Run: &ares.RunEvent{Job: id, Run: r}}
}

// TestJobsAreCountedOnce follows two jobs through their phases. A phase counts when a job enters it, and not when a record
// or a snapshot repeats it.
func TestJobsAreCountedOnce(t *testing.T) {
	w := newWatched(t)
	check := func(step string, queue string, want map[string]string) {
		t.Helper()
		got := w.values("gpu_scheduler_")
		if got["queue_size"] != queue {
			t.Errorf("%s: %s jobs wait, want %s", step, got["queue_size"], queue)
		}
		for name, n := range want {
			if got[name] != n {
				t.Errorf("%s: %s is %s, want %s", step, name, got[name], n)
			}
		}
	}
	w.apply(true, submitted("a"), submitted("b"))
	check("submitted", "2.000", map[string]string{"jobs_total pending": "2.000", "jobs_total running": "0.000"})
	w.apply(false, entered("a", ares.Scheduled))
	w.apply(false, entered("a", ares.Running), entered("b", ares.Running))
	w.apply(false, entered("a", ares.Running)) // a checkpoint
	check("running", "0.000", map[string]string{"jobs_total pending": "2.000", "jobs_total running": "2.000", "preemptions_total": "0.000"})
	w.apply(true, submitted("a"), submitted("b"), entered("a", ares.Running), entered("b", ares.Running))
	check("read again", "0.000", map[string]string{"jobs_total pending": "2.000", "jobs_total running": "2.000"})
	w.apply(false, entered("a", ares.Preempted))
	w.apply(false, entered("a", ares.Pending))
	check("preempted", "1.000", map[string]string{"jobs_total pending": "3.000", "jobs_total preempted": "1.000", "preemptions_total": "1.000"})
	w.apply(false, entered("b", ares.Succeeded))
	w.apply(true, submitted("b"), entered("b", ares.Succeeded)) // job a was archived before this snapshot
	check("ended", "0.000", map[string]string{"jobs_total pending": "3.000", "jobs_total succeeded": "1.000"})
	w.apply(false, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: "b"}})
	if n := len(w.metrics.jobs.phase); n != 0 {
		t.Errorf("%d jobs are remembered that are not live any more", n)
	}
}
