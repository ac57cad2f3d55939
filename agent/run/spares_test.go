//go:build linux

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// rank returns the spec of another seat of the same job.
func rank(n int, script string) Spec {
	spec := sh(script)
	spec.Rank = n
	return spec
}

// spareOf waits for the end of a seat, and returns the supervisor that waits for another seat.
func (w *world) spareOf(p *Proc) int {
	w.Helper()
	pid := w.supervisorPid(p)
	w.want(p, Exited, 0)
	if n := len(w.spares.idle); n != 1 || w.spares.idle[0].pid != pid {
		w.Fatalf("idle supervisors %+v, want only %d", w.spares.idle, pid)
	}
	return pid
}

func fileNames(w *world, pid int) []string {
	w.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name()))
		names = append(names, name)
	}
	return names
}

// TestSupervisorServesAnotherSeat checks that a supervisor serves several seats, and that nothing of one seat reaches the next.
func TestSupervisorServesAnotherSeat(t *testing.T) {
	w := newWorld(t)
	pid := w.spareOf(w.start(rank(0, "echo first; echo left > $TMPDIR/left")))
	files := fileNames(w, pid)
	for n := range 5 {
		p := w.start(rank(n+1, "echo seat "+fmt.Sprint(n)+"; cat /proc/self/oom_score_adj; ls -A $TMPDIR"))
		if got := w.supervisorPid(p); got != pid {
			t.Fatalf("seat %d has supervisor %d, want %d", n, got, pid)
		}
		w.spareOf(p)
		own, err := os.ReadFile("/proc/self/oom_score_adj")
		if err != nil {
			t.Fatal(err)
		}
		if want, got := fmt.Sprintf("seat %d\n%s", n, own), w.log(p.Key()); got != want {
			t.Errorf("log %q, want %q", got, want)
		}
		if err := w.Forget(p.Key()); err != nil {
			t.Fatal(err)
		}
	}
	const poller = 2 // the files of the Go runtime's poller, which it opens when it first needs them
	if now := fileNames(w, pid); len(now) > len(files)+poller {
		t.Errorf("the supervisor has the files %q, and after the first seat %q", now, files)
	}
	for _, name := range fileNames(w, pid) {
		if strings.HasPrefix(name, w.dir) {
			t.Errorf("an idle supervisor has %s open", name)
		}
	}
}

// TestNextSeatIsApart checks that the isolation of one job does not reach the next, in both directions.
func TestNextSeatIsApart(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has other users")
	}
	w := newWorld(t)
	apartly := func(n int, user *User) Spec {
		spec := apart(rank(n, "id -u; grep -E '^(NoNewPrivs|Seccomp|CapBnd)' /proc/self/status; ls /run/ares"))
		spec.User, spec.Limits.MilliCPU, spec.Limits.MemoryMB = user, 0, 0
		return spec
	}
	first := w.start(apartly(0, tenantA))
	pid := w.spareOf(first)
	plain := rank(1, "id -u; ls /run/ares; grep ^Seccomp: /proc/self/status")
	plain.Limits = apartly(1, tenantA).Limits // so that they share a slot
	bare := w.start(plain)
	w.spareOf(bare)
	last := w.start(apartly(2, tenantB))
	if w.supervisorPid(bare) != pid || w.supervisorPid(last) != pid {
		t.Error("the seats had different supervisors")
	}
	w.spareOf(last)
	if got := w.log(bare.Key()); strings.Contains(got, "progress") || !strings.HasPrefix(got, "0\n") || !strings.Contains(got, "Seccomp:\t0") {
		t.Errorf("a job without isolation, after one with it: %s", got)
	}
	a, b := w.log(first.Key()), w.log(last.Key())
	if want := strings.Replace(a, fmt.Sprint(tenantA.UID), fmt.Sprint(tenantB.UID), 1); b != want || !strings.Contains(b, "Seccomp:\t2") || !strings.Contains(b, "NoNewPrivs:\t1") {
		t.Errorf("the last job:\n%sthe first:\n%s", b, a)
	}
	if mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid)); err != nil || strings.Contains(string(mounts), seat.SandboxDir) {
		t.Errorf("mounts of the supervisor: %s, %v", mounts, err)
	}
}

// TestSupervisorEndsWithItsSeat lists the seats whose supervisor must not serve another one.
func TestSupervisorEndsWithItsSeat(t *testing.T) {
	w := newWorld(t)
	secret := rank(0, "true")
	secret.Secrets = []Secret{{Env: "KEY", Value: "value"}}
	w.want(w.start(secret), Exited, 0)
	limited := rank(1, "sleep 1000")
	limited.MaxRuntime = 1
	w.want(w.start(limited), MaxRuntime, -1)
	missing := rank(2, "")
	missing.Argv = []string{"/does/not/exist"}
	w.want(w.start(missing), SpawnError, -1)
	if len(w.spares.idle) > 0 {
		t.Errorf("idle supervisors %+v", w.spares.idle)
	}
}

// TestDeadSpare checks that a seat starts if the supervisor that should serve it died while it was idle.
func TestDeadSpare(t *testing.T) {
	w := newWorld(t)
	pid := w.spareOf(w.start(rank(0, "true")))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := w.spares.idle[0].next
	w.eventually("the supervisor's files are closed", func() bool {
		n, _, err := syscall.Recvfrom(next, make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n == 0 && err == nil || err == syscall.ECONNRESET
	})
	p := w.start(rank(1, "true"))
	if w.supervisorPid(p) == pid {
		t.Error("the seat has the dead supervisor")
	}
	w.spareOf(p)
	w.ReleaseIdle(0)
	w.eventually("all of them are reaped", func() bool { return w.spares.release(0) == 0 })
}

// TestIdleSupervisorEndsWithTheAgent checks that an idle supervisor ends when the agent's end of its socket is closed, and that one with
// a seat goes on.
func TestIdleSupervisorEndsWithTheAgent(t *testing.T) {
	w := newWorld(t)
	go1, go2 := filepath.Join(w.open(), "go"), filepath.Join(w.open(), "go")
	script := "while ! test -e %s; do sleep 0.01; done"
	idle := w.start(rank(0, fmt.Sprintf(script, go1)))
	busy := w.start(rank(1, fmt.Sprintf(script, go2)))
	if err := os.WriteFile(go1, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pid, other := w.spareOf(idle), w.supervisorPid(busy)
	closeAll(w.spares.idle[0].next, busy.child.next)
	w.spares.idle[0].next, busy.child.next = -1, -1
	w.eventually("the idle supervisor ends", func() bool { return !lives(pid) })
	if err := os.WriteFile(go2, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.want(busy, Exited, 0)
	if lives(other) {
		t.Error("a supervisor without an agent waits for another seat")
	}
}

// TestTerminatedSpare checks that an idle supervisor obeys SIGTERM.
func TestTerminatedSpare(t *testing.T) {
	w := newWorld(t)
	pid := w.spareOf(w.start(rank(0, "true")))
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.eventually("the supervisor ends", func() bool { return !lives(pid) })
}

// TestFewSpares checks that only so many supervisors wait for another seat.
func TestFewSpares(t *testing.T) {
	var s spares
	for range maxSpares {
		if !s.keep(spare{child: child{next: -1}}) {
			t.Fatal("too few supervisors are kept")
		}
	}
	if s.keep(spare{child: child{next: -1}}) {
		t.Error("too many supervisors are kept")
	}
	s.close()
	if len(s.idle) > 0 || s.keep(spare{child: child{next: -1}}) {
		t.Error("a closed runner keeps a supervisor")
	}
}
