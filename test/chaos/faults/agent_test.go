package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
)

// This function waits until an attempt has an outcome. It checks that the watched
// processes died before the attempt ended.
func voided(t *testing.T, c *client.Client, id string, attempt int, watched ...*death) *apipb.Attempt {
	t.Helper()
	var got *apipb.Attempt
	poll(t, patience, fmt.Sprintf("attempt %d of %s to end", attempt, id), func() (bool, string) {
		j, err := c.Job(t.Context(), id)
		for _, a := range j.GetAttempts() {
			if int(a.GetNumber()) == attempt && a.GetOutcome() != "" {
				got = a
			}
		}
		return got != nil, fmt.Sprint(j.GetState(), err)
	})
	for _, d := range watched {
		if !d.dead() {
			t.Errorf("attempt %d of %s ended while pid %d was alive", attempt, id, d.pid)
		}
		d.wait()
		t.Logf("pid %d died %s before attempt %d ended (%s)", d.pid, got.GetEndedAt().AsTime().Sub(d.wall).Round(time.Millisecond), attempt, got.GetReason())
		if ended := got.GetEndedAt().AsTime(); !d.wall.Before(ended) {
			t.Errorf("attempt %d of %s ended at %s, but pid %d lived until %s", attempt, id, ended, d.pid, d.wall)
		}
	}
	return got
}

// This function checks that the processes of an attempt started only after the
// watched processes were dead.
func after(t *testing.T, starts []line, watched ...*death) {
	t.Helper()
	for _, d := range watched {
		d.wait()
		for _, l := range starts {
			if l.at+10*time.Millisecond < d.boot { // the resolution of /proc/uptime
				t.Errorf("rank %d of attempt %d started at %s, but pid %d lived until %s", l.rank, l.attempt, l.at, d.pid, d.boot)
			}
		}
	}
}

func TestAgentKilledAndRestartedInTimeKeepsItsAttempt(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	a := w.StartAgent("node-a", s)
	spec := w.job("survivor", untilReleased)
	spec.LostAfterSeconds = 30 // never expires, however slow this machine is
	id := w.submit(c, spec)
	first := w.started(id, 1, 1)[0]
	w.state(c, id, ares.Running)

	a.Kill()
	if !cluster.Alive(first.pid) {
		t.Fatal("the job died with its agent")
	}
	a.Start()
	poll(t, patience, "the agent to find its seat again", func() (bool, string) { return a.Logged("seat found again"), "" })
	online(t, c, "node-a")
	w.release("survivor")
	j := w.ends(c, id, ares.Succeeded)
	all := w.lines(id)
	if n := len(of(all, "start", 0)); n != 1 {
		t.Errorf("the job was started %d times, want once", n)
	}
	if end := of(all, "end", 1); len(end) != 1 || end[0].pid != first.pid || end[0].fence != first.fence {
		t.Errorf("started as %v, ended as %v", first, end)
	}
	if len(j.GetAttempts()) != 1 || fenceOf(t, j, 1) != first.fence || j.GetRetries() != 0 {
		t.Errorf("attempts %v, retries %d; the process had fence %d", j.GetAttempts(), j.GetRetries(), first.fence)
	}
}

func TestAgentKilledForGoodItsProcessDiesBeforeTheVoid(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	a := w.StartAgent("node-a", s)
	online(t, c, "node-a")
	id := w.submit(c, w.job("moves", stubborn))
	first := w.started(id, 1, 1)[0]
	d := watch(t, first.pid)
	w.StartAgent("node-b", s)
	online(t, c, "node-b")

	a.Kill()
	voided(t, c, id, 1, d)
	second := w.started(id, 2, 1)
	after(t, second, d)
	w.release("moves")
	j := w.ends(c, id, ares.Succeeded)
	if second[0].fence <= first.fence {
		t.Errorf("fences %d, then %d: want it to grow", first.fence, second[0].fence)
	}
	if len(j.GetAttempts()) != 2 || j.GetAttempts()[1].GetSeats()[0].GetNode() != "node-b" || j.GetRetries() != 0 {
		t.Errorf("want attempt 2 on node-b and no retry used; got %v, retries %d", j.GetAttempts(), j.GetRetries())
	}
}

