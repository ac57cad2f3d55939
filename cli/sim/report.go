package sim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/sim"
)

// maxTenants is the maximum number of tenants in a printed table. The JSON output contains all
// tenants.
const maxTenants = 20

// writeSimReport prints a report as tables.
func (a *commands) writeSimReport(w io.Writer, r *sim.Report) {
	src := &r.Source
	drawn := ""
	if src.Resample != sim.ResampleNone {
		drawn = ", drawn by " + src.Resample
	}
	output.Printf(w, "%s on %s (%s, %s) under %s, seed %d%s\n", output.Clean(src.Trace.Name), output.Clean(src.Fleet.Name), output.Count(src.Fleet.Nodes, "node"), output.Count(r.GPUs, "GPU"),
		output.Clean(src.Policy.Name), src.Seed, drawn)
	ends, waiting := "", "never placed"
	if src.Halted {
		ends, waiting = ", where it was interrupted", "not placed by then"
	} else if src.Until > 0 && r.Virtual >= src.Until {
		ends, waiting = ", where it was to end", "not placed by then"
	}
	output.Printf(w, "%s in %s of simulated time%s: %d placed, %d ended, %d %s\n", output.Count(r.Jobs, "job"), output.Duration(output.Seconds(r.Virtual)), ends, r.Placed, r.Ended, r.Jobs-r.Placed, waiting)
	if r.Refused > 0 {
		output.Printf(w, "%s can never run on this fleet\n", output.Count(r.Refused, "job"))
	}
	output.Printf(w, "GPUs: %.1f %% in use on average, %.1f %% at most; %.1f %% stranded (free, but too fragmented for any job of this trace)\n", r.Use, r.Peak, r.Stranded)
	if f := r.Fairness; f != nil && f.Tenants > 1 {
		output.Printf(w, "Fairness: Jain's index %.3f on average, %.3f at least; the worst-off tenant is %.1f %% of the fleet below its fair share on average, %.1f %% at most\n",
			f.Jain.Mean, f.Jain.Min, f.GapMean, f.Gap)
	}
	if r.Preempted > 0 {
		output.Printf(w, "Preemptions: %d, at most %d of one job, %.0f GPU-seconds lost\n", r.Preempted, r.PreemptedMost, r.Lost)
	}
	if d := r.Deadline; d.Jobs > 0 {
		output.Printf(w, "Deadlines: %d of %d missed\n", d.Missed, d.Jobs)
	}
	output.Printf(w, "\n")
	t := output.Table{Head: []string{"", "PLACED", "NOT", "WAIT MEAN", "P50", "P95", "P99", "MAX", "DONE AFTER", "P50", "P95", "P99", "MAX"}}
	addSimRow(&t, "all", &sim.Group{Jobs: r.Placed, Ended: r.Ended, Waiting: r.Jobs - r.Placed, Wait: r.Wait, Complete: r.Complete})
	for i := range r.BySize {
		g := &r.BySize[i]
		addSimRow(&t, sim.SizeText(g.Name), g)
	}
	for i := range r.ByTenant {
		if i == maxTenants {
			break
		}
		g := &r.ByTenant[i]
		addSimRow(&t, "tenant "+g.Name, g)
	}
	a.WriteTable(w, &t)
	if n := len(r.ByTenant); n > maxTenants {
		output.Printf(w, "%d of %d tenants; -o json has all of them\n", maxTenants, n)
	}
	output.Printf(w, "\n")
	t = output.Table{Head: []string{"", "DELAY MEAN", "P50", "P95", "P99", "MAX", "PREEMPTED", "MOST", "LOST GPU-S"}}
	addDelayRow(&t, "all", &sim.Group{Delay: r.Delay, Preempted: r.Preempted, PreemptedMost: r.PreemptedMost, Lost: r.Lost})
	for i := range r.ByGPUs {
		addDelayRow(&t, sim.CountText(r.ByGPUs[i].Name), &r.ByGPUs[i])
	}
	a.WriteTable(w, &t)
	output.Printf(w, "Delay is completion time minus runtime: waiting and the cost of preemptions.\n")
}

func addDelayRow(t *output.Table, name string, g *sim.Group) {
	t.Add(append(spreadCells([]string{name}, g.Delay), strconv.Itoa(g.Preempted), strconv.Itoa(g.PreemptedMost), strconv.FormatFloat(g.Lost, 'f', 0, 64))...)
}

// spreadCells appends the mean, the percentiles and the maximum of a distribution to a row.
func spreadCells(to []string, s *sim.Distribution) []string {
	if s == nil {
		return append(to, "-", "-", "-", "-", "-")
	}
	for _, v := range []float64{s.Mean, s.P50, s.P95, s.P99, s.Max} {
		to = append(to, output.Duration(output.Seconds(v)))
	}
	return to
}

func addSimRow(t *output.Table, name string, g *sim.Group) {
	cells := []string{name, strconv.Itoa(g.Jobs), strconv.Itoa(g.Waiting)}
	t.Add(spreadCells(spreadCells(cells, g.Wait), g.Complete)...)
}

