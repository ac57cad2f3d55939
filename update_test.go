package ares

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// TestUpdateRules checks which jobs can be updated, and that an update is applied once.
func TestUpdateRules(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	job := &Job{ID: "job-a", Spec: Spec{Labels: map[string]string{"k": "v"}}.WithDefaults()}
	run := NewRun(now)
	priority, limit := 900, 90
	changed, err := run.Update(job, JobUpdate{Priority: &priority}, "ann", now)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	next := job.Updated(run.Updated)
	if next == job || next.PriorityValue() != 900 || next.PriorityClass != Normal || job.PriorityValue() != DefaultPriority {
		t.Errorf("the job has priority %d of class %s", next.PriorityValue(), next.PriorityClass)
	}
	if again := next.Updated(run.Updated); again != next {
		t.Error("an update that changes nothing returns another job")
	}
	if changed, err = run.Update(next, JobUpdate{Priority: &priority}, "ann", now); err != nil || changed {
		t.Error("the same update changed the job again", err)
	}
	if changed, err = run.Update(next, JobUpdate{MaxRuntimeMinutes: &limit, Labels: map[string]string{}}, "ann", now); err != nil || !changed {
		t.Fatal(changed, err)
	}
	next = job.Updated(run.Updated)
	if next.PriorityValue() != 900 || next.MaxRuntimeMinutes != 90 || len(next.Labels) != 0 || !maps.Equal(job.Labels, map[string]string{"k": "v"}) {
		t.Errorf("the updates are not added: %+v", next.Spec)
	}
	if n := len(run.Transitions); n != 3 || run.Transitions[2].Message != "time limit, labels changed by ann" {
		t.Errorf("transitions: %+v", run.Transitions)
	}
	other := 800
	for name, c := range map[string]struct {
		run  Run
		job  *Job
		u    JobUpdate
		want string
	}{
		"ended":    {Run{Phase: Succeeded}, next, JobUpdate{Priority: &other}, "already succeeded"},
		"running":  {Run{Phase: Running}, next, JobUpdate{Priority: &other}, "only while it waits"},
		"limit":    {Run{Phase: Scheduled}, next, JobUpdate{MaxRuntimeMinutes: &other}, "only while it waits"},
		"stopping": {Run{Phase: Running, Stop: &Stop{Why: StopCancel}}, next, JobUpdate{Labels: map[string]string{"a": "b"}}, "being stopped"},
		"bound":    {Run{Phase: Pending, Cluster: "east"}, next, JobUpdate{Priority: &other}, "cluster east owns job job-a: update it at a server of that cluster"},
		"array":    {Run{Phase: Running, Next: 2}, &Job{Spec: Spec{Array: Array{Count: 3}}}, JobUpdate{Labels: map[string]string{"a": "b"}}, "elements of the array"},
	} {
		if changed, err := c.run.Update(c.job, c.u, "ann", now); changed || err == nil || !strings.Contains(err.Error(), c.want) || CodeOf(err) != Conflict {
			t.Errorf("%s: %v, %v", name, changed, err)
		}
	}
	if changed, err := (&Run{Phase: Running}).Update(next, JobUpdate{Labels: map[string]string{"a": "b"}}, "ann", now); err != nil || !changed {
		t.Error("the labels of a running job cannot be changed:", err)
	}
}
