//go:build linux

package run

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// BenchmarkStart is the cost of one seat from Start to running, of which the supervisor's
// own start is a part, and what a supervisor keeps in memory.
func BenchmarkStart(b *testing.B) { benchmarkStart(b, func(s Spec) Spec { return s }) }

// BenchmarkStartApart is the same of a seat with a user, limits and a room of its own.
func BenchmarkStartApart(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("only root has other users")
	}
	benchmarkStart(b, apart)
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
		m := memory(b, p.child)
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

// BenchmarkExec is the bare cost of executing the supervisor and of its exit.
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

// The supervisor stays small: one runs for each job. Measured: 2.5 ms and 2.5 MiB
// (BenchmarkStart), of which 1.2 ms are exec and exit (BenchmarkExec).
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
