//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The script `stubborn` is a job that ignores SIGTERM. Its child process ignores SIGTERM too.
const stubborn = `trap "" TERM; echo up; while :; do sleep 1000; done`

// The function `orphan` returns the script of a job that starts a grandchild process in a separate session. The grandchild starts
// with an empty environment, so nothing in it refers to the job. The grandchild's PID is written to the given file.
func orphan(file string) string {
	return `env -i setsid sh -c "trap '' TERM HUP; (echo \$\$ > ` + file + `; exec sleep 1000)" >/dev/null 2>&1 & `
}

func (w *world) untilUp(k Key) {
	w.Helper()
	w.eventually("the job is up", func() bool { return strings.Contains(w.log(k), "up\n") })
}

func TestStop(t *testing.T) {
	w := newWorld(t)
	spec := sh(`trap "echo got it; exit 3" TERM; echo up; while :; do sleep 0.01; done`)
	p := w.start(spec)
	w.untilUp(spec.Key)
	if err := p.Stop(w.ctx, "preempted by big", -1); err != nil {
		t.Fatal(err)
	}
	if res := w.want(p, Stopped, 3); res.Reason != "preempted by big" {
		t.Errorf("result %+v", res)
	}
	if log := w.log(spec.Key); !strings.Contains(log, "got it\n") {
		t.Errorf("log %q", log)
	}
}

func TestStopIgnored(t *testing.T) {
	w := newWorld(t)
	spec := sh(stubborn)
	spec.Grace = time.Hour // must not be the cause of the end
	p := w.start(spec)
	w.untilUp(spec.Key)
	begun := time.Now()
	if err := p.Stop(w.ctx, "cancel", 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	res := w.want(p, Stopped, -1)
	if took := time.Since(begun); res.Signal != syscall.SIGKILL || took < 300*time.Millisecond {
		t.Errorf("after %v: %+v", took, res)
	}
}

func TestKill(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh(stubborn))
	if err := p.Kill(w.ctx); err != nil {
		t.Fatal(err)
	}
	if res := w.want(p, Stopped, -1); res.Reason != "killed" {
		t.Errorf("result %+v", res)
	}
}

func TestMaxRuntime(t *testing.T) {
	w := newWorld(t)
	spec := sh(stubborn)
	spec.MaxRuntime, spec.Grace = 200*time.Millisecond, 100*time.Millisecond
	late := w.stalls()
	begun := time.Now()
	w.want(w.start(spec), MaxRuntime, -1)
	if took := time.Since(begun); took < 300*time.Millisecond || took > 2*time.Second+late() {
		t.Errorf("took %v", took)
	}
}

func TestOrphanDies(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.open(), "pid")
	p := w.start(sh(orphan(file) + `while ! test -s ` + file + `; do sleep 0.01; done`))
	w.untilResult(p)
	if pid := w.pidIn(file); lives(pid) {
		t.Errorf("orphan %d lives", pid)
	}
	w.want(p, Exited, 0)
}

// untilResult waits for the result without calling Wait, which would kill remaining processes. The test can therefore check what the
// supervisor does without the agent.
func (w *world) untilResult(p *Proc) {
	w.Helper()
	w.eventually("there is a result", func() bool {
		_, err := w.read(p.Key(), seat.ResultFile)
		return err == nil
	})
}

func TestSupervisorKilled(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.open(), "pid")
	p := w.start(sh(orphan(file) + stubborn))
	pid := w.pidIn(file)
	if err := syscall.Kill(w.supervisorPid(p), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The main process dies with its supervisor, even without an agent.
	w.eventually("the main process is dead", func() bool { return !lives(p.Pid()) })
	// In an image, the orphan dies with the first process, too.
	if err := w.Forget(p.Key()); !errors.Is(err, ErrAlive) && !setInImage {
		t.Errorf("forget with a living orphan: %v", err)
	}
	w.want(p, Lost, -1)
	if lives(pid) {
		t.Errorf("orphan %d lives", pid)
	}
}

// The method `freeze` stops a process with a signal and returns once the process is stopped.
func (w *world) freeze(pid int) {
	w.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		w.Fatal(err)
	}
	w.eventually("the process stands still", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
}

