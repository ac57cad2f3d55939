package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/sim"
)

func (a *app) simCommand() *cobra.Command {
	return group("sim", "Replay traces in virtual time, with the engine that decides in a server", "", a.simRunCommand(), a.simCompareCommand(),
		a.simWhatIfCommand(), a.simRecordCommand(), a.simReplayCommand())
}

// simFlags are the flags of ares sim run.
type simFlags struct {
	trace, format      string
	workload           string
	fleet, fleetFormat string
	policies           []string
	seed               uint64
	seeds, resample    string
	until              string
	output, out, html  string
	strict             bool
}

func (a *app) simRunCommand() *cobra.Command {
	var f simFlags
	c := &cobra.Command{
		Use: "run", Short: "Run a trace on a fleet under a policy, and report how the jobs fared", Args: exactly(),
		Long: `Lets the jobs of a trace arrive at a fleet that is described in a file, in virtual
time. The engine of a server decides; nothing is started. One seed gives one
report, to the byte.

Several policies and seeds are run one after the other into one report, which
ares sim compare reads. A seed draws the order of jobs that arrive in the same
instant and seeds policies that choose at random; with --resample it draws
another trace from this one, the same for every policy: "order" keeps the times
of arrival and shuffles the jobs, "days" draws as many days from those of the
trace, with repetition.

docs/simulator.md describes traces, fleets, policies and reports.`,
		Example: `  ares sim run --trace jobs.csv --fleet fleet.yaml
  sacct -a -X -p -o JobID,Submit,ElapsedRaw,AllocTRES,NNodes | ares sim run --trace - --format slurm --fleet fleet.yaml
  ares sim run --workload kueue-baseline
  ares sim run --trace jobs.csv --fleet fleet.yaml --policy ares,fifo --seeds 1-5 --resample days -o json --out runs.json --html page.html`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.simRun(cmd.Context(), cmd, &f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.trace, "trace", "", "file with the jobs; - for standard input")
	flags.StringVar(&f.format, "format", "", "kind of trace: "+strings.Join(sim.Formats(), ", ")+" (default by its beginning)")
	flags.StringVar(&f.fleet, "fleet", "", "file with the machines: a fleet file, or openb's list of nodes (.csv); default those of a recording")
	flags.StringVar(&f.fleetFormat, "fleet-format", "", strings.Join(fleetFormats, ", ")+" (default by the file's name)")
	flags.StringVar(&f.workload, "workload", "", "built-in jobs and fleet instead of both: "+strings.Join(sim.Workloads(), ", "))
	flags.StringSliceVar(&f.policies, "policy", []string{"ares"}, "how to decide: names or files, several one after the other.\nThe names: "+strings.Join(sim.PolicyNames(), ", "))
	flags.Uint64Var(&f.seed, "seed", 0, "what to draw by")
	flags.StringVar(&f.seeds, "seeds", "", "several seeds one after the other, such as 1-5 or 1,7,9")
	flags.StringVar(&f.resample, "resample", sim.ResampleNone, "draw another trace by the seed: "+strings.Join(sim.Resamples(), ", "))
	flags.StringVar(&f.until, "until", "", "end after this simulated time, such as 72h or 14d (default with the last job)")
	flags.BoolVar(&f.strict, "strict", false, "end with an error when a row or a column of the trace is not understood")
	flags.StringVarP(&f.output, "output", "o", "table", "table, json, or csv for a row a job")
	flags.StringVar(&f.out, "out", "", "file to write that to instead of standard output, which is -")
	flags.StringVar(&f.html, "html", "", "file to write a page with plots to")
	for name, values := range map[string][]string{
		"format": sim.Formats(), "policy": sim.PolicyNames(), "fleet-format": fleetFormats, "resample": sim.Resamples(), "output": simOutputs,
		"workload": sim.Workloads(),
	} {
		must(c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	return c
}

var (
	simOutputs   = []string{"table", "json", "csv"}
	fleetFormats = []string{"ares", "openb"}
)

// simRun reads everything first, so that a mistake shows before the work.
func (a *app) simRun(ctx context.Context, cmd *cobra.Command, f *simFlags) error {
	switch files := f.trace + f.format + f.fleet + f.fleetFormat; {
	case f.workload != "" && files != "":
		return usagef("--workload has its own jobs and fleet: leave out --trace, --format, --fleet and --fleet-format")
	case f.workload == "" && f.trace == "":
		return usagef("--trace is needed, or --workload (see: %s --help)", cmd.CommandPath())
	}
	if !slices.Contains(simOutputs, f.output) {
		return usagef("--output %s: use table, json or csv", f.output)
	}
	if !slices.Contains(sim.Resamples(), f.resample) {
		return usagef("--resample %s: use one of %s", f.resample, strings.Join(sim.Resamples(), ", "))
	}
	switch several := cmd.Flags().Changed("seeds"); {
	case several && cmd.Flags().Changed("seed"):
		return usagef("give --seed or --seeds, not both")
	case !several:
		f.seeds = strconv.FormatUint(f.seed, 10)
	}
	if err := checkTargets(f); err != nil {
		return err
	}
	seeds, err := parseSeeds(f.seeds)
	if err != nil {
		return err
	}
	until, err := parseSpan(f.until)
	if err != nil {
		return err
	}
	policies, err := loadPolicies(f.policies)
	if err != nil {
		return err
	}
	setup, err := a.simSetup(ctx, f)
	if err != nil {
		return err
	}
	setup.Resample, setup.Until = f.resample, until
	return a.simulate(ctx, f, setup, policies, seeds)
}

// simSetup reads the jobs and the fleet.
func (a *app) simSetup(ctx context.Context, f *simFlags) (sim.Setup, error) {
	if f.workload != "" {
		w, err := sim.WorkloadNamed(f.workload)
		if err != nil {
			return sim.Setup{}, usagef("--workload: %s", err)
		}
		return sim.Setup{Trace: w.Trace, TraceName: w.Name, Fleet: w.Fleet, FleetName: w.Name}, nil
	}
	trace, err := a.loadTrace(ctx, f)
	if err != nil {
		return sim.Setup{}, err
	}
	fleet := trace.Fleet
	if f.fleet != "" {
		if fleet, err = a.loadFleet(ctx, f); err != nil {
			return sim.Setup{}, err
		}
	} else if fleet == nil {
		return sim.Setup{}, usagef("--fleet is needed: of the kinds of traces only a recording of Ares knows its own")
	}
	return sim.Setup{Trace: trace, TraceName: filepath.Base(f.trace), Fleet: fleet, FleetName: filepath.Base(cmp.Or(f.fleet, f.trace))}, nil
}

// simulate runs every policy with every seed and writes what came of it.
func (a *app) simulate(ctx context.Context, f *simFlags, setup sim.Setup, policies []sim.Policy, seeds []uint64) error {
	reports := &sim.Reports{Format: sim.ReportFormat, Version: Version}
	var jobs strings.Builder
	rows := csv.NewWriter(&jobs)
	must(rows.Write(sim.JobColumns()))
	bar := a.newProgress(ctx, len(policies)*len(seeds))
	for _, policy := range policies {
		for _, seed := range seeds {
			setup.Policy, setup.Seed = policy, seed
			setup.Tick = bar.begin(policy.Name, seed, setup.Until)
			outcome, err := sim.Simulate(setup)
			bar.end()
			if err != nil {
				return err
			}
			reports.Runs = append(reports.Runs, outcome.Report)
			if f.output == "csv" {
				must(outcome.WriteJobs(rows))
				a.tellEnd(&outcome.Report)
			}
			if n := len(reports.Runs); ctx.Err() != nil && (outcome.Report.Source.Halted || n < len(policies)*len(seeds)) {
				rows.Flush()
				say(a.err, "interrupted in run %d of %d, at %s of its simulated time; the report is of what was done so far\n",
					n, len(policies)*len(seeds), span(seconds(outcome.Report.Virtual)))
				return errors.Join(a.writeRuns(f, reports, jobs.String()), &exitError{exitFailed})
			}
		}
	}
	rows.Flush()
	return a.writeRuns(f, reports, jobs.String())
}

// tellEnd says beside rows of jobs, which have no place for it, that the run ended
// before its jobs.
func (a *app) tellEnd(r *sim.Report) {
	if src := &r.Source; src.Until > 0 && r.Virtual >= src.Until && !src.Halted {
		say(a.err, "%s, seed %d: the run was to end after %s of simulated time: what comes later is not in it\n", clean(src.Policy.Name), src.Seed, span(seconds(src.Until)))
	}
}

// writeRuns writes the page, if one is wanted, and the report. What a run found
// is not lost with a file that cannot be written: then it is printed.
func (a *app) writeRuns(f *simFlags, reports *sim.Reports, jobs string) error {
	write := func(w io.Writer) error { return a.writeReports(w, f.output, reports, jobs) }
	var failed error
	if f.html != "" {
		failed = toFile(f.html, reports.WriteHTML)
	}
	if f.out != "" && f.out != standardOutput {
		err := toFile(f.out, write)
		if err == nil {
			return failed
		}
		failed = errors.Join(failed, err)
	}
	return errors.Join(failed, throughBuffer(a.out, write))
}

func (a *app) writeReports(w io.Writer, form string, reports *sim.Reports, jobs string) error {
	switch form {
	case "json":
		return reports.WriteJSON(w)
	case "csv":
		_, err := io.WriteString(w, jobs)
		return err
	}
	for i := range reports.Runs {
		if i > 0 {
			say(w, "\n")
		}
		a.writeSimReport(w, &reports.Runs[i])
	}
	return nil
}

// parseSeeds reads 3, 1-5 or 1,7,9.
func parseSeeds(text string) ([]uint64, error) {
	var out []uint64
	for part := range strings.SplitSeq(text, ",") {
		low, high, several := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.ParseUint(low, 10, 64)
		to := from
		if several && err == nil {
			to, err = strconv.ParseUint(high, 10, 64)
		}
		if err != nil || to < from || to-from >= maxSeeds || len(out)+int(to-from) >= maxSeeds {
			return nil, usagef("--seeds %q: write up to %d of them as 1-5 or 1,7,9", text, maxSeeds)
		}
		for s := from; ; s++ {
			if slices.Contains(out, s) {
				return nil, usagef("--seeds %s: %d is given twice", text, s)
			}
			if out = append(out, s); s == to {
				break
			}
		}
	}
	return out, nil
}

// maxSeeds bounds the runs of one call.
const maxSeeds = 1000

// parseSpan reads a length of time, in days too: 90m, 72h, 14d.
func parseSpan(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := spanOf(text)
	if err != nil {
		return 0, usagef("--until %s: write a time such as 90m, 72h or 14d", text)
	}
	return d, nil
}

// loadPolicies finds policies by their names, and by files where there is one
// of that name.
func loadPolicies(names []string) ([]sim.Policy, error) {
	var out []sim.Policy
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		p, err := loadPolicy(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(q sim.Policy) bool { return q.Name == p.Name }) {
			return nil, usagef("--policy: %s is there twice: give one of them another name", p.Name)
		}
		out = append(out, p)
	}
	return out, nil
}

func loadPolicy(name string) (sim.Policy, error) {
	if name == "" {
		return sim.Policy{}, usagef("--policy: a name is empty: use one of %s, or a file", strings.Join(sim.PolicyNames(), ", "))
	}
	if slices.Contains(sim.PolicyNames(), name) {
		return sim.PolicyNamed(name)
	}
	file, err := openFile(name)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "./\\") {
		_, err = sim.PolicyNamed(name)
	}
	if err != nil {
		return sim.Policy{}, usagef("--policy: %s", err)
	}
	defer file.Close()
	p, err := sim.ReadPolicy(file)
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// loadFleet reads the machines.
func (a *app) loadFleet(ctx context.Context, f *simFlags) (*sim.Fleet, error) {
	kind := f.fleetFormat
	if kind == "" {
		kind = map[string]string{".csv": "openb"}[strings.ToLower(filepath.Ext(f.fleet))]
	}
	read, ok := map[string]func(io.Reader) (*sim.Fleet, error){
		"": sim.ReadFleet, "ares": sim.ReadFleet, "openb": sim.ReadOpenbNodes,
	}[kind]
	if !ok {
		return nil, usagef("--fleet-format %s: use one of %s", kind, strings.Join(fleetFormats, ", "))
	}
	file, err := openFile(f.fleet)
	if err != nil {
		return nil, usagef("--fleet: %s", err)
	}
	defer file.Close()
	fleet, err := read(file)
	if err == nil {
		err = fleet.Resolve(func(name string) (*ares.Node, error) { return machineOf(ctx, name) })
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.fleet, err)
	}
	return fleet, nil
}

// machineOf is a machine of a profile, all of it well.
func machineOf(ctx context.Context, profile string) (*ares.Node, error) {
	source, err := gpu.Mock(profile, "simulated")
	if err != nil {
		return nil, err
	}
	m, err := source.Detect(ctx)
	if err != nil {
		return nil, err
	}
	for i := range m.Devices {
		m.Devices[i].Healthy, m.Devices[i].Reason, m.Devices[i].Celsius = true, "", 0
	}
	return &ares.Node{Devices: m.Devices, Links: m.Links, CPUs: m.CPUs, MemoryMB: m.MemoryMB, NUMA: m.NUMA}, nil
}

// loadTrace reads the jobs, and tells what of them could not be read.
func (a *app) loadTrace(ctx context.Context, f *simFlags) (*sim.Trace, error) {
	var from io.Reader
	if f.trace == "-" {
		from = abandonable(ctx, a.in)
	} else {
		file, err := openFile(f.trace)
		if err != nil {
			return nil, usagef("--trace: %s", err)
		}
		defer file.Close()
		from = file
	}
	in := bufio.NewReaderSize(from, 1<<16)
	kind := f.format
	if kind == "" {
		head, err := in.Peek(1 << 12) // as much as there is
		if errors.Is(err, context.Canceled) {
			return nil, context.Canceled
		}
		line, _, _ := strings.Cut(string(head), "\n")
		if kind = sim.DetectFormat(line); kind == "" {
			if near, missing := sim.ClosestFormat(line); len(missing) > 0 {
				return nil, usagef("--trace %s: it looks like a trace of kind %s and lacks the column %s", f.trace, near, strings.Join(missing, ", "))
			}
			return nil, usagef("--trace %s: its beginning fits no kind of trace: say with --format which of %s it is", f.trace, strings.Join(sim.Formats(), ", "))
		}
		say(a.err, "%s: by its beginning this is a trace of kind %s\n", f.trace, kind)
	}
	if !slices.Contains(sim.Formats(), kind) {
		return nil, usagef("--format %s: use one of %s", kind, strings.Join(sim.Formats(), ", "))
	}
	trace, err := sim.Read(kind, in)
	if errors.Is(err, context.Canceled) {
		return nil, context.Canceled
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.trace, err)
	}
	return trace, a.tellTrace(f, trace)
}

