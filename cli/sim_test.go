package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/sim"
)

// TestInterruptedSimulation: whoever interrupts a run is told how far it got, and
// has the report of that.
func TestInterruptedSimulation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rows := "timestamp,duration,num_gpus,cluster\n"
	for i := range 500 {
		rows += fmt.Sprintf("2017-10-09 06:%02d:%02d,60,1,a\n", i/60, i%60)
	}
	trace, fleet, out := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "out.json")
	for name, text := range map[string]string{trace: rows, fleet: "machines: [{name: m, count: 9, gpus: 8, cpus: 8, memory_mb: 100}]"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := Main(ctx, []string{"sim", "run", "--trace", trace, "--fleet", fleet, "--seeds", "1-3", "-o", "json", "--out", out}, nil, &stdout, &stderr)
	if want := "interrupted in run 1 of 3, at "; code != exitFailed || !strings.Contains(stderr.String(), want) {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := sim.ReadReports(file)
	if err != nil || len(r.Runs) != 1 || !r.Runs[0].Source.Halted || r.Runs[0].Jobs == 0 || r.Runs[0].Jobs == 500 {
		t.Errorf("%+v, %v", r, err)
	}
	stdout.Reset()
	Main(ctx, []string{"sim", "run", "--trace", trace, "--fleet", fleet}, nil, &stdout, &stderr)
	if text := stdout.String(); !strings.Contains(text, " of simulated time, where it was interrupted: ") || !strings.Contains(text, " not placed by then\n") {
		t.Errorf("the table does not say that the run was interrupted: %s", text)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	now := time.Unix(0, 0)
	a := &app{err: &stderr, now: func() time.Time { return now }}
	b := a.newProgress(t.Context(), 2)
	tick := b.begin("fifo", 7, 0)
	p := sim.Progress{Now: 36 * time.Hour, Done: 250, Total: 1000, Waiting: 3}
	for range 10 * looksApart {
		now = now.Add(10 * time.Millisecond)
		if !tick(p) {
			t.Fatal("it was ended")
		}
	}
	if want := " 25 %  simulated 36h00m  3 waiting  49 events/s  15s left  1/2 fifo seed 7\n"; stderr.String() != want {
		t.Errorf("%q, want %q", stderr.String(), want)
	}
}

func TestSeedsAndSpans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]uint64{"3": {3}, "1-3": {1, 2, 3}, "1, 7-8": {1, 7, 8}, "18446744073709551615": {1<<64 - 1}} {
		if got, err := parseSeeds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "3-1", "1-", "-1", "1,1", "1-5,3", "0-1000", "0-18446744073709551615"} {
		if got, err := parseSeeds(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for text, want := range map[string]time.Duration{"": 0, "90m": 90 * time.Minute, "72h": 72 * time.Hour, "14d": 14 * 24 * time.Hour, "0.5d": 12 * time.Hour} {
		if got, err := parseSpan(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"soon", "-1h", "0", "d", "-3d", "nand", "infd", "1e300d"} {
		if got, err := parseSpan(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// TestMistakenTraces are told in plain words.
func TestMistakenTraces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for trace, want := range map[string]string{
		dir: dir + " is a directory",
		"-": "looks like a trace of kind slurm and lacks the column AllocTRES",
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), []string{"sim", "run", "--trace", trace, "--fleet", "none.yaml"}, strings.NewReader("JobID|Submit|ElapsedRaw|\n"), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %s", trace, code, stderr.String())
		}
	}
}

// TestInterruptedInput: standard input that says no more does not hold up the end.
func TestInterruptedInput(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", "timestamp,duration,num_gpus,cluster\n" + strings.Repeat("2017-10-09 06:00:00,60,1,a\n", 1000)} {
		ctx, cancel := context.WithCancel(t.Context())
		from, to := io.Pipe()
		t.Cleanup(func() { _ = to.Close() })
		go func() {
			_, _ = io.WriteString(to, said)
			cancel()
		}()
		var stdout, stderr bytes.Buffer
		code := Main(ctx, []string{"sim", "run", "--trace", "-", "--fleet", "none.yaml"}, from, &stdout, &stderr)
		if code == exitUsage || code == 0 || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("exit code %d, %s", code, stderr.String())
		}
	}
}