func TestSupervisorStopped(t *testing.T) {
	w := newWorld(t)
	spec := sh(stubborn)
	spec.LostAfter = 8 * time.Second // 0.4 s remain between the agent's step and the deadline
	late := w.stalls()
	p := w.start(spec)
	sup := w.supervisorPid(p)
	w.freeze(sup)
	died := make(chan BootTime, 1)
	go func() {
		_ = until(w.ctx, func() bool { return !lives(p.Pid()) })
		died <- Now()
	}()
	res := w.want(p, Lost, -1)
	if took := (<-died).Sub(spec.RenewedAt); took > spec.LostAfter*8/10+late() {
		t.Errorf("dead only after %v, on a machine that is %v late", took, late())
	}
	if lives(sup) || !strings.Contains(res.Reason, "killed by the agent") {
		t.Errorf("supervisor lives: %v; %+v", lives(sup), res)
	}
}

func TestSupervisorStoppedThenStop(t *testing.T) {
	w := newWorld(t)
	spec := sh(stubborn)
	p := w.start(spec)
	w.freeze(w.supervisorPid(p))
	ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx, "cancel", 0); err == nil {
		t.Error("a stopped supervisor answered")
	}
	begun := time.Now()
	w.want(p, Lost, -1)
	if took := time.Since(begun); took > spec.LostAfter/2 {
		t.Errorf("took %v, as if nobody had asked for its end", took)
	}
}

func TestSupervisorTerminated(t *testing.T) {
	w := newWorld(t)
	spec := sh(`trap "exit 0" TERM; echo up; while :; do sleep 0.01; done`)
	p := w.start(spec)
	w.untilUp(spec.Key)
	if err := syscall.Kill(w.supervisorPid(p), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.want(p, Lost, 0) // as at a shutdown of the machine, when the job does not end by itself
}

func TestFenced(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.open(), "pid")
	spec := sh(orphan(file) + `trap "echo term" TERM; echo up; while :; do sleep 0.01; done`)
	spec.LostAfter, spec.RenewedAt = 8*time.Second, Now()
	late := w.stalls()
	p := w.start(spec)
	pid := w.pidIn(file)
	at := func(tenths int) BootTime { return spec.RenewedAt.Add(spec.LostAfter / 10 * time.Duration(tenths)) }
	w.eventually("half of lost_after", func() bool { return Now() >= at(5) })
	if !lives(p.Pid()) && Now() < at(7) {
		t.Error("dead before its time")
	}
	if err := p.Renewed(w.ctx, Now()); !errors.Is(err, ErrFenced) && Now() < at(7) {
		t.Errorf("renewal after the decision: %v", err)
	}
	// The agent does not wait for the job in this test, so only the supervisor can kill it.
	w.eventually("all are dead", func() bool { return !lives(p.Pid()) && !lives(pid) })
	if now := Now(); now > at(8).Add(late()) || now < at(6) {
		t.Errorf("dead at %v of lost_after", float64(now-spec.RenewedAt)/float64(spec.LostAfter))
	}
	if err := p.Renewed(w.ctx, Now()); err == nil {
		t.Error("a dead seat was renewed")
	}
	w.want(p, Fenced, -1)
	if log := w.log(spec.Key); !strings.Contains(log, "term\n") {
		t.Errorf("no SIGTERM before SIGKILL: %q", log)
	}
}

func TestRenewalKeepsAlive(t *testing.T) {
	w := newWorld(t)
	spec := sh("echo up; sleep 1000")
	spec.LostAfter = 6 * time.Second // a renewal may be late by half of this time
	p := w.start(spec)
	last := spec.RenewedAt
	w.eventually("lost_after and more", func() bool {
		if Now() > last.Add(100*time.Millisecond) {
			last = Now()
			if err := p.Renewed(w.ctx, last); err != nil {
				t.Fatal(err)
			}
		}
		return Now() > spec.RenewedAt.Add(spec.LostAfter*5/4)
	})
	if !lives(p.Pid()) {
		t.Error("dead in spite of renewals")
	}
	// A repeated or delayed renewal that is older than the last one changes nothing. A renewal with a send time in the future is
	// rejected.
	if err := p.Renewed(w.ctx, spec.RenewedAt); err != nil || p.RenewedAt() != last {
		t.Errorf("an old renewal: %v", err)
	}
	if err := p.Renewed(w.ctx, Now().Add(time.Hour)); err == nil {
		t.Error("a renewal from the future was taken")
	}
}

