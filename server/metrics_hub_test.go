package server

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
)

// TestHubMetrics follows jobs of a hub: one that runs since before this server's start, one that starts in a cluster, one that waits
// there, and one that nobody owns.
func TestHubMetrics(t *testing.T) {
	view := cache.NewView(time.Now)
	h := newHubMetrics(view)
	revision := int64(0)
	tell := func(reset bool, events ...ares.Event) {
		revision++
		for i := range events {
			events[i].Revision = revision
		}
		view.Apply(ares.Batch{Revision: revision, Reset: reset, Events: events})
	}
	job := func(id ares.JobID, gpus int) ares.Event {
		j := &ares.Job{ID: id, AcceptedAt: noon, Revision: 1}
		j.GPUs = gpus
		return ares.Event{Job: j}
	}
	run := func(id ares.JobID, cluster string, phases ...ares.Phase) ares.Event {
		r := ares.NewRun(noon)
		r.Cluster = cluster
		for i, p := range phases {
			r.Phase = p
			r.Transitions = append(r.Transitions, ares.Transition{At: noon.Add(time.Duration(i+1) * time.Second), Phase: p})
		}
		return ares.Event{Run: &ares.RunEvent{Job: id, Run: r}}
	}
	tell(true, job("old", 8), run("old", "east", ares.Running))
	tell(false, job("a", 2), run("a", ""), job("b", 4), run("b", ""), job("c", 1), run("c", ""))
	tell(false, run("a", "west", ares.Scheduled, ares.Running), run("b", "west"))
	tell(false, run("a", "west", ares.Scheduled, ares.Running, ares.Retrying, ares.Running)) // not its first start
	tell(false, job("d", 1), run("d", "west", ares.Scheduled, ares.Running, ares.Succeeded)) // ended before the hub saw it run
	got := gathered(t, h)
	for name, want := range map[string]string{
		"ares_hub_jobs  waiting": "1.000", "ares_hub_jobs east running": "1.000", "ares_hub_jobs west running": "1.000", "ares_hub_jobs west waiting": "1.000",
		"ares_hub_gpus east": "8.000", "ares_hub_gpus west": "2.000",
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v in %v", name, v, ok, want, got)
		}
	}
	if v := got["ares_hub_start_seconds west"]; v != "2.000" {
		t.Errorf("the starts in west are %q in %v", v, got)
	}
}
