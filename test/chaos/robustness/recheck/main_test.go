package main

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// TestRecheck writes records to files, reads them back and checks them.
func TestRecheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ends  bool
		code  int
		words []string
	}{
		{"kept", true, 0, []string{"seed 7", "1 accepted", "0 violations"}},
		{"broken", false, 1, []string{"VIOLATION O3 job-a", "never ended", "submit +0.001s ok", "accepted at r2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, c.ends)
			var out, errs strings.Builder
			if code := run([]string{dir}, &out, &errs); code != c.code || errs.Len() > 0 {
				t.Errorf("exit code %d, want %d: %s", code, c.code, errs.String())
			}
			for _, w := range c.words {
				if !strings.Contains(out.String(), w) {
					t.Errorf("%q is missing in:\n%s", w, out.String())
				}
			}
		})
	}
	var out, errs strings.Builder
	for _, args := range [][]string{{t.TempDir()}, {}, {"-no-such-flag"}} {
		errs.Reset()
		if code := run(args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%q: exit code %d, want 2, and %q", args, code, errs.String())
		}
	}
}

// `write` writes a record with one job. The parameter `ends` says whether the
// job is cancelled at the end.
func write(t *testing.T, dir string, ends bool) {
	t.Helper()
	w, err := trace.Create(dir)
	must(t, err)
	must(t, w.Call(trace.Call{Op: trace.Submit, Job: "job-a", Outcome: trace.OK, Start: 1, End: 1 + time.Millisecond}))
	must(t, w.Entry(trace.Entry{At: 1, Batch: ares.Batch{Revision: 1, Reset: true}}))
	j := &ares.Job{ID: "job-a", Revision: 2, Spec: ares.Spec{Tenant: "t"}.WithDefaults()}
	must(t, w.Entry(trace.Entry{At: 2, Batch: ares.Batch{Revision: 2, Events: []ares.Event{{Revision: 2, Job: j}}}}))
	if ends {
		run := ares.NewRun(time.Time{})
		must(t, run.RequestStop(ares.Stop{Why: ares.StopCancel}))
		run.Revision = 3
		must(t, w.Entry(trace.Entry{At: 3, Batch: ares.Batch{Revision: 3, Events: []ares.Event{{Revision: 3, Run: &ares.RunEvent{Job: "job-a", Run: run}}}}}))
	}
	must(t, w.Meta(trace.Meta{Seed: 7, Healed: 4, End: 5}))
	must(t, w.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