// tellTrace says what of a trace was left out.
func (a *app) tellTrace(f *simFlags, t *sim.Trace) error {
	for _, p := range t.Problems {
		say(a.err, "%s:%d: %s\n", f.trace, p.Line, clean(p.Why))
	}
	if t.Bad > 0 {
		more := ""
		if n := t.Bad - len(t.Problems); n > 0 {
			more = fmt.Sprintf(", %d of them not shown", n)
		}
		say(a.err, "%s: %s left out because they could not be read%s; %s read\n", f.trace, count(t.Bad, "row"), more, count(len(t.Arrivals), "job"))
	}
	if t.Idle > 0 {
		say(a.err, "%s: %s left out: they %s\n", f.trace, count(t.Idle, "row"), t.IdleReason)
	}
	if t.Unended > 0 {
		say(a.err, "%s: the end of %s was not seen: they run as long as is predicted from runs like them, else as their limit allows\n", f.trace, count(t.Unended, "job"))
	}
	if t.Assumed > 0 {
		say(a.err, "%s: of %s of these neither is known: an hour is assumed, or as long again as they had run\n", f.trace, count(t.Assumed, "job"))
	}
	if len(t.Ignored) > 0 {
		say(a.err, "%s: columns that mean nothing here: %s\n", f.trace, clean(strings.Join(t.Ignored, ", ")))
	}
	if f.strict && t.Bad+len(t.Ignored) > 0 {
		return ares.Errorf(ares.Invalid, "%s: %d bad rows and %d unknown columns, and --strict allows none", f.trace, t.Bad, len(t.Ignored))
	}
	if len(t.Arrivals) == 0 {
		return ares.Errorf(ares.Invalid, "%s has no jobs that could be read", f.trace)
	}
	return nil
}
