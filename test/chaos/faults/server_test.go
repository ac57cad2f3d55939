package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
)

// This function returns n jobs of each kind.
func crowd(w *testCluster, n int) []*apipb.JobSpec {
	var out []*apipb.JobSpec
	add := func(kind string, i int, body string) *apipb.JobSpec {
		s := w.job(fmt.Sprintf("%s-%d", kind, i), body)
		s.LostAfterSeconds = 60 // the server is away briefly; no node may be declared lost
		out = append(out, s)
		return s
	}
	for i := range n {
		add("short", i, "sleep 0.1\n")
		add("gpu", i, "sleep 0.3\n").GpuCount = 1
		add("failing", i, "say end\nexit 1\n").Retry = &apipb.RetryPolicy{MaxRetries: new(int32(1)), InitialBackoffSeconds: 0.2, Multiplier: 1}
		gang := add("gang", i, "sleep 0.2\n")
		gang.Members, gang.GpuCount = 2, 1
		add("cancelled", i, untilReleased)
	}
	return out
}

// submitAll submits jobs in batches. It repeats unacknowledged submissions under
// the same request ID until they are acknowledged.
func submitAll(ctx context.Context, t *testing.T, c *client.Client, specs []*apipb.JobSpec) []string {
	ids := make([]string, len(specs))
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := k; i < len(specs); i += 8 {
				for ctx.Err() == nil {
					got, err := c.Submit(ctx, specs[i])
					if err == nil {
						ids[i] = got.GetJobId()
						break
					}
					if ares.CodeOf(err) != ares.Unavailable {
						t.Errorf("submit %s: %v", specs[i].GetName(), err)
						break
					}
				}
			}
		})
	}
	wg.Wait()
	return ids
}

// cancelAll cancels the jobs whose names have a given prefix, whatever their
// phase.
func cancelAll(t *testing.T, c *client.Client, specs []*apipb.JobSpec, ids []string) {
	t.Helper()
	for i, s := range specs {
		if !strings.HasPrefix(s.GetName(), "cancelled-") {
			continue
		}
		poll(t, patience, "the cancel of "+s.GetName(), func() (bool, string) {
			_, err := c.Cancel(t.Context(), ids[i])
			return err == nil, fmt.Sprint(err)
		})
	}
}

func TestServerKilledInMidEverythingLosesAndRepeatsNothing(t *testing.T) {
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	w.StartAgent("node-a", s)
	w.StartAgent("node-b", s)
	online(t, c, "node-a", "node-b")
	specs := crowd(w, 20)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var ids []string
	submitted := make(chan struct{})
	go func() {
		defer close(submitted)
		ids = submitAll(ctx, t, c, specs)
	}()
	for _, traces := range []int{10, 30} { // once during the submissions and once during the runs
		poll(t, patience, "some jobs to have started", func() (bool, string) {
			n := len(w.witnesses())
			return n >= traces, fmt.Sprint(n)
		})
		s.Kill()
		s.Start()
		s.AwaitReady()
	}
	<-submitted
	if i := slices.Index(ids, ""); i >= 0 {
		t.Fatalf("%s was never accepted", specs[i].GetName())
	}
	cancelAll(t, c, specs, ids)
	s.Kill()
	s.Start()
	s.AwaitReady()
	for i, spec := range specs {
		kind, _, _ := strings.Cut(spec.GetName(), "-")
		want := map[string]ares.Phase{"failing": ares.Failed, "cancelled": ares.Cancelled}[kind]
		if want == "" {
			want = ares.Succeeded
		}
		j := w.ends(c, ids[i], want)
		consistent(t, w, j, kind)
	}
}

