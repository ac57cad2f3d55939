//go:build linux

package run

import (
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

// cpuGroups returns the cgroup of the controller cpu for each thread of a process, as /proc names it.
func (w *world) cpuGroups(pid int) []string {
	w.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/cgroup", pid))
	if err != nil || len(files) == 0 {
		w.Fatalf("no threads of %d: %v", pid, err)
	}
	_, v1 := w.limits.v1["cpu"]
	var groups []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for line := range strings.Lines(string(b)) {
			f := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(f) == 3 && (v1 && strings.Contains(","+f[1]+",", ",cpu,") || !v1 && f[1] == "") {
				groups = append(groups, f[2])
			}
		}
	}
	return groups
}

// quotaOf reads the limit of processor time of a cgroup, in microseconds for each period. It returns -1 if there is no limit.
func quotaOf(t *testing.T, dir string) int64 {
	t.Helper()
	for _, name := range []string{"cpu.max", "cpu.cfs_quota_us"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		word := strings.Fields(string(b))[0]
		if word == "max" {
			return -1
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("%s has no limit of processor time", dir)
	return 0
}

// TestTheSupervisorIsCharged floods the output of a job with half a core. Storing the output takes processor time of the supervisor. Job and
// supervisor must be in cgroups below one cgroup that has the job's limit, and together they must not use more than that.
func TestTheSupervisorIsCharged(t *testing.T) {
	needRoot(t)
	for name, change := range map[string]func(Spec) Spec{
		"apart": apart,
		"plain": func(s Spec) Spec { return s },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if !w.limited("cpu") {
				return
			}
			spec := change(sh("while :; do echo y; done"))
			spec.Limits.MilliCPU, spec.LogLimit = 500, 1<<20
			p := w.start(spec)
			begun, group := Now(), seat.Cgroup(p.order.Cgroup)
			for who, pid := range map[string]int{seat.SupervisorGroup: w.supervisorPid(p), seat.JobGroup: p.Pid()} {
				for _, g := range w.cpuGroups(pid) {
					if !strings.HasSuffix(g, "/"+spec.Key.String()+"/"+who) {
						t.Errorf("a thread of the %s is in %s", who, g)
					}
				}
			}
			for _, dir := range []string{p.order.CPUGroup, filepath.Join(p.order.CPUGroup, seat.JobGroup)} {
				if got := quotaOf(t, dir); got != 50_000 {
					t.Errorf("the quota of %s is %d µs of 100 ms, want 50 ms", dir, got)
				}
			}
			used := group.CPU()
			w.eventually("a second of processor time", func() bool { return group.CPU() > used+time.Second })
			// A loaded machine only makes the job slower. The kernel notices that a limit is used up with the delay of one tick for
			// each core.
			used, allowed := group.CPU()-used, Now().Sub(begun)/2+200*time.Millisecond
			if used > allowed {
				t.Errorf("the job and its supervisor used %v, more than half a core (%v)", used, allowed)
			}
			own := (group + "/" + seat.SupervisorGroup).CPU()
			if own == 0 {
				t.Error("the supervisor used no processor time, so the output did not cost anything")
			}
			if err := p.Kill(w.ctx); err != nil {
				t.Fatal(err)
			}
			res := w.wait(p)
			if res.Outcome != Stopped || res.CPU <= 0 || res.CPU > used+allowed {
				t.Errorf("result %+v", res)
			}
		})
	}
}

// TestALateSupervisorIsNotCharged checks that the limit is lifted from the supervisor once the lease was not renewed for half of its time. From
// then on it must be able to end the job in time. The job itself stays limited.
func TestALateSupervisorIsNotCharged(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	if !w.limited("cpu") {
		return
	}
	spec := apart(sh("trap '' TERM; while :; do :; done"))
	spec.Limits.MilliCPU, spec.LostAfter = 100, time.Minute
	spec.RenewedAt = Now().Add(-27 * time.Second) // 3 s before the decision, and 15 s before the end
	p := w.start(spec)
	if got := quotaOf(t, p.order.CPUGroup); got != 10_000 {
		t.Errorf("the quota is %d µs, want 10 ms", got)
	}
	w.eventually("the end of the limit", func() bool { return quotaOf(t, p.order.CPUGroup) == -1 })
	if got := quotaOf(t, filepath.Join(p.order.CPUGroup, seat.JobGroup)); got != 10_000 {
		t.Errorf("the job's own quota is %d µs, want 10 ms", got)
	}
	if err := p.Kill(w.ctx); err != nil {
		t.Fatal(err)
	}
	if res := w.wait(p); res.Outcome != Fenced {
		t.Errorf("result %+v", res)
	}
}

