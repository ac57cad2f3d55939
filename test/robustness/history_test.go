package robustness_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/live"
)

// historyKill kills history's database for a while.
func historyKill(t *tempter) *mishap {
	if !t.scene.take("history") {
		return nil
	}
	t.fleet.db.Kill()
	d := t.between(500, 20_000)
	return &mishap{target: "history", detail: ms(d), lasts: d, undo: both(t.fleet.db.Start, func() { t.scene.drop("history") })}
}

// remembered checks, once everything is well again, that history has every job
// that ended, each once, with the sums of all. It may have more: a restore of the
// store forgets jobs that had ended.
func remembered(t *testing.T, f *fleet) {
	t.Helper()
	c := f.client(0, 20*time.Second)
	defer c.Close()
	ended := map[string]bool{}
	for job, err := range c.AllJobs(t.Context(), &apipb.ListJobsRequest{PageSize: 1000}) {
		if err != nil {
			t.Errorf("list the jobs that history should have: %v", err)
			return
		}
		if ares.Phase(job.GetState()).Final() {
			ended[job.GetJobId()] = true
		}
	}
	live.Await(t, 2*time.Minute, "every job in history", func() (bool, string) {
		rows, err := f.history.Raw.QueryContext(t.Context(), "SELECT job_id FROM jobs")
		if err != nil {
			return false, err.Error()
		}
		defer rows.Close()
		missing := len(ended)
		for rows.Next() {
			var id string
			if err = rows.Scan(&id); err != nil {
				return false, err.Error()
			}
			if ended[id] {
				missing--
			}
		}
		return missing <= 0 && rows.Err() == nil, fmt.Sprint(missing, " of ", len(ended), " are missing ", rows.Err())
	})
	f.history.Recount(t)
	t.Logf("history has every one of %d jobs that ended", len(ended))
}
