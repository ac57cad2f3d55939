package server_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/server"
)

// TestALongJobGivesWay: with preempt_by_order a job that is thought to be short
// stops a long one of its queue that saves its progress; that one runs again when
// the short one is done, and its user's retries are as many as before.
func TestALongJobGivesWay(t *testing.T) {
	_, c := up(t, "v100-4", func(cfg *server.Config) {
		cfg.Scheduler.QueueOrder, cfg.Scheduler.PreemptByOrder, cfg.Scheduler.CheckLaws = "shortest", true, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := filepath.Join(t.TempDir(), "begun")
	long, err := c.Submit(ctx, &apipb.JobSpec{
		Name: "long", GpuCount: 4, MaxRuntimeMinutes: 600, Checkpoint: &apipb.Checkpoint{Enabled: true},
		Command: []string{"sh", "-c", "test -e $0 && exit 0; touch $0; exec sleep 600", seen},
	})
	if err != nil {
		t.Fatal(err)
	}
	for begun := false; !begun; {
		if _, err = c.Job(ctx, long.JobId); err != nil {
			t.Fatal(err)
		}
		_, missing := os.Stat(seen)
		begun = missing == nil
	}
	short, err := c.Submit(ctx, &apipb.JobSpec{Name: "short", GpuCount: 1, MaxRuntimeMinutes: 1, Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{short.JobId, long.JobId} {
		job, err := c.Wait(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if job.State != "succeeded" {
			t.Fatalf("%s is %s: %s", id, job.State, job.Reason)
		}
		if id == long.JobId && (len(job.Attempts) != 2 || job.Attempts[0].Outcome != "stopped") {
			t.Errorf("its attempts are %v", job.Attempts)
		}
	}
}