// This method returns the jobs that have started, according to the lines they
// wrote.
func (w *testCluster) witnesses() []string {
	w.t.Helper()
	out, err := filepath.Glob(filepath.Join(w.trace(), "*.trace"))
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// This function compares a finished job's attempts with the lines that its
// processes wrote.
func consistent(t *testing.T, w *testCluster, j *apipb.Job, kind string) {
	t.Helper()
	outcomes := map[string]int{}
	for _, a := range j.GetAttempts() {
		outcomes[a.GetOutcome()]++
		if a.GetOutcome() == "" || a.GetEndedAt() == nil {
			t.Errorf("%s: attempt %d has no end: %v", j.GetName(), a.GetNumber(), a)
		}
	}
	lines := w.lines(j.GetJobId())
	last := j.GetAttempts()
	switch kind {
	case "short", "gpu", "gang":
		ranks := max(int(j.GetMembers()), 1)
		n := int(last[len(last)-1].GetNumber())
		if outcomes["succeeded"] != 1 || len(of(lines, "end", n)) != ranks {
			t.Errorf("%s: outcomes %v, ends %v: want one success and each rank's end in attempt %d", j.GetName(), outcomes, of(lines, "end", 0), n)
		}
	case "failing":
		if outcomes["failed"] != 2 || j.GetRetries() != 1 || len(of(lines, "end", 0)) != 2 {
			t.Errorf("%s: outcomes %v, %d retries, %d runs: want two failures, one retry", j.GetName(), outcomes, j.GetRetries(), len(of(lines, "end", 0)))
		}
	case "cancelled":
		if len(of(lines, "end", 0)) != 0 || outcomes["succeeded"] != 0 {
			t.Errorf("%s: outcomes %v, ends %v: want none", j.GetName(), outcomes, of(lines, "end", 0))
		}
	}
	if outcomes["lost"] > 0 { // a claim whose answer was lost with the server (R1)
		t.Logf("%s: attempts %v", j.GetName(), outcomes)
	}
}

func TestServerStoppedPastItsTermDecidesNothingTwice(t *testing.T) {
	t.Parallel()
	w := newCluster(t, cluster.Etcd(1))
	hosts := []*cluster.Server{w.StartServer("one"), w.StartServer("two")}
	st := w.Store()
	leads := func(h *cluster.Server) func() (bool, string) {
		return func() (bool, string) {
			name, err := st.Leader(t.Context())
			return name == h.ID(), fmt.Sprint(name, err)
		}
	}
	poll(t, patience, "a leader", func() (bool, string) {
		name, err := st.Leader(t.Context())
		return name != "", fmt.Sprint(err)
	})
	if ok, _ := leads(hosts[0])(); !ok {
		slices.Reverse(hosts)
	}
	old, next := hosts[0], hosts[1]
	c := w.Client(next)
	w.StartAgent("node-a", old, next)
	online(t, c, "node-a")
	var specs []*apipb.JobSpec
	for i := range 40 {
		spec := w.job(fmt.Sprintf("job-%d", i), "sleep 0.2\n")
		spec.GpuCount, spec.LostAfterSeconds = 1, 60
		specs = append(specs, spec)
	}
	// The first 20 jobs are queued when the leader is frozen.
	ids := submitAll(t.Context(), t, c, specs[:20])
	w.started(ids[0], 1, 1)
	old.Freeze()
	poll(t, patience, "the other server to lead", leads(next))
	ids = append(ids, submitAll(t.Context(), t, c, specs[20:30])...)
	w.ends(c, ids[25], ares.Succeeded)
	old.Thaw()
	ids = append(ids, submitAll(t.Context(), t, w.Client(old), specs[30:])...)
	for _, id := range ids {
		j := w.ends(c, id, ares.Succeeded)
		if n := len(of(w.lines(id), "end", 0)); n != 1 {
			t.Errorf("%s ended %d times: %v", id, n, j.GetAttempts())
		}
	}
	poll(t, patience, "the old leader to know it", func() (bool, string) { return old.Logged("leadership ended"), "" })
	if ok, seen := leads(next)(); !ok {
		t.Errorf("%s leads, want the server that took over", seen)
	}
}

// The constant `counter` is a script that prints numbered lines. The script
// prints the second half of the lines after the test releases the job.
const counter = `i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo "line $i"; [ $i -gt 100 ] || sleep 0.02; done
` + untilReleased + `while [ $i -lt 400 ]; do i=$((i+1)); echo "line $i"; done
`

func TestLogsAreWholeAfterAServerRestartAndThroughTheOtherServer(t *testing.T) {
	t.Parallel()
	w := newCluster(t, cluster.Etcd(1))
	one, two := w.StartServer("one"), w.StartServer("two")
	c := w.Client(two)
	a := w.StartAgent("node-a", one, two) // it connects to server one first
	online(t, c, "node-a")
	spec := w.job("counter", counter)
	spec.LostAfterSeconds = 60
	id := w.submit(c, spec)
	w.started(id, 1, 1)
	live, said := follow(t, c, id)
	poll(t, patience, "the first lines, forwarded while they are printed", func() (bool, string) {
		return strings.Contains(live.String(), "line 50\n"), live.String()
	})
	one.Kill()
	if err := <-said; err == nil {
		t.Error("a stream cut in the middle ended as if it were whole")
	}
	one.Start()
	one.AwaitReady()
	online(t, c, "node-a")
	poll(t, patience, "the agent at the other server", func() (bool, string) {
		return a.Logged("server=" + two.At.GRPC), ""
	})
	// The node is now connected to server two, so server one must forward the
	// request.
	rest, said := follow(t, w.Client(one), id)
	poll(t, patience, "lines through the restarted server", func() (bool, string) {
		return strings.Contains(rest.String(), "line 200\n"), rest.String()
	})
	w.release("counter")
	if err := <-said; err != nil {
		t.Errorf("follow: %v", err)
	}
	w.ends(c, id, ares.Succeeded)
	var want strings.Builder
	for i := range 400 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	for name, reader := range map[string]*client.Client{"one": w.Client(one), "two": c} {
		var got bytes.Buffer
		if err := reader.Logs(t.Context(), id, client.LogOptions{}, &got); err != nil || got.String() != want.String() {
			t.Errorf("the log through %s is not whole (%v):\n%s", name, err, got.String())
		}
	}
	if rest.String() != want.String() {
		t.Errorf("the followed log is not whole:\n%s", rest.String())
	}
	if n := len(of(w.lines(id), "start", 0)); n != 1 {
		t.Errorf("the job was started %d times", n)
	}
}

// The type `shared` is a buffer that can be read while it is being written.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

var _ io.Writer = (*shared)(nil)

// This function follows a job's log. The returned channel receives the error with
// which the log stream ended.
func follow(t *testing.T, c *client.Client, id string) (*shared, <-chan error) {
	out, said := &shared{}, make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	go func() { said <- c.Logs(ctx, id, client.LogOptions{Follow: true}, out) }()
	return out, said
}

// TestAgentReturnsSoonAfterALongOutage checks that an agent reconnects soon
// after its only server returns from a long outage. The agent must not wait for
// a long backoff to expire.
func TestAgentReturnsSoonAfterALongOutage(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	a := w.StartAgent("node-a", s)
	online(t, c, "node-a")
	spec := w.job("patient", untilReleased)
	spec.LostAfterSeconds = 120
	id := w.submit(c, spec)
	first := w.started(id, 1, 1)[0]
	s.Kill()
	rest(20 * time.Second)
	s.Start()
	s.AwaitReady()
	back := time.Now()
	poll(t, patience, "a new session", func() (bool, string) {
		n := strings.Count(a.Log(), "session open")
		return n == 2, fmt.Sprintf("%d sessions so far", n)
	})
	t.Logf("the agent was back %s after its server", time.Since(back).Round(time.Millisecond))
	w.release("patient")
	w.ends(c, id, ares.Succeeded)
	if end := of(w.lines(id), "end", 1); len(end) != 1 || end[0].pid != first.pid {
		t.Errorf("the job did not go on as it was: %v", end)
	}
}

// TestServerStoppedForAMomentIsNotNoticed checks that no job notices an outage
// shorter than half of lost_after.
func TestServerStoppedForAMomentIsNotNoticed(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	w.StartAgent("node-a", s)
	online(t, c, "node-a")
	spec := w.job("calm", untilReleased)
	spec.LostAfterSeconds = 30
	id := w.submit(c, spec)
	first := w.started(id, 1, 1)[0]
	for range 2 {
		s.Freeze()
		rest((ttl - 1) * time.Second)
		s.Thaw()
		online(t, c, "node-a")
	}
	w.release("calm")
	j := w.ends(c, id, ares.Succeeded)
	if end := of(w.lines(id), "end", 1); len(end) != 1 || end[0].pid != first.pid || len(j.GetAttempts()) != 1 {
		t.Errorf("it was noticed: %v, %v", end, j.GetAttempts())
	}
}