func TestNeverSpawnsLate(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.open(), "ran")
	spec := sh("touch " + file)
	spec.LostAfter = 20 * time.Second
	spec.RenewedAt = Now().Add(-spec.LostAfter / 2)
	p := w.start(spec)
	res := w.want(p, Fenced, -1)
	if _, err := os.Stat(file); err == nil || !res.Started.IsZero() || p.Pid() != 0 {
		t.Errorf("it ran: %+v", res)
	}
}

func TestReadopted(t *testing.T) {
	w := newWorld(t)
	spec := sh("echo up; sleep 1000")
	spec.Attempt, spec.LostAfter = 3, 6*time.Second // the next agent may start after half of this time
	old := w.start(spec)
	_ = w.Close() // simulates the end of an agent, with all its open files
	w.Runner = w.again().Runner
	found, err := w.Find(w.ctx)
	if err != nil || len(found) != 1 || found[0].Proc == nil || found[0].Attempt != 3 || found[0].Key != spec.Key {
		t.Fatalf("found %+v, %v", found, err)
	}
	p := found[0].Proc
	if p.Pid() != old.Pid() || p.RenewedAt() != spec.RenewedAt || p.Spec().LostAfter != spec.LostAfter {
		t.Errorf("adopted %+v", p)
	}
	w.eventually("lost_after is over", func() bool {
		if err := p.Renewed(w.ctx, Now()); err != nil {
			t.Fatal(err)
		}
		return Now() > spec.RenewedAt.Add(spec.LostAfter)
	})
	if !lives(p.Pid()) {
		t.Error("dead in spite of renewals")
	}
	if err := p.Stop(w.ctx, "done", -1); err != nil {
		t.Fatal(err)
	}
	w.want(p, Stopped, -1)
}

// TestAgentKilled runs the agent as a separate process and kills it.
func TestAgentKilled(t *testing.T) {
	w := newWorld(t)
	_ = w.Close()
	agent := exec.Command(os.Args[0])
	agent.Env = append(os.Environ(), agentEnv+"="+w.dir, supervisorEnv+"="+supervisorPath)
	agent.Stderr = os.Stderr
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = agent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err = fmt.Fscanln(out, &pid); err != nil {
		t.Error(err)
	}
	if err = agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	w.Runner = w.again().Runner
	found, err := w.Find(w.ctx)
	if err != nil || len(found) != 1 || found[0].Proc == nil || found[0].Proc.Pid() != pid || !lives(pid) {
		t.Fatalf("found %+v, %v", found, err)
	}
	p := found[0].Proc
	if err := p.Renewed(w.ctx, Now()); err != nil {
		t.Error(err)
	}
	if err := p.Stop(w.ctx, "enough", 0); err != nil {
		t.Error(err)
	}
	w.want(p, Stopped, -1)
}