func (a *commands) simCompareCommand() *cobra.Command {
	var format, html string
	var anyway bool
	c := &cobra.Command{
		Use: "compare REPORT...", Short: "Compare the policies in simulation reports", Args: command.MinOneArg("REPORT"),
		Long: `Compare policies in one or several reports of "ares sim run -o json". The first policy is the
baseline. For each further policy, the output shows the mean difference from the baseline, with
a 95 % confidence interval (Student's t). Each difference is between two runs with the same
seed. A star marks a difference whose confidence interval excludes 0.

With only one pair of runs, a difference has no confidence interval. The seed can change the
result in only three cases: jobs arrive at the same instant, the policy makes random choices, or
--resample is set.

With --html, the command also writes an HTML page that shows the differences as tables, and the
runs of all policies together in each plot.`,
		Example: `  ares sim run --trace jobs.csv --fleet fleet.yaml --policy ares,fifo -o json --out runs.json
  ares sim compare runs.json --html compare.html`,
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "table" && format != "json" {
				return exit.Usagef("--output %s: use table or json", format)
			}
			if err := checkOutputs(args, outputFile{"--html", html}); err != nil {
				return err
			}
			runs, err := readRuns(args)
			if err != nil {
				return err
			}
			comparison, err := sim.Compare(runs, anyway)
			if err != nil {
				return err
			}
			var failed error
			if html != "" {
				failed = toFile(html, func(w io.Writer) error { return sim.WriteComparisonHTML(w, a.Version, runs, comparison) })
			}
			return errors.Join(failed, a.PrintValue(format, comparison, func(w io.Writer) { a.writeComparison(w, comparison) }))
		},
	}
	c.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	c.Flags().BoolVar(&anyway, "anyway", false, "also compare runs of different traces or clusters, and interrupted runs")
	c.Flags().StringVar(&html, "html", "", "file for an HTML page with tables and plots")
	output.Must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// readRuns reads reports. A policy's label is its name. If several files have runs of the policy
// with the same seed, the label also contains the file name.
func readRuns(files []string) ([]sim.Labelled, error) {
	type key struct {
		policy string
		seed   uint64
	}
	var runs []sim.Labelled
	seen, twice := map[key]string{}, map[string]bool{}
	var from []string
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, exit.Usagef("%s", err)
		}
		reports, err := sim.ReadReports(file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range reports.Runs {
			r := &reports.Runs[i]
			k := key{r.Source.Policy.Name, r.Source.Seed}
			if before, ok := seen[k]; ok && before != name {
				twice[k.policy] = true
			}
			seen[k] = name
			runs, from = append(runs, sim.Labelled{Label: k.policy, Report: r}), append(from, name)
		}
	}
	short := shortNames(files)
	for i := range runs {
		if twice[runs[i].Label] {
			runs[i].Label += " (" + short[from[i]] + ")"
		}
	}
	if len(runs) == 0 {
		return nil, exit.Usagef("the reports have no runs")
	}
	return runs, nil
}

// shortNames returns a label for each file: the last part of its path, or the whole path if
// two files have the same last part.
func shortNames(files []string) map[string]string {
	base := func(name string) string { return strings.TrimSuffix(filepath.Base(name), ".json") }
	having, out := map[string]int{}, map[string]string{}
	for _, name := range files {
		if _, again := out[name]; !again {
			having[base(name)]++
			out[name] = base(name)
		}
	}
	for name := range out {
		if having[base(name)] > 1 {
			out[name] = strings.TrimSuffix(name, ".json")
		}
	}
	return out
}

func (a *commands) writeComparison(w io.Writer, c *sim.Comparison) {
	output.Printf(w, "%s on %s%s\n", output.Clean(c.Trace), output.Clean(c.Fleet), overText(c))
	for i, name := range c.Policies[1:] {
		output.Printf(w, "\n")
		if pairs, first, other := c.Pairs(i + 1); pairs < max(first, other) {
			output.Printf(w, "over %s of %d and %s\n", output.Count(pairs, "pair"), first, output.Count(other, "seed"))
		}
		t := output.Table{Head: []string{"FIGURE", output.Clean(c.Policies[0]), output.Clean(name), "DIFFERENCE", "95 % INTERVAL", ""}}
		for _, f := range c.Figures {
			t.Add(append([]string{f.Words, figure(f.By[0].Mean, f.Unit), figure(f.By[i+1].Mean, f.Unit)}, change(f.By[i+1].Change, f.Unit)...)...)
		}
		a.WriteTable(w, &t)
	}
	output.Printf(w, "\n* the interval excludes 0\n")
}

// overText says how many seeds a comparison has. overText returns "" if the policies were not all
// run with the same seeds.
func overText(c *sim.Comparison) string {
	for i := range c.Policies[1:] {
		if pairs, first, other := c.Pairs(i + 1); pairs < max(first, other) {
			return ""
		}
	}
	return ", over " + output.Count(len(c.Seeds), "seed")
}

// The function `figure` formats a value with its unit, or returns a dash if the value is missing.
func figure(of *float64, unit string) string {
	if of == nil {
		return "–"
	}
	v := *of
	switch unit {
	case "s":
		if v < 0 {
			return "-" + output.Duration(output.Seconds(-v))
		}
		return output.Duration(output.Seconds(v))
	case "%":
		return fmt.Sprintf("%.2f %%", v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// The function `change` formats a difference as three table cells.
func change(d *sim.Change, unit string) []string {
	if d == nil {
		return []string{"–", "", ""}
	}
	percent := "–"
	if d.Percent != nil {
		percent = fmt.Sprintf("%+.1f %%", *d.Percent)
	}
	mean := figure(&d.Mean, unit) + " (" + percent + ")"
	if d.Low == nil || d.High == nil {
		return []string{mean, "one pair", ""}
	}
	verdict := ""
	if d.Significant {
		verdict = "* worse"
		if d.Better {
			verdict = "* better"
		}
	}
	return []string{mean, figure(d.Low, unit) + " to " + figure(d.High, unit), verdict}
}
