package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/history/historytest"
	"github.com/ares-scheduler/ares/test/cluster"
)

// TestHistoryMissesNothingWhenItsDatabaseIsKilled submits jobs continuously.
// Meanwhile the history database and the leader are killed and restarted. Jobs
// must keep running, and in the end history must contain each job exactly once.
func TestHistoryMissesNothingWhenItsDatabaseIsKilled(t *testing.T) {
	db := historytest.StartPostgres(t)
	base := db.New(t)
	w := newCluster(t, cluster.Etcd(1), cluster.Config("history: {url: \""+base.Config.URL+"\"}\n"))
	one, two := w.StartServer("one"), w.StartServer("two")
	c := w.Client(one, two)
	w.StartAgent("node-a", one, two)
	w.StartAgent("node-b", one, two)
	online(t, c, "node-a", "node-b")
	busy := startBusy(t, c)
	recorded := func(n int64) func() (bool, string) {
		return func() (bool, string) {
			got := int64(-1)
			err := base.Raw.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM finished_jobs").Scan(&got)
			return err == nil && got >= n, fmt.Sprint(got, " jobs in history, want ", n, " ", err)
		}
	}
	poll(t, patience, "the first jobs in history", recorded(10))

	db.Kill()
	before := busy.ended()
	poll(t, patience, "jobs that run without the database", func() (bool, string) {
		n := busy.ended() - before
		return n >= 20, fmt.Sprint(n, " ended")
	})
	poll(t, patience, "jobs that wait for it", func() (bool, string) {
		n := one.Metric("ares_history_backlog") + two.Metric("ares_history_backlog")
		return n >= 20, fmt.Sprint(n)
	})
	if _, err := c.Usage(t.Context(), &apipb.GetUsageRequest{}); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("usage without the database is answered %v", err)
	}
	leader := one
	if two.Metric("ares_history_backlog") > 0 {
		leader = two
	}
	leader.Kill()
	leader.Start()
	leader.AwaitReady()
	db.Start()
	after := busy.ended()
	poll(t, patience, "jobs that run after all that", func() (bool, string) {
		n := busy.ended() - after
		return n >= 20, fmt.Sprint(n, " ended")
	})
	ids := busy.stop()
	poll(t, patience, "every job in history", recorded(int64(len(ids))))
	base.Recount(t)
	got := map[string]int{}
	for job, err := range c.AllJobs(t.Context(), &apipb.ListJobsRequest{All: true, PageSize: 50}) {
		if err != nil {
			t.Fatal(err)
		}
		got[job.GetJobId()]++
	}
	for _, id := range ids {
		if got[id] != 1 {
			t.Errorf("job %s is listed %d times", id, got[id])
		}
	}
	var n, ended int64
	if err := base.Raw.QueryRowContext(t.Context(), "SELECT COUNT(*), SUM(CASE phase WHEN 'succeeded' THEN 1 ELSE 0 END) FROM finished_jobs").Scan(&n, &ended); err != nil {
		t.Fatal(err)
	}
	if n != int64(len(ids)) || ended != n {
		t.Errorf("history has %d jobs, %d succeeded; %d were accepted", n, ended, len(ids))
	}
	used, err := c.Usage(t.Context(), &apipb.GetUsageRequest{})
	if err != nil || len(used.GetRows()) != 1 || int(used.GetRows()[0].GetJobs()) != len(ids) {
		t.Errorf("usage is %v, %v; want %d jobs", used, err, len(ids))
	}
}

// The type `busy` submits jobs, a few at a time, and waits for each job to end.
// It does so until the method `stop` is called.
type busy struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	ids    []string
	done   int
}

func startBusy(t *testing.T, c *client.Client) *busy {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &busy{cancel: cancel}
	for range 4 {
		b.wg.Go(func() {
			for ctx.Err() == nil {
				b.one(t, c)
			}
		})
	}
	t.Cleanup(func() { b.stop() })
	return b
}

func (b *busy) one(t *testing.T, c *client.Client) {
	t.Helper()
	got, err := c.Submit(t.Context(), &apipb.JobSpec{Command: []string{"true"}, GpuCount: 1})
	if err != nil {
		t.Errorf("submit: %v", err)
		b.cancel()
		return
	}
	b.mu.Lock()
	b.ids = append(b.ids, got.GetJobId())
	b.mu.Unlock()
	job, err := c.Wait(t.Context(), got.GetJobId())
	if err != nil || job.GetState() != string(ares.Succeeded) {
		t.Errorf("job %s ended %s: %v", got.GetJobId(), job.GetState(), err)
		b.cancel()
		return
	}
	b.mu.Lock()
	b.done++
	b.mu.Unlock()
}

func (b *busy) ended() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

// This method waits for the last jobs and returns the IDs of all jobs.
func (b *busy) stop() []string {
	b.cancel()
	b.wg.Wait()
	return b.ids
}