func TestFindAll(t *testing.T) {
	w := newWorld(t)
	names := []string{"live", "ended", "killed", "torn-result", "torn-spec", "empty", "torn-live"}
	procs := map[string]*Proc{}
	for _, name := range names[:5] {
		spec := sh("exit 5")
		if name == "live" || name == "killed" {
			spec = sh(stubborn)
		}
		spec.Key = key(name)
		procs[name] = w.start(spec)
		if name == "killed" {
			if err := syscall.Kill(w.supervisorPid(procs[name]), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if name != "live" {
			w.wait(procs[name])
		}
	}
	spec := sh(stubborn)
	spec.Key, spec.Attempt = key("torn-live"), 9
	w.start(spec)
	tear := func(name, file string) {
		path := filepath.Join(w.dir, seatPath(key(name), file))
		st, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, st.Size()-3)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tear("torn-result", seat.ResultFile)
	tear("torn-spec", seat.SpecFile)
	tear("torn-live", seat.SpecFile)
	if err := os.Remove(filepath.Join(w.dir, seatPath(key("torn-spec"), seat.ResultFile))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.dir, "seats/empty.7.0"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.dir, "seats/not a seat"), 0o700); err != nil {
		t.Fatal(err)
	}
	found, err := w.again().Find(w.ctx)
	if err != nil || len(found) != len(names) {
		t.Fatalf("found %+v, %v", found, err)
	}
	for _, f := range found {
		live := f.Key.Job == "live" || f.Key.Job == "torn-live"
		if (f.Proc != nil) != live {
			t.Errorf("%s: live=%v", f.Key, f.Proc != nil)
		}
		want := Result{Outcome: Lost, ExitCode: -1}
		if f.Key.Job == "ended" {
			want = Result{Outcome: Exited, ExitCode: 5}
		}
		if !live && (f.Result.Outcome != want.Outcome || f.Result.ExitCode != want.ExitCode) {
			t.Errorf("%s: %+v, want %+v", f.Key, f.Result, want)
		}
		if f.Key.Job == "torn-live" && (f.Attempt != 9 || f.Proc.Spec().LostAfter != spec.LostAfter) {
			t.Errorf("%s: %+v", f.Key, f)
		}
	}
}

// TestStraysAreKilled checks that processes are killed even if their seat directory has vanished.
func TestStraysAreKilled(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh(stubborn))
	dir := filepath.Join(w.dir, "seats", p.Key().String())
	w.eventually("the directory is gone", func() bool { return os.RemoveAll(dir) == nil }) // the supervisor may still add files
	if _, err := w.again().Find(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is dead", func() bool { return !lives(p.Pid()) })
}

func TestTwoSeats(t *testing.T) {
	w := newWorld(t)
	var procs []*Proc
	for rank := range 2 {
		spec := sh("echo rank " + strconv.Itoa(rank) + "; " + stubborn)
		spec.Rank = rank
		procs = append(procs, w.start(spec))
	}
	for _, p := range procs {
		w.untilUp(p.Key())
	}
	if err := w.EnsureDead(w.ctx, procs[0].Key()); err != nil {
		t.Fatal(err)
	}
	w.want(procs[0], Lost, -1)
	if !lives(procs[1].Pid()) {
		t.Error("the other seat died too")
	}
	if log := w.log(procs[1].Key()); !strings.HasPrefix(log, "rank 1\n") {
		t.Errorf("log %q", log)
	}
	if err := procs[1].Kill(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.want(procs[1], Stopped, -1)
}

func TestStuckClients(t *testing.T) {
	w := newWorld(t)
	spec := sh("sleep 1000")
	spec.LostAfter = 6 * time.Second
	p := w.start(spec)
	// More clients connect than the supervisor accepts. The clients send requests and never read the answers.
	for range 40 {
		conn, err := p.dial(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range 3 {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write([]byte("status"))
		}
	}
	w.eventually("three quarters of lost_after", func() bool {
		if err := p.Renewed(w.ctx, Now()); err != nil {
			t.Fatal(err)
		}
		return Now() > spec.RenewedAt.Add(spec.LostAfter*3/4)
	})
	if err := p.Kill(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.want(p, Stopped, -1)
}

func TestWaitEndsWithContext(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh(stubborn))
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v", err)
	}
	if !lives(p.Pid()) {
		t.Error("an impatient Wait killed the job")
	}
}

// TestUncontained checks that, without cgroups, processes are found by searching /proc and are killed.
func TestUncontained(t *testing.T) {
	w := newWorld(t)
	if err := w.cgroup.Remove(); err != nil {
		t.Fatal(err)
	}
	w.cgroup, w.why = "", "the test says so"
	file := filepath.Join(w.open(), "pid")
	p := w.start(sh(orphan(file) + `while ! test -s ` + file + `; do sleep 0.01; done; exit 4`))
	w.untilResult(p)
	if pid := w.pidIn(file); lives(pid) {
		t.Errorf("orphan %d lives", pid)
	}
	if res := w.want(p, Exited, 4); res.Contained {
		t.Errorf("result %+v", res)
	}
	for i, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		file := filepath.Join(w.open(), "pid")
		// An orphaned process whose supervisor is dead can be found only by its environment.
		spec := sh(strings.Replace(orphan(file), "env -i ", "", 1) + stubborn)
		spec.Rank, spec.LostAfter = i+1, 6*time.Second // the process must have started before half of this time has passed
		p := w.start(spec)
		pid := w.pidIn(file)
		t.Cleanup(func() { _, _ = seat.KillMarked(p.order.Mark, nil) }) // a failing test leaves none either
		if err := syscall.Kill(w.supervisorPid(p), signal); err != nil {
			t.Fatal(err)
		}
		if res := w.want(p, Lost, -1); res.Contained {
			t.Errorf("result %+v", res)
		}
		if lives(pid) {
			t.Errorf("%v: orphan %d lives", signal, pid)
		}
	}
}