// TestATinyLimitStarts checks that a limit below the smallest quota of the kernel does not keep a job from starting.
func TestATinyLimitStarts(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	if !w.limited("cpu") {
		return
	}
	spec := apart(sh("true"))
	spec.Limits.MilliCPU = 1
	w.want(w.start(spec), Exited, 0)
}

// TestGroupsOfVersion1 kills the processes in a v1 cgroup. Earlier versions had the job's processes directly in the seat's cgroup, and those must
// be found too.
func TestGroupsOfVersion1(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	parent, ok := w.limits.v1["pids"]
	if !ok {
		t.Skip("no cgroups of version 1 here")
	}
	g := seat.Group{Dir: filepath.Join(parent.Dir, key("old").String()), Back: parent.Back}
	sleepers := map[string]*exec.Cmd{}
	for _, sub := range []string{"", seat.JobGroup, seat.JobGroup + "/made-by-the-job", seat.SupervisorGroup} {
		dir := filepath.Join(g.Dir, sub)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_, _ = cmd.Process.Wait()
			_ = os.Remove(dir) // fails while a child cgroup is there, which is removed before
		})
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
		sleepers[sub] = cmd
	}
	if n, err := g.KillJob(); n != 3 || err != nil { // then waiting for the processes would take forever
		t.Fatalf("KillJob killed %d, %v", n, err)
	}
	for sub, cmd := range sleepers {
		if sub == seat.SupervisorGroup {
			continue
		}
		if st, err := cmd.Process.Wait(); err != nil || st.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("%q: %v %v", sub, st, err)
		}
	}
	if n, err := g.Kill(); n != 1 || err != nil {
		t.Errorf("Kill killed %d, %v; want the supervisor", n, err)
	}
	_, _ = sleepers[seat.SupervisorGroup].Process.Wait()
	w.eventually("an empty cgroup", func() bool { return g.Remove() == nil })
}

// TestABusyJobObeys checks that a job cannot keep its supervisor from its work by using up the limit that they share: with many busy
// processes and a flood of output, the lease is still renewed and the job is stopped.
func TestABusyJobObeys(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	if !w.limited("cpu") {
		return
	}
	spec := apart(sh(`trap '' TERM; for i in $(seq 60); do (while :; do :; done) & done; echo up; while :; do echo y; done`))
	spec.Limits.MilliCPU, spec.LogLimit = 200, 64<<10
	p := w.start(spec)
	// On a loaded machine, the job may never get as much as its limit. Then there is less to compete for.
	w.eventually("half a second of processor time", func() bool { return seat.Cgroup(p.order.Cgroup).CPU() > time.Second/2 })
	for range 5 {
		if err := p.Renewed(w.ctx, Now()); err != nil {
			t.Error(err)
		}
	}
	if err := p.Stop(w.ctx, "enough", 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	if res := w.wait(p); res.Outcome != Stopped || res.Reason != "enough" || res.Signal != syscall.SIGKILL {
		t.Errorf("result %+v", res)
	}
}

// TestALimitedForkBombKeepsItsSupervisor checks that the processes of a job take neither threads nor memory from its supervisor: those limits
// apply to the job alone, and the result of the job is reported.
func TestALimitedForkBombKeepsItsSupervisor(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	if !w.limited("pids") || !w.limited("memory") {
		return
	}
	spec := apart(sh("for i in $(seq 40); do sleep 1000 & done; exit 3"))
	spec.Limits = Limits{Pids: 20, MemoryMB: 16, MilliCPU: 1000}
	res := w.wait(w.start(spec))
	if res.Outcome != Exited || res.ExitCode == 0 || !res.Contained {
		t.Errorf("result %+v", res)
	}
}
