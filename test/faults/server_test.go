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
)

// crowd is one of each kind of job, n times over.
func crowd(w *world, n int) []*apipb.JobSpec {
	var out []*apipb.JobSpec
	add := func(kind string, i int, body string) *apipb.JobSpec {
		s := w.job(fmt.Sprintf("%s-%d", kind, i), body)
		s.LostAfterSeconds = 60 // the server is away for a moment; nobody is lost
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

// submitAll hands jobs in, some at a time, and repeats what was not
// acknowledged under the same request ID until it is.
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

// cancelAll cancels jobs by their names' prefix, whatever phase they are in.
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
	w := newWorld(t)
	s := w.server("server")
	c := w.client(s)
	w.agent("node-a", s)
	w.agent("node-b", s)
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
	for _, traces := range []int{10, 30} { // twice: in the middle of the submissions, and of the runs
		poll(t, patience, "some jobs to have started", func() (bool, string) {
			n := len(w.witnesses())
			return n >= traces, fmt.Sprint(n)
		})
		s.kill()
		s.start()
		s.ready()
	}
	<-submitted
	if i := slices.Index(ids, ""); i >= 0 {
		t.Fatalf("%s was never accepted", specs[i].GetName())
	}
	cancelAll(t, c, specs, ids)
	s.kill()
	s.start()
	s.ready()
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

// witnesses are the jobs that have started.
func (w *world) witnesses() []string {
	w.t.Helper()
	out, err := filepath.Glob(filepath.Join(w.trace(), "*.trace"))
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// consistent compares a finished job's attempts with what its processes wrote.
func consistent(t *testing.T, w *world, j *apipb.Job, kind string) {
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
	if outcomes["lost"] > 0 { // a claim whose answer went down with the server (R1)
		t.Logf("%s: attempts %v", j.GetName(), outcomes)
	}
}

func TestServerStoppedPastItsTermDecidesNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startEtcd()
	hosts := []*host{w.server("one"), w.server("two")}
	st := w.open()
	leads := func(h *host) func() (bool, string) {
		return func() (bool, string) {
			name, err := st.Leader(t.Context())
			return name == h.id(), fmt.Sprint(name, err)
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
	c := w.client(next)
	w.agent("node-a", old, next)
	online(t, c, "node-a")
	var specs []*apipb.JobSpec
	for i := range 40 {
		spec := w.job(fmt.Sprintf("job-%d", i), "sleep 0.2\n")
		spec.GpuCount, spec.LostAfterSeconds = 1, 60
		specs = append(specs, spec)
	}
	// A queue of work is there when the leader falls silent.
	ids := submitAll(t.Context(), t, c, specs[:20])
	w.started(ids[0], 1, 1)
	old.freeze()
	poll(t, patience, "the other server to lead", leads(next))
	ids = append(ids, submitAll(t.Context(), t, c, specs[20:30])...)
	w.ends(c, ids[25], ares.Succeeded)
	old.thaw()
	ids = append(ids, submitAll(t.Context(), t, w.client(old), specs[30:])...)
	for _, id := range ids {
		j := w.ends(c, id, ares.Succeeded)
		if n := len(of(w.lines(id), "end", 0)); n != 1 {
			t.Errorf("%s ended %d times: %v", id, n, j.GetAttempts())
		}
	}
	poll(t, patience, "the old leader to know it", func() (bool, string) { return old.says("leadership ended"), "" })
	if ok, seen := leads(next)(); !ok {
		t.Errorf("%s leads, want the server that took over", seen)
	}
}

// counter prints numbered lines, the second half when it is let go.
const counter = `i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo "line $i"; [ $i -gt 100 ] || sleep 0.02; done
` + untilReleased + `while [ $i -lt 400 ]; do i=$((i+1)); echo "line $i"; done
`

func TestLogsAreWholeAfterAServerRestartAndThroughTheOtherServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startEtcd()
	one, two := w.server("one"), w.server("two")
	c := w.client(two)
	a := w.agent("node-a", one, two) // its connections are at one
	online(t, c, "node-a")
	spec := w.job("counter", counter)
	spec.LostAfterSeconds = 60
	id := w.submit(c, spec)
	w.started(id, 1, 1)
	live, said := follow(t, c, id)
	poll(t, patience, "the first lines, forwarded while they are printed", func() (bool, string) {
		return strings.Contains(live.String(), "line 50\n"), live.String()
	})
	one.kill()
	if err := <-said; err == nil {
		t.Error("a stream cut in the middle ended as if it were whole")
	}
	one.start()
	one.ready()
	online(t, c, "node-a")
	poll(t, patience, "the agent at the other server", func() (bool, string) {
		return a.says("server=" + two.at.GRPC), ""
	})
	// Now the node is at two: ask one, which must forward.
	rest, said := follow(t, w.client(one), id)
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
	for name, reader := range map[string]*client.Client{"one": w.client(one), "two": c} {
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

// shared is a buffer that is read while it is written.
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

// follow reads a job's log as it grows; the channel tells how that ended.
func follow(t *testing.T, c *client.Client, id string) (*shared, <-chan error) {
	out, said := &shared{}, make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	go func() { said <- c.Logs(ctx, id, client.LogOptions{Follow: true}, out) }()
	return out, said
}

// An agent whose only server was away for long comes back soon after it, and
// not when a growing delay happens to be over.
func TestAgentReturnsSoonAfterALongOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.server("server")
	c := w.client(s)
	a := w.agent("node-a", s)
	online(t, c, "node-a")
	spec := w.job("patient", untilReleased)
	spec.LostAfterSeconds = 120
	id := w.submit(c, spec)
	first := w.started(id, 1, 1)[0]
	s.kill()
	rest(20 * time.Second)
	s.start()
	s.ready()
	back := time.Now()
	poll(t, patience, "a new session", func() (bool, string) {
		n := strings.Count(tail(a.log, 1<<20), "session open")
		return n == 2, fmt.Sprintf("%d sessions so far", n)
	})
	t.Logf("the agent was back %s after its server", time.Since(back).Round(time.Millisecond))
	w.release("patient")
	w.ends(c, id, ares.Succeeded)
	if end := of(w.lines(id), "end", 1); len(end) != 1 || end[0].pid != first.pid {
		t.Errorf("the job did not go on as it was: %v", end)
	}
}

// A cut shorter than half of lost_after is not noticed by any job.
func TestServerStoppedForAMomentIsNotNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.server("server")
	c := w.client(s)
	w.agent("node-a", s)
	online(t, c, "node-a")
	spec := w.job("calm", untilReleased)
	spec.LostAfterSeconds = 30
	id := w.submit(c, spec)
	first := w.started(id, 1, 1)[0]
	for range 2 {
		s.freeze()
		rest((ttl - 1) * time.Second)
		s.thaw()
		online(t, c, "node-a")
	}
	w.release("calm")
	j := w.ends(c, id, ares.Succeeded)
	if end := of(w.lines(id), "end", 1); len(end) != 1 || end[0].pid != first.pid || len(j.GetAttempts()) != 1 {
		t.Errorf("it was noticed: %v, %v", end, j.GetAttempts())
	}
}
