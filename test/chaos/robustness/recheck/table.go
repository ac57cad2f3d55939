package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// This function summarises many runs in Markdown: one row per run, and the
// faults of all runs.
func table(out, errs io.Writer, dirs []string) int {
	code, broken, runs := 0, 0, 0
	var jobs, attempts, calls, lines, excused int
	var faulty time.Duration
	faults := map[string]int{}
	fmt.Fprintln(out, "| seed | version | minutes of faults | faults | jobs | attempts | calls | violations |\n|---|---|---|---|---|---|---|---|")
	for _, dir := range dirs {
		r, err := trace.Load(dir)
		if err != nil {
			fmt.Fprintln(errs, err)
			code = 2
			continue
		}
		if r.Meta.Healed == 0 {
			fmt.Fprintf(errs, "%s did not come to its end\n", dir)
			continue
		}
		runs++
		t, n := check.Run(r), 0
		for _, c := range r.Calls {
			if c.Op != "" {
				n++
			}
		}
		for kind, k := range t.Totals.Faults {
			faults[kind] += k
		}
		length := r.Meta.Healed - r.Meta.Start
		fmt.Fprintf(out, "| %d | %s | %.1f | %d | %d | %d | %d | %d |\n",
			r.Meta.Seed, cmp.Or(r.Meta.Version, "-"), length.Minutes(), len(r.Faults), t.Totals.Jobs, t.Totals.Attempts, n, len(t.Violations))
		jobs, attempts, calls, lines = jobs+t.Totals.Jobs, attempts+t.Totals.Attempts, calls+n, lines+t.Totals.Witnesses
		broken, excused, faulty = broken+len(t.Violations), excused+len(t.Excused), faulty+length
	}
	fmt.Fprintf(out, "\n%d runs, %.0f minutes of faults, %d jobs, %d attempts, %d calls, %d lines of witnesses, %d excused overlaps, %d violations\n",
		runs, faulty.Minutes(), jobs, attempts, calls, lines, excused, broken)
	fmt.Fprintln(out, "\n| fault | times |\n|---|---|")
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(out, "| %s | %d |\n", kind, faults[kind])
	}
	if broken > 0 {
		code = max(code, 1)
	}
	return code
}
