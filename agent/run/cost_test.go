//go:build linux

package run

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkStart measures the memory of a supervisor. It also measures the time from the call of Start until the seat runs, which
// includes the start of the supervisor.
func BenchmarkStart(b *testing.B) { benchmarkStart(b, func(s Spec) Spec { return s }) }

// BenchmarkStartApart is like BenchmarkStart, but the seat has its own user, limits and sandbox.
func BenchmarkStartApart(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("only root has other users")
	}
	benchmarkStart(b, apart)
}

// BenchmarkStartOnDisk is like BenchmarkStartApart, but the seat also has a file system of its own, with 100 GB.
func BenchmarkStartOnDisk(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("only root has other users")
	}
	if why := noDisk(); why != "" {
		b.Skip(why)
	}
	benchmarkStart(b, func(s Spec) Spec {
		s = apart(s)
		s.Sandbox.Scratch, s.Sandbox.OwnTmp, s.Sandbox.DiskMB = b.TempDir(), true, 100_000
		return s
	})
}

func benchmarkStart(b *testing.B, change func(Spec) Spec) {
	b.Helper()
	r, err := Open(b.TempDir(), supervisorPath)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ctx := b.Context()
	var rss, pss, n int64
	for b.Loop() {
		spec := change(sh(""))
		spec.Key.Rank, spec.Argv = int(n), []string{"/bin/sleep", "1000"}
		p, err := r.Start(ctx, spec)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		m := memory(b, p.child.pid)
		rss, pss, n = rss+m["Rss"], pss+m["Pss"], n+1
		if err := errors.Join(r.EnsureDead(ctx, p.Key()), r.Forget(p.Key())); err != nil {
			b.Fatal(err)
		}
		p.reap(ctx)
		b.StartTimer()
	}
	b.ReportMetric(float64(rss)/float64(n), "rss-KiB")
	b.ReportMetric(float64(pss)/float64(n), "pss-KiB")
	if r.cgroup != "" {
		_ = r.cgroup.Remove()
	}
	for _, g := range r.limits.v1 {
		_ = g.Remove()
	}
}

// BenchmarkRun measures a whole seat that runs `true`, from its start until it is forgotten. It reports the processor time of this
// process, which does the agent's part, and that of the supervisor with the job.
func BenchmarkRun(b *testing.B) {
	change := func(s Spec) Spec { return s }
	if os.Getuid() == 0 {
		change = apart
	}
	r, err := Open(b.TempDir(), supervisorPath)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	own, children := usage(b, syscall.RUSAGE_SELF), childUsage(b, r)
	n := 0
	for ; b.Loop(); n++ {
		spec := change(sh(""))
		spec.Key.Rank, spec.Argv = n, []string{"/bin/true"}
		p, err := r.Start(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		if res, err := p.Wait(b.Context()); err != nil || res.Outcome != Exited {
			b.Fatal(res, err)
		}
		if err := errors.Join(r.EnsureDead(b.Context(), p.Key()), r.Forget(p.Key())); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((usage(b, syscall.RUSAGE_SELF)-own).Microseconds())/float64(n), "agent-µs/op")
	b.ReportMetric(float64((childUsage(b, r)-children).Microseconds())/float64(n), "supervisor-µs/op")
	if r.cgroup != "" {
		_ = r.cgroup.Remove()
	}
	for _, g := range r.limits.v1 {
		_ = g.Remove()
	}
}

// childUsage returns the processor time of supervisors and jobs. The idle supervisors end first, because the kernel counts a child's
// time when it has ended.
func childUsage(b *testing.B, r *Runner) time.Duration {
	b.Helper()
	if err := until(b.Context(), func() bool { return r.spares.release(0) == 0 }); err != nil {
		b.Fatal(err)
	}
	return usage(b, syscall.RUSAGE_CHILDREN)
}

func usage(b *testing.B, who int) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkExec measures only how long the supervisor takes to execute and exit.
func BenchmarkExec(b *testing.B) {
	for b.Loop() {
		if err := probe(supervisorPath, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func memory(b *testing.B, pid int) map[string]int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Skip(err)
	}
	m := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		var kib int64
		name, rest, _ := strings.Cut(line, ":")
		if _, err := fmt.Sscanf(rest, "%d kB", &kib); err == nil {
			m[name] = kib
		}
	}
	return m
}

// TestCheap checks that the supervisor uses little memory, because one supervisor runs for each job. BenchmarkStart measured a start
// time of 2.5 ms and a memory use of 2.5 MiB. According to BenchmarkExec, executing and exiting take 1.2 ms of the start time.
func TestCheap(t *testing.T) {
	w := newWorld(t)
	for rank := range 5 {
		spec := sh("sleep 1000")
		spec.Rank = rank
		p := w.start(spec)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.supervisorPid(p)))
		if err != nil {
			t.Fatal(err)
		}
		var kib int64
		_, after, _ := strings.Cut(string(b), "VmRSS:")
		if _, err := fmt.Sscanf(after, "%d kB", &kib); err != nil || kib > 10<<10 {
			t.Errorf("supervisor of %d KiB, %v", kib, err)
		}
	}
}
