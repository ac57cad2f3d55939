package server

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
)

// TestYieldsAreCountedOnce checks that each preemption is counted once, however often it is reported.
// Preemptions before this server's start must not be counted.
func TestYieldsAreCountedOnce(t *testing.T) {
	view := cache.NewView(time.Now)
	y := newPreemptionMetrics(view)
	revision := int64(0)
	tell := func(reset bool, events ...ares.Event) {
		revision++
		for i := range events {
			events[i].Revision = revision
		}
		view.Apply(ares.Batch{Revision: revision, Reset: reset, Events: events})
	}
	job := func(id ares.JobID) ares.Event {
		return ares.Event{Job: &ares.Job{ID: id, AcceptedAt: noon, Revision: 1}}
	}
	run := func(id ares.JobID, attempts ...ares.Attempt) ares.Event {
		r := ares.NewRun(noon)
		for _, a := range attempts {
			r.Attempts = append(r.Attempts, a)
			if a.Preemption != nil {
				r.Preemptions++
			}
		}
		return ares.Event{Run: &ares.RunEvent{Job: id, Run: r}}
	}
	gave := func(why ares.PreemptionBasis, lost int64) ares.Attempt {
		return ares.Attempt{Outcome: ares.OutcomeStopped, Preemption: &ares.Preemption{To: "x", Why: why, Lost: lost}}
	}
	tell(true, job("old"), run("old", gave(ares.PreemptByClass, 999_000)))
	tell(false, run("old", gave(ares.PreemptByClass, 999_000), ares.Attempt{}))
	tell(false, job("new"), run("new"))
	tell(false, run("new", gave(ares.PreemptByQuota, 1500)))
	tell(false, run("new", gave(ares.PreemptByQuota, 1500), gave(ares.PreemptByClass, 500)))
	tell(true, job("old"), run("old", gave(ares.PreemptByClass, 999_000), ares.Attempt{}), job("new"), run("new", gave(ares.PreemptByQuota, 1500), gave(ares.PreemptByClass, 500)))
	nominated := ares.NewRun(noon)
	if err := nominated.Nominate(ares.Nomination{At: noon}); err != nil {
		t.Fatal(err)
	}
	tell(false, job("waits"), ares.Event{Run: &ares.RunEvent{Job: "waits", Run: nominated}})
	got := gathered(t, y)
	for name, want := range map[string]string{
		"ares_nominations ": "1.000", "ares_preempted_gpu_seconds_lost_total ": "2.000",
		"ares_preemptions_total class": "1.000", "ares_preemptions_total quota": "1.000", "ares_preemptions_total order": "0.000", "ares_preemptions_total move": "0.000",
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
}