// TestAgentWithoutItsDirectoryWaitsForWhatItsPredecessorLeft starts an agent that
// lost its directory. The agent therefore has a new identity. The agent finds a
// claimed seat without a process, although the old process is still running.
func TestAgentWithoutItsDirectoryWaitsForWhatItsPredecessorLeft(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	a := w.StartAgent("node-a", s)
	online(t, c, "node-a")
	spec := w.job("left", stubborn)
	spec.LostAfterSeconds = 4 * ttl
	id := w.submit(c, spec)
	first := w.started(id, 1, 1)[0]
	d := watch(t, first.pid)
	w.state(c, id, ares.Running)
	a.Kill()
	// Start an agent for the same node with a new directory. While the session of
	// its predecessor is open, the server rejects this agent. The agent is
	// therefore restarted, as by an init system.
	dir := filepath.Join(w.Dir, "again")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(a.Argv())
	args[slices.Index(args, "--data-dir")+1] = dir
	b := w.Run("again", nil, args...)
	poll(t, patience, "the new agent to be accepted", func() (bool, string) {
		select {
		case <-b.Ended():
			b.Start()
		default:
		}
		return b.Logged("session open"), "not yet"
	})
	if !cluster.Alive(first.pid) {
		t.Fatal("the process died before its lease was over: the test shows nothing")
	}
	second := w.started(id, 2, 1)
	after(t, second, d)
	w.release("left")
	w.ends(c, id, ares.Succeeded)
}

// TestAgentKilledBetweenPlacedAndClaimedStrandsNothing freezes an agent after a
// seat was assigned to its node. The frozen agent cannot claim the seat. If the
// agent is then killed, the seat must not stay allocated. The test covers both
// cases: the job moves to another node, or the same node returns.
func TestAgentKilledBetweenPlacedAndClaimedStrandsNothing(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{false, true} {
		name := "AnotherAgentFinishes"
		if same {
			name = "TheSameAgentFinishes"
		}
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			s := w.StartServer("server")
			c := w.Client(s)
			a := w.StartAgent("node-a", s)
			online(t, c, "node-a")
			a.Freeze()
			id := w.submit(c, w.job("placed", "sleep 0.1\n"))
			j := w.state(c, id, ares.Scheduled)
			if got := j.GetAttempts()[0].GetSeats()[0]; got.GetState() != string(ares.SeatPlaced) || got.GetNode() != "node-a" {
				t.Fatalf("the seat is %v, want it placed on node-a", got)
			}
			a.Kill()
			if same {
				a.Start()
			} else {
				w.StartAgent("node-b", s)
			}
			w.ends(c, id, ares.Succeeded)
			if n := len(of(w.lines(id), "start", 0)); n != 1 {
				t.Errorf("the job was started %d times, want once", n)
			}
		})
	}
}

func TestAgentStoppedPastLostAfterAndResumedIsAHarmlessZombie(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	a := w.StartAgent("node-a", s)
	online(t, c, "node-a")
	id := w.submit(c, w.job("zombie", stubborn))
	first := w.started(id, 1, 1)[0]
	d := watch(t, first.pid)
	w.state(c, id, ares.Running)
	a.Freeze()
	// The job "late" is assigned to the frozen node, but none of its processes may
	// ever start there.
	late := w.submit(c, w.job("late", untilReleased))
	w.state(c, late, ares.Scheduled)
	w.StartAgent("node-b", s)
	online(t, c, "node-b")

	voided(t, c, id, 1, d)
	second := w.started(id, 2, 1)
	after(t, second, d)
	w.started(late, 2, 1)
	finishLate := lateReport(t, w, s, id, first.fence)
	finishLate() // while attempt 2 runs

	a.Thaw()
	online(t, c, "node-a")
	poll(t, patience, "the refusal of the late report", func() (bool, string) {
		return a.Logged("the report of a seat's end was rejected"), "its log says nothing of it"
	})
	w.release("zombie")
	w.release("late")
	j := w.ends(c, id, ares.Succeeded)
	finishLate() // and after the commit
	w.ends(c, late, ares.Succeeded)
	if n := len(of(w.lines(id), "start", 0)); n != 2 {
		t.Errorf("the job was started %d times, want twice", n)
	}
	if got := of(w.lines(late), "start", 1); len(got) != 0 {
		t.Errorf("the resumed agent spawned late: %v", got)
	}
	if got := j.GetAttempts()[0].GetOutcome(); got != string(ares.OutcomeLost) || j.GetRetries() != 0 {
		t.Errorf("attempt 1 ended %s with %d retries used, want lost and none", got, j.GetRetries())
	}
	again, err := c.Job(t.Context(), id)
	if err != nil || again.GetRevision() != j.GetRevision() && again.GetState() != j.GetState() {
		t.Errorf("the late report changed the job: %v, %v", again, err)
	}
}

