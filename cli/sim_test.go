package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/sim"
)

// TestInterruptedSimulation checks that an interrupted simulation prints how far it got and still
// writes a report.
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
	if want := "interrupted in run 1 of 3, at "; code != exit.Failed || !strings.Contains(stderr.String(), want) {
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

// TestMistakenTraces checks the error message for a trace that is a directory, and for a trace
// without a required column.
func TestMistakenTraces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for trace, want := range map[string]string{
		dir: dir + " is a directory",
		"-": "looks like format slurm, but column AllocTRES is missing",
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), []string{"sim", "run", "--trace", trace, "--fleet", "none.yaml"}, strings.NewReader("JobID|Submit|ElapsedRaw|\n"), &stdout, &stderr)
		if code != exit.Usage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %s", trace, code, stderr.String())
		}
	}
}

// TestInterruptedInput checks that a run can be interrupted while it waits for standard
// input.
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
		if code == exit.Usage || code == 0 || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("exit code %d, %s", code, stderr.String())
		}
	}
}
