package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/sim"
)

// maxTenants is how many tenants a table shows; JSON has all.
const maxTenants = 20

// writeSimReport is a report for people.
func (a *app) writeSimReport(w io.Writer, r *sim.Report) {
	src := &r.Source
	drawn := ""
	if src.Resample != sim.ResampleNone {
		drawn = ", drawn by " + src.Resample
	}
	say(w, "%s on %s (%s, %s) under %s, seed %d%s\n", clean(src.Trace.Name), clean(src.Fleet.Name), count(src.Fleet.Nodes, "node"), count(r.GPUs, "GPU"),
		clean(src.Policy.Name), src.Seed, drawn)
	ends, waiting := "", "never placed"
	if src.Halted {
		ends, waiting = ", where it was interrupted", "not placed by then"
	} else if src.Until > 0 && r.Virtual >= src.Until {
		ends, waiting = ", where it was to end", "not placed by then"
	}
	say(w, "%s in %s of simulated time%s: %d placed, %d ended, %d %s\n", count(r.Jobs, "job"), span(seconds(r.Virtual)), ends, r.Placed, r.Ended, r.Jobs-r.Placed, waiting)
	if r.Refused > 0 {
		say(w, "%s can never run on this fleet\n", count(r.Refused, "job"))
	}
	say(w, "GPUs: %.1f %% in use on average, %.1f %% at most; %.1f %% stranded (free, but of no use to a job of this trace)\n", r.Use, r.Peak, r.Stranded)
	if f := r.Fairness; f != nil && f.Tenants > 1 {
		say(w, "Fairness: Jain's index %.3f on average, %.3f at least; the tenant that lacks most is %.1f %% of the fleet below its fair share on average, %.1f %% at most\n",
			f.Jain.Mean, f.Jain.Min, f.GapMean, f.Gap)
	}
	if r.Preempted > 0 {
		say(w, "Preemptions: %d, at most %d of one job, which cost %.0f GPU-seconds\n", r.Preempted, r.PreemptedMost, r.Lost)
	}
	if d := r.Deadline; d.Jobs > 0 {
		say(w, "Deadlines: %d of %d missed\n", d.Missed, d.Jobs)
	}
	say(w, "\n")
	t := table{head: []string{"", "PLACED", "NOT", "WAIT MEAN", "P50", "P95", "P99", "MAX", "DONE AFTER", "P50", "P95", "P99", "MAX"}}
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
	t.write(w, a.color)
	if n := len(r.ByTenant); n > maxTenants {
		say(w, "%d of %d tenants; -o json has all of them\n", maxTenants, n)
	}
	say(w, "\n")
	t = table{head: []string{"", "DELAY MEAN", "P50", "P95", "P99", "MAX", "PREEMPTED", "MOST", "LOST GPU-S"}}
	addDelayRow(&t, "all", &sim.Group{Delay: r.Delay, Preempted: r.Preempted, PreemptedMost: r.PreemptedMost, Lost: r.Lost})
	for i := range r.ByGPUs {
		addDelayRow(&t, sim.CountText(r.ByGPUs[i].Name), &r.ByGPUs[i])
	}
	t.write(w, a.color)
	say(w, "Delay is completion without what a job itself runs for: all its waiting, and what giving way cost it.\n")
}

func addDelayRow(t *table, name string, g *sim.Group) {
	t.add(append(spreadCells([]string{name}, g.Delay), strconv.Itoa(g.Preempted), strconv.Itoa(g.PreemptedMost), strconv.FormatFloat(g.Lost, 'f', 0, 64))...)
}

// spreadCells adds the cells of some times to a row.
func spreadCells(to []string, s *sim.Distribution) []string {
	if s == nil {
		return append(to, "-", "-", "-", "-", "-")
	}
	for _, v := range []float64{s.Mean, s.P50, s.P95, s.P99, s.Max} {
		to = append(to, span(seconds(v)))
	}
	return to
}

func addSimRow(t *table, name string, g *sim.Group) {
	cells := []string{name, strconv.Itoa(g.Jobs), strconv.Itoa(g.Waiting)}
	t.add(spreadCells(spreadCells(cells, g.Wait), g.Complete)...)
}

func (a *app) simCompareCommand() *cobra.Command {
	var output string
	var anyway bool
	c := &cobra.Command{
		Use: "compare REPORT...", Short: "Put the policies of reports side by side", Args: atLeastOne("REPORT"),
		Long: `Reads what ares sim run -o json wrote, from one file or several, and puts the
policies side by side. The first is what the others are held against: the mean
of the differences between runs with the same seed, and its 95 % confidence
interval by Student's t. A star marks a difference whose interval leaves out 0.

One pair has no interval. Seeds make a difference where a policy draws at random,
or where the trace was drawn with --resample.`,
		Example: "  ares sim compare fifo.json ares.json\n  ares sim compare runs.json -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			if output != "table" && output != "json" {
				return usagef("--output %s: use table or json", output)
			}
			runs, err := readRuns(args)
			if err != nil {
				return err
			}
			comparison, err := sim.Compare(runs, anyway)
			if err != nil {
				return err
			}
			return a.printValue(output, comparison, func(w io.Writer) { a.writeComparison(w, comparison) })
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	c.Flags().BoolVar(&anyway, "anyway", false, "compare runs of different traces or fleets, and interrupted ones, too")
	must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// readRuns reads reports. A policy is called by its name, or by name and file
// where several files have runs of it with the same seed.
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
			return nil, usagef("%s", err)
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
		return nil, usagef("the reports have no runs")
	}
	return runs, nil
}

// shortNames are what files are called by: their last part, or all of it where
// two have the same.
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

func (a *app) writeComparison(w io.Writer, c *sim.Comparison) {
	say(w, "%s on %s%s\n", clean(c.Trace), clean(c.Fleet), overWords(c))
	for i, name := range c.Policies[1:] {
		say(w, "\n")
		if pairs, first, other := c.Pairs(i + 1); pairs < max(first, other) {
			say(w, "over %s of %d and %s\n", count(pairs, "pair"), first, count(other, "seed"))
		}
		t := table{head: []string{"FIGURE", clean(c.Policies[0]), clean(name), "DIFFERENCE", "95 % INTERVAL", ""}}
		for _, f := range c.Figures {
			t.add(append([]string{f.Words, figure(f.By[0].Mean, f.Unit), figure(f.By[i+1].Mean, f.Unit)}, change(f.By[i+1].Change, f.Unit)...)...)
		}
		t.write(w, a.color)
	}
	say(w, "\n* the interval leaves out 0\n")
}

// overWords says over how many seeds a comparison is, where all have the same.
func overWords(c *sim.Comparison) string {
	for i := range c.Policies[1:] {
		if pairs, first, other := c.Pairs(i + 1); pairs < max(first, other) {
			return ""
		}
	}
	return ", over " + count(len(c.Seeds), "seed")
}

// figure is a value for people, a dash where there is none.
func figure(of *float64, unit string) string {
	if of == nil {
		return "–"
	}
	v := *of
	switch unit {
	case "s":
		if v < 0 {
			return "-" + span(seconds(-v))
		}
		return span(seconds(v))
	case "%":
		return fmt.Sprintf("%.2f %%", v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// change is a difference in three cells.
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
