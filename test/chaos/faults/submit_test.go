package faults_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
)

// This function submits every job spec ten times, concurrently and through all
// clients. The function returns the ID of each job. It also returns how many
// answers said that the job was new.
func ask(t *testing.T, specs []*apipb.JobSpec, clients ...*client.Client) (ids []string, fresh int) {
	t.Helper()
	const times, workers = 10, 40
	answers := make([]*apipb.SubmitJobResponse, times*len(specs))
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() {
			for i := k; i < len(answers); i += workers {
				got, err := clients[i%len(clients)].Submit(t.Context(), specs[i/times])
				if err != nil {
					t.Errorf("submit %s: %v", specs[i/times].GetRequestId(), err)
				}
				answers[i] = got
			}
		})
	}
	wg.Wait()
	ids = make([]string, len(specs))
	for i, a := range answers {
		n := i / times
		if ids[n] == "" {
			ids[n] = a.GetJobId()
		}
		if a.GetJobId() != ids[n] {
			t.Errorf("request %s was answered with %s and %s", specs[n].GetRequestId(), ids[n], a.GetJobId())
		}
		if a.GetStatus() == "submitted" {
			fresh++
		}
	}
	return ids, fresh
}

// The function `conflicts` repeats a known request ID with a different body. It
// checks that this request is rejected.
func conflicts(t *testing.T, c *client.Client, specs []*apipb.JobSpec) {
	t.Helper()
	for _, s := range specs[:10] {
		_, err := c.Submit(t.Context(), &apipb.JobSpec{RequestId: s.GetRequestId(), Command: []string{"true", "another body"}})
		if ares.CodeOf(err) != ares.Conflict {
			t.Errorf("request %s with another body: %v, want a conflict", s.GetRequestId(), err)
		}
	}
}

func TestAThousandRequestsForAHundredIDsThroughTwoServersAreAHundredJobs(t *testing.T) {
	w := newCluster(t, cluster.Etcd(1))
	one, two := w.StartServer("one"), w.StartServer("two")
	first, second := w.Client(one), w.Client(two)
	w.StartAgent("node-a", one, two)
	specs := make([]*apipb.JobSpec, 100)
	for i := range specs {
		specs[i] = w.job(fmt.Sprintf("job-%d", i), "")
		specs[i].LostAfterSeconds = 60
	}
	stored, err := clientv3.New(clientv3.Config{Endpoints: w.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stored.Close() })
	count := func(when string) {
		t.Helper()
		got, err := stored.Get(t.Context(), "/ares/jobs/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || got.Count != 100 {
			t.Errorf("%s the store holds %d jobs (%v), want 100", when, got.Count, err)
		}
	}

	ids, fresh := ask(t, specs, first, second)
	if fresh != 100 {
		t.Errorf("%d answers say submitted, want 100", fresh)
	}
	count("then")
	conflicts(t, second, specs)
	distinct := map[string]bool{}
	for _, id := range ids {
		distinct[id] = true
		w.ends(first, id, ares.Succeeded)
		if n := len(of(w.lines(id), "start", 0)); n != 1 {
			t.Errorf("%s was started %d times", id, n)
		}
	}
	if len(distinct) != 100 {
		t.Errorf("%d different IDs, want 100", len(distinct))
	}

	archive(t, w, ids)
	again, fresh := ask(t, specs, first, second)
	if fresh != 0 || strings.Join(again, " ") != strings.Join(ids, " ") {
		t.Errorf("after the archive %d of the answers say submitted and the IDs are\n%v, want none and\n%v", fresh, again, ids)
	}
	conflicts(t, first, specs)
	count("after the archive")
	for _, id := range ids {
		if n := len(of(w.lines(id), "start", 0)); n != 1 {
			t.Errorf("%s was started %d times", id, n)
		}
	}
}

// `archive` archives finished jobs, as the Archiver does when their retention
// time is over.
func archive(t *testing.T, w *testCluster, ids []string) {
	t.Helper()
	s := w.Store()
	for _, id := range ids {
		poll(t, patience, id+" to be archived", func() (bool, string) {
			snap, err := s.Job(t.Context(), ares.JobID(id))
			if err == nil {
				err = s.Archive(t.Context(), snap.Job, &snap.Run, nil) // rejected until its seat is released
			}
			return err == nil, fmt.Sprint(err)
		})
	}
}

// TestEmbeddedRestartWithTenThousandJobs only prints the measured time, because
// that time is meaningful only on an idle machine.
func TestEmbeddedRestartWithTenThousandJobs(t *testing.T) {
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	specs := make([]*apipb.JobSpec, 10_000)
	for i := range specs {
		specs[i] = w.job(fmt.Sprintf("job-%d", i), "")
	}
	began := time.Now()
	got, err := c.SubmitBatch(t.Context(), specs)
	if err != nil || got.GetAccepted() != 10_000 {
		t.Fatalf("accepted %d: %v", got.GetAccepted(), err)
	}
	t.Logf("10,000 jobs submitted in %s", time.Since(began).Round(time.Millisecond))
	for _, how := range []string{"kill -9", "kill -9 again"} {
		s.Kill()
		began = time.Now()
		s.Start()
		poll(t, patience, "the server to be ready", func() (bool, string) {
			code, _, bad := s.Get("/api/v1/ready")
			return code == http.StatusOK, fmt.Sprint(code, bad)
		})
		t.Logf("after %s: ready %s after the start of the process, with 10,000 jobs", how, time.Since(began).Round(time.Millisecond))
		if status, bad := c.ClusterStatus(t.Context()); bad != nil || status.GetTotalJobs() != 10_000 {
			t.Errorf("ready, but it knows %d jobs (%v)", status.GetTotalJobs(), bad)
		}
	}
	got, err = c.SubmitBatch(t.Context(), specs)
	if err != nil || got.GetDuplicates() != 10_000 {
		t.Errorf("after the restart %d of the requests are duplicates (%v), want all", got.GetDuplicates(), err)
	}
}
