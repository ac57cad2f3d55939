package robustness_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/live"
)

// historyKill kills the history database for a while.
func historyKill(t *tempter) *inject.Mishap {
	if !t.scene.Take("history") {
		return nil
	}
	t.fleet.db.Kill()
	d := t.Between(500, 20_000)
	return &inject.Mishap{Target: "history", Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.fleet.db.Start, func() { t.scene.Drop("history") })}
}

// This function runs after the last fault. It checks that history contains
// every finished job exactly once, with its outcome and the right totals.
// History may contain additional jobs, because the store forgets finished jobs
// when it is restored from a backup.
func remembered(t *testing.T, f *fleet) {
	t.Helper()
	c := f.client(0, 20*time.Second)
	defer c.Close()
	ended := map[string]string{}
	for job, err := range c.AllJobs(t.Context(), &apipb.ListJobsRequest{PageSize: 1000}) {
		if err != nil {
			t.Errorf("list the jobs that history should have: %v", err)
			return
		}
		if ares.Phase(job.GetState()).Final() {
			ended[job.GetJobId()] = job.GetState()
		}
	}
	live.Await(t, 2*time.Minute, "every job in history", func() (bool, string) {
		rows, err := f.history.Raw.QueryContext(t.Context(), "SELECT job_id, phase FROM finished_jobs ORDER BY accepted_revision")
		if err != nil {
			return false, err.Error()
		}
		defer rows.Close()
		kept := map[string]string{} // of several jobs with the same ID, the last one
		for rows.Next() {
			var id, phase string
			if err = rows.Scan(&id, &phase); err != nil {
				return false, err.Error()
			}
			kept[id] = phase
		}
		missing, example := 0, ""
		for id, phase := range ended {
			if kept[id] != phase {
				missing++
				example = fmt.Sprintf("%s is %s, in history %q", id, phase, kept[id])
			}
		}
		return missing == 0 && rows.Err() == nil, fmt.Sprint(missing, " of ", len(ended), " are not as they ended: ", example, " ", rows.Err())
	})
	audited(t, f)
	t.Logf("history has every one of %d jobs that ended", len(ended))
}

// This function checks that history receives each server's whole audit log. The
// function historytest.Recount then checks the hash chains of these logs.
func audited(t *testing.T, f *fleet) {
	t.Helper()
	for i := range f.controls {
		c := f.client(i, 20*time.Second)
		defer c.Close()
		head, err := c.AuditHead(t.Context())
		if err != nil {
			t.Errorf("the end of an audit log: %v", err)
			continue
		}
		live.Await(t, 2*time.Minute, "the audit log of "+head.GetServer()+" in history", func() (bool, string) {
			var n, last int64
			err := f.history.Raw.QueryRowContext(t.Context(), "SELECT COUNT(*), COALESCE(MAX(sequence), 0) FROM audit WHERE server = $1", head.GetServer()).Scan(&n, &last)
			want, bad := strconv.ParseInt(head.GetSeq(), 10, 64)
			return err == nil && bad == nil && n == last && n >= want, fmt.Sprint(n, " entries up to ", last, ", want ", head.GetSeq(), " ", err)
		})
	}
	f.history.Recount(t)
}