// lateReport returns a function that calls the agents' API directly. The
// function reports success under an old fence, and checks that the server
// rejects the report.
func lateReport(t *testing.T, w *testCluster, s *cluster.Server, id string, fence int64) func() {
	node, err := client.New(client.Options{Addresses: []string{s.At.GRPC}, Token: s.File(server.NodeTokenFile)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	return func() {
		t.Helper()
		_, err := apipb.NewAgentServiceClient(node.Conn()).FinishSeat(t.Context(), &apipb.FinishSeatRequest{
			Ref: &apipb.SessionRef{NodeId: "node-a", Session: 1}, Seat: &apipb.SeatRef{JobId: id, Fence: fence},
			Result: &apipb.RankResult{Outcome: string(ares.OutcomeSucceeded)},
		})
		if code := ares.CodeOf(apipb.FromStatus(err)); code != ares.Fenced {
			t.Errorf("a late report was answered %q (%v), want %q", code, err, ares.Fenced)
		}
	}
}

func TestGangThatLosesANodeIsRequeuedTogether(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	w.StartAgent("node-a", s)
	b := w.StartAgent("node-b", s)
	online(t, c, "node-a", "node-b")
	gang := w.job("gang", stubborn)
	gang.Members, gang.GpuCount = 2, 4 // each member needs a whole node
	id := w.submit(c, gang)
	first := w.started(id, 1, 2)
	deaths := []*death{watch(t, first[0].pid), watch(t, first[1].pid)}
	j := w.state(c, id, ares.Running)
	lostRank := slices.IndexFunc(first, func(l line) bool {
		return j.GetAttempts()[0].GetSeats()[l.rank].GetNode() == "node-b"
	})

	b.Kill()
	voided(t, c, id, 1, deaths[lostRank]) // the healthy rank is stopped afterwards
	for _, d := range deaths {
		d.wait()
	}
	w.state(c, id, ares.Pending)
	w.StartAgent("node-c", s)
	second := w.started(id, 2, 2)
	after(t, second, deaths...)
	w.release("gang")
	j = w.ends(c, id, ares.Succeeded)
	if len(j.GetAttempts()) != 2 || j.GetRetries() != 0 {
		t.Errorf("want two attempts and no retry used: %v, retries %d", j.GetAttempts(), j.GetRetries())
	}
	for _, seat := range j.GetAttempts()[1].GetSeats() {
		if seat.GetNode() == "node-b" {
			t.Errorf("attempt 2 has a seat on the dead node: %v", seat)
		}
	}
}

func TestAtMostOnceJobOnALostNodeIsNotRunAgain(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	a := w.StartAgent("node-a", s)
	online(t, c, "node-a")
	once := w.job("once", stubborn)
	once.ExecutionMode = string(ares.AtMostOnce)
	id := w.submit(c, once)
	d := watch(t, w.started(id, 1, 1)[0].pid)
	w.StartAgent("node-b", s)
	online(t, c, "node-b")
	a.Kill()
	voided(t, c, id, 1, d)
	j := w.ends(c, id, ares.Lost)
	// A later job that succeeds on node-b shows that the capacity was available.
	w.ends(c, w.submit(c, w.job("later", "sleep 0.1\n")), ares.Succeeded)
	if n := len(of(w.lines(id), "start", 0)); n != 1 || len(j.GetAttempts()) != 1 || j.GetRetries() != 0 {
		t.Errorf("started %d times, attempts %v, retries %d: want one, one and none", n, j.GetAttempts(), j.GetRetries())
	}
}

func TestFailingJobRunsOnceAndItsRetries(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	w.StartAgent("node-a", s)
	failing := w.job("failing", "say end\nexit 3\n")
	failing.Retry = &apipb.RetryPolicy{MaxRetries: new(int32(2)), InitialBackoffSeconds: 0.4, Multiplier: 4}
	id := w.submit(c, failing)
	j := w.ends(c, id, ares.Failed)
	all := w.lines(id)
	starts, ends := of(all, "start", 0), of(all, "end", 0)
	if len(starts) != 3 || len(ends) != 3 || j.GetRetries() != 2 || j.GetResult().GetExitCode() != 3 {
		t.Fatalf("started %d times, %d retries, exit code %d; want 3, 2 and 3", len(starts), j.GetRetries(), j.GetResult().GetExitCode())
	}
	for i, least := range []time.Duration{300 * time.Millisecond, 1200 * time.Millisecond} { // allow for a quarter of jitter
		if gap := starts[i+1].at - ends[i].at; gap < least-20*time.Millisecond {
			t.Errorf("retry %d came after %s, want at least %s", i+1, gap, least)
		}
	}
}

// TestOrphanIsDeadBeforeItsSeatIsReleased checks a job that leaves an orphaned
// process behind. The orphan is in a Unix session of its own. The seat of the job
// must stay allocated until the orphan is dead too.
func TestOrphanIsDeadBeforeItsSeatIsReleased(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	w.StartAgent("node-a", s)
	online(t, c, "node-a")
	leaves := w.job("leaves", `( setsid sh -c 'trap "" TERM HUP; echo $$ >"$TRACE/orphan"; while :; do sleep 0.2; done' & )
while ! [ -s "$TRACE/orphan" ]; do sleep 0.05; done
`+untilReleased)
	leaves.GpuCount = 4
	id := w.submit(c, leaves)
	next := w.job("next", "")
	next.GpuCount = 4
	nextID := w.submit(c, next)
	var orphan int
	poll(t, patience, "the orphan", func() (bool, string) {
		data, _ := os.ReadFile(w.trace() + "/orphan")
		_, err := fmt.Sscan(string(data), &orphan)
		return err == nil && cluster.Alive(orphan), fmt.Sprint(err)
	})
	d := watch(t, orphan)
	w.release("leaves")
	poll(t, patience, "the seat to be released", func() (bool, string) {
		j, err := c.Job(t.Context(), id)
		if err != nil || len(j.GetAttempts()) == 0 {
			return false, fmt.Sprint(err)
		}
		state := j.GetAttempts()[0].GetSeats()[0].GetState()
		if state == string(ares.SeatReleased) && cluster.Alive(orphan) {
			t.Fatalf("the seat was released while the orphan %d was alive", orphan)
		}
		return state == string(ares.SeatReleased), state
	})
	w.ends(c, id, ares.Succeeded)
	w.ends(c, nextID, ares.Succeeded)
	after(t, w.started(nextID, 1, 1), d)
}

func TestSupervisorKilledOrStoppedItsJobIsLostAndRunsAgain(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"Killed": syscall.SIGKILL, "Stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t)
			s := w.StartServer("server")
			c := w.Client(s)
			a := w.StartAgent("node-a", s)
			id := w.submit(c, w.job("victim", untilReleased))
			other := w.submit(c, w.job("beside", untilReleased))
			first := w.started(id, 1, 1)[0]
			near := w.started(other, 1, 1)[0]
			d := watch(t, first.pid)
			w.state(c, id, ares.Running)
			if err := syscall.Kill(w.supervisorOf(id), sig); err != nil {
				t.Fatal(err)
			}
			second := w.started(id, 2, 1)
			after(t, second, d)
			w.release("victim")
			w.release("beside")
			j := w.ends(c, id, ares.Succeeded)
			if got := j.GetAttempts()[0].GetOutcome(); got != string(ares.OutcomeLost) || j.GetRetries() != 0 {
				t.Errorf("attempt 1 ended %s with %d retries used, want lost and none", got, j.GetRetries())
			}
			w.ends(c, other, ares.Succeeded)
			if end := of(w.lines(other), "end", 1); len(end) != 1 || end[0].pid != near.pid {
				t.Errorf("the job beside it did not go on as it was: %v", w.lines(other))
			}
			if log := a.Log(); strings.Count(log, "session open") != 1 {
				t.Errorf("one supervisor cost the whole node its session:\n%s", log)
			}
		})
	}
}
