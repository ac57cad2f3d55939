//go:build linux

package run

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// TestAForgedMark starts a process of another tenant with the mark of a seat, on a machine without cgroups. The seat must end without waiting
// for that process, and the process must not be killed for it. A process of the seat's own user counts, whatever it says about
// itself.
func TestAForgedMark(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	if err := w.cgroup.Remove(); err != nil {
		t.Fatal(err)
	}
	w.cgroup, w.why = "", "the test says so"
	p := w.start(apart(sh("sleep 1000")))
	pretend := func(as *User) *exec.Cmd {
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.Env = []string{seat.MarkEnv + "=" + p.order.Mark}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as.UID, Gid: as.GID}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _, _ = cmd.Process.Wait() })
		return cmd
	}
	foreign, own := pretend(tenantB), pretend(tenantA)
	if err := p.Kill(w.ctx); err != nil {
		t.Fatal(err)
	}
	if res := w.wait(p); res.Outcome != Stopped || res.Contained {
		t.Errorf("result %+v", res)
	}
	if st, err := own.Process.Wait(); err != nil || st.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("a process of the seat's user: %v %v", st, err)
	}
	if !lives(foreign.Process.Pid) {
		t.Error("a process of another tenant was killed for its mark")
	}
}
