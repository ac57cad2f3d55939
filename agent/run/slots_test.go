//go:build linux

package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// inSlot starts two seats, one after the other, with the given limits. The second is in a slot, and has ended.
func (w *world) inSlot(limits Limits) *Proc {
	w.Helper()
	first, second := rank(100, "true"), rank(101, "true")
	first.Limits, second.Limits = limits, limits
	p := w.start(first)
	w.spareOf(p)
	if p.order.InSlot {
		w.Fatal("the first seat of a supervisor is in a slot")
	}
	p = w.start(second)
	w.spareOf(p)
	if !p.order.InSlot {
		w.Fatal("the second seat of a supervisor is not in a slot")
	}
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestSlot checks that seats with the same limits share the cgroups of their supervisor, one after another, that each job has new
// cgroups of its own in them, and that the slot ends with its supervisor.
func TestSlot(t *testing.T) {
	w := newWorld(t)
	limits := Limits{MilliCPU: 500, MemoryMB: 512, Pids: 100}
	slot := w.inSlot(limits).order.Cgroup
	pid := w.spares.idle[0].pid
	busy := rank(0, "i=0; while test $i -lt 100000; do i=$((i+1)); done")
	busy.Limits = limits
	p := w.start(busy)
	if p.order.Cgroup != slot || w.supervisorPid(p) != pid {
		t.Errorf("the seat is in %s, want %s with the same supervisor", p.order.Cgroup, slot)
	}
	used := w.want(p, Exited, 0).CPU
	for n := 1; n < 4; n++ {
		short := rank(n, "true")
		short.Limits = limits
		p := w.start(short)
		if got := w.want(p, Exited, 0).CPU; got > used/2 {
			t.Errorf("processor time %v of a short job after one that used %v", got, used)
		}
	}
	other := rank(10, "true")
	other.Limits = Limits{MilliCPU: 1500, MemoryMB: 512, Pids: 100}
	p = w.start(other)
	if p.order.InSlot || w.supervisorPid(p) == pid {
		t.Errorf("a seat with other limits is in %s", p.order.Cgroup)
	}
	w.want(p, Exited, 0)
	w.eventually("the supervisors end", func() bool { return w.spares.release(0) == 0 })
	for _, dir := range append([]string{slot}, v1Dirs(w, filepath.Base(slot))...) {
		if exists(dir) {
			t.Errorf("%s is left", dir)
		}
	}
	if w.owners.has(slot) {
		t.Error("a slot that is gone has an owner")
	}
}

func v1Dirs(w *world, name string) (dirs []string) {
	for _, parent := range w.limits.v1 {
		dirs = append(dirs, filepath.Join(parent.Dir, name))
	}
	return dirs
}

// TestSlotOfAnotherSeat checks that cleaning up after a seat does not touch the seat that has its slot now, even by an agent that was
// started later, and even if the spec of the later seat is damaged.
func TestSlotOfAnotherSeat(t *testing.T) {
	for _, damage := range []bool{false, true} {
		t.Run(fmt.Sprintf("damaged=%t", damage), func(t *testing.T) {
			w := newWorld(t)
			ended := w.inSlot(Limits{})
			live := w.start(rank(0, stubborn))
			if live.order.Cgroup != ended.order.Cgroup {
				t.Fatalf("the seats are in %s and %s", ended.order.Cgroup, live.order.Cgroup)
			}
			if damage {
				if err := os.Truncate(filepath.Join(w.dir, seatPath(live.Key(), seat.SpecFile)), 20); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.EnsureDead(w.ctx, ended.Key()); err != nil {
				t.Error(err)
			}
			later := w.again()
			found, err := later.Find(w.ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if (f.Proc != nil) != (f.Key == live.Key()) {
					t.Errorf("%s is alive: %t", f.Key, f.Proc != nil)
				}
				if f.Key == live.Key() {
					continue
				}
				if f.Result.Outcome != Exited {
					t.Errorf("%s: %+v", f.Key, f.Result)
				}
				if err := later.EnsureDead(w.ctx, f.Key); err != nil {
					t.Error(err)
				}
				if err := later.Forget(f.Key); err != nil {
					t.Error(err)
				}
			}
			if !lives(live.Pid()) {
				t.Fatal("the live seat was killed with another one")
			}
			if err := later.EnsureDead(w.ctx, live.Key()); err != nil {
				t.Error(err)
			}
			if lives(live.Pid()) || exists(live.order.Cgroup) {
				t.Error("a process or a cgroup of the seat is left")
			}
		})
	}
}

// TestStraySlot checks that an agent removes the slots of an agent that was killed, with every process in them.
func TestStraySlot(t *testing.T) {
	w := newWorld(t)
	slot := w.inSlot(Limits{Pids: 100}).order.Cgroup
	later := w.again()
	if _, err := later.Find(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.eventually("the slot is removed", func() bool {
		later.removeStraySlot(filepath.Base(slot))
		return !exists(slot)
	})
	for _, dir := range v1Dirs(w, filepath.Base(slot)) {
		if exists(dir) {
			t.Errorf("%s is left", dir)
		}
	}
}

// TestSlotWithProcess checks that a slot is not used again while a process is in the cgroup of its last job.
func TestSlotWithProcess(t *testing.T) {
	w := newWorld(t)
	p := w.inSlot(Limits{Pids: 100})
	s := slotOf(&p.order)
	for _, dir := range append([]string{s.cgroup}, v1Dirs(w, filepath.Base(s.cgroup))...) {
		job := filepath.Join(dir, seat.JobGroup)
		if !exists(dir) {
			continue // no limit needs this controller
		}
		if err := os.MkdirAll(job, 0o755); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("sleep", "1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(job, "cgroup.procs"), []byte(fmt.Sprint(c.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
		if s.jobRemoved() {
			t.Errorf("%s counts as empty", job)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
		w.eventually("the cgroup is removed", s.jobRemoved)
	}
}

// TestDeadSpareInSlot checks that a seat starts in a slot whose supervisor died while it was idle.
func TestDeadSpareInSlot(t *testing.T) {
	w := newWorld(t)
	slot := w.inSlot(Limits{}).order.Cgroup
	pid, next := w.spares.idle[0].pid, w.spares.idle[0].next
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("the supervisor's files are closed", func() bool {
		n, _, err := syscall.Recvfrom(next, make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n == 0 && err == nil || err == syscall.ECONNRESET
	})
	p := w.start(rank(0, "true"))
	if w.supervisorPid(p) == pid || p.order.Cgroup != slot {
		t.Errorf("supervisor %d in %s", w.supervisorPid(p), p.order.Cgroup)
	}
	w.spareOf(p)
}

func TestSlotNames(t *testing.T) {
	if _, isKey := seat.ParseKey(slotPrefix + "abc"); isKey || !isSlotName(slotPrefix+"abc") || isSlotName("slot-a.1.0") || strings.Contains(slotPrefix, ".") {
		t.Error("the name of a slot could be that of a seat")
	}
}
