package sim

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
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/sim"
)

func (a *commands) simCommand() *cobra.Command {
	return command.Group("sim", "Simulate traces with the server's scheduling engine", "  ares sim run --workload kueue-baseline", "", a.simRunCommand(), a.simCompareCommand(),
		a.simWhatIfCommand(), a.simRecordCommand(), a.simReplayCommand())
}

// simFlags are the flags of `ares sim run`.
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
	regions            int
	choose             []string
}

func (a *commands) simRunCommand() *cobra.Command {
	var f simFlags
	c := &cobra.Command{
		Use: "run", Short: "Simulate a trace on a cluster and report waiting times and utilization", Args: command.ExactArgs(),
		Long: `Simulate the jobs of a trace on the nodes of a cluster file. The simulation uses virtual time
and the server's scheduling engine. The command starts no real jobs. The same seed gives the
same report, byte for byte.

A report can contain several policies and seeds; "ares sim compare" compares them. The seed
determines the order of jobs that arrive at the same instant, and the random choices of
policies. With --resample, the seed also determines the new trace. All policies get the
same trace for the same seed. "--resample order" keeps the arrival times and shuffles the jobs.
"--resample days" builds the new trace from random days of the original, and a day can occur more
than once.

With --regions, the command simulates a federation: the nodes are split by a hash of their names,
and each way to choose a region for a job is compared with one big cluster.

docs/guide/simulator.md describes traces, cluster files, policies and reports.`,
		Example: `  ares sim run --workload kueue-baseline
  ares sim run --trace jobs.csv --fleet fleet.yaml --policy ares,fifo -o json --out runs.json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.simRun(cmd.Context(), cmd, &f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.trace, "trace", "", "file with the jobs; - for standard input")
	flags.StringVar(&f.format, "format", "", "trace format: "+strings.Join(sim.Formats(), ", ")+" (default detected)")
	flags.StringVar(&f.fleet, "fleet", "", "file with the nodes: a cluster file, or a node list of openb (.csv) (default the nodes of the recording)")
	flags.StringVar(&f.fleetFormat, "fleet-format", "", strings.Join(fleetFormats, ", ")+" (default from the file name)")
	flags.StringVar(&f.workload, "workload", "", "built-in workload with its own jobs and fleet: "+strings.Join(sim.Workloads(), ", ")+", or "+sim.RegimePrefix+"NAME (drawn by seed)")
	flags.StringSliceVar(&f.policies, "policy", []string{"ares"}, "policies to simulate, names or files.\nNames: "+strings.Join(sim.PolicyNames(), ", "))
	flags.Uint64Var(&f.seed, "seed", 0, "random seed")
	flags.StringVar(&f.seeds, "seeds", "", "several seeds, such as 1-5 or 1,7,9")
	flags.StringVar(&f.resample, "resample", sim.ResampleNone, "resample the trace by seed: "+strings.Join(sim.Resamples(), ", "))
	flags.StringVar(&f.until, "until", "", "stop after this simulated time, such as 72h or 14d (default after the last job)")
	flags.BoolVar(&f.strict, "strict", false, "fail when a row or column of the trace cannot be read")
	flags.IntVar(&f.regions, "regions", 0, "split the nodes into this many regions, each a cluster of its own with a hub above them")
	flags.StringSliceVar(&f.choose, "choose", sim.RegionChoices(), "with --regions: how a region is chosen for a job")
	flags.StringVarP(&f.output, "output", "o", "table", "table, json, or csv with one row per job")
	flags.StringVar(&f.out, "out", "", "output file (default - for standard output)")
	flags.StringVar(&f.html, "html", "", "file for an HTML page with plots")
	for name, values := range map[string][]string{
		"format": sim.Formats(), "policy": sim.PolicyNames(), "fleet-format": fleetFormats, "resample": sim.Resamples(), "output": simOutputs,
		"workload": append(sim.Workloads(), regimeWorkloads()...), "choose": sim.RegionChoices(),
	} {
		output.Must(c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	return c
}

// regimeWorkloads returns the names of the workloads that are drawn from regimes.
func regimeWorkloads() []string {
	regimes := sim.Regimes()
	names := make([]string, len(regimes))
	for i := range regimes {
		names[i] = sim.RegimePrefix + regimes[i].Name
	}
	return names
}

var (
	simOutputs   = []string{"table", "json", "csv"}
	fleetFormats = []string{"ares", "openb"}
)

// simRun reads all input files first, so that mistakes are reported before the simulation starts.
func (a *commands) simRun(ctx context.Context, cmd *cobra.Command, f *simFlags) error {
	switch files := f.trace + f.format + f.fleet + f.fleetFormat; {
	case f.workload != "" && files != "":
		return exit.Usagef("--workload has its own jobs and fleet: remove --trace, --format, --fleet and --fleet-format")
	case f.workload == "" && f.trace == "":
		return exit.Usagef("--trace or --workload is missing (see: %s --help)", cmd.CommandPath())
	}
	if !slices.Contains(simOutputs, f.output) {
		return exit.Usagef("--output %s: use table, json or csv", f.output)
	}
	if !slices.Contains(sim.Resamples(), f.resample) {
		return exit.Usagef("--resample %s: use one of %s", f.resample, strings.Join(sim.Resamples(), ", "))
	}
	switch several := cmd.Flags().Changed("seeds"); {
	case several && cmd.Flags().Changed("seed"):
		return exit.Usagef("use --seed or --seeds, not both")
	case !several:
		f.seeds = strconv.FormatUint(f.seed, 10)
	}
	if err := checkRegions(cmd, f); err != nil {
		return err
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
	if f.regions > 0 {
		return a.simulateRegions(ctx, f, setup, policies[0], seeds)
	}
	return a.simulate(ctx, f, setup, policies, seeds)
}

// simSetup reads the jobs and the nodes of the simulation.
func (a *commands) simSetup(ctx context.Context, f *simFlags) (sim.Setup, error) {
	if f.workload != "" {
		w, err := sim.WorkloadNamed(f.workload)
		if err != nil {
			return sim.Setup{}, exit.Usagef("--workload: %s", err)
		}
		return sim.Setup{Trace: w.Trace, Draw: w.Draw, TraceName: w.Name, Fleet: w.Fleet, FleetName: w.Name}, nil
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
		return sim.Setup{}, exit.Usagef("--fleet is missing: only a recording of Ares contains its fleet")
	}
	return sim.Setup{Trace: trace, TraceName: filepath.Base(f.trace), Fleet: fleet, FleetName: filepath.Base(cmp.Or(f.fleet, f.trace))}, nil
}

// The method `simulate` runs every policy with every seed and writes the report.
func (a *commands) simulate(ctx context.Context, f *simFlags, setup sim.Setup, policies []sim.Policy, seeds []uint64) error {
	reports := &sim.Reports{Format: sim.ReportFormat, Version: a.Version}
	var jobs strings.Builder
	rows := csv.NewWriter(&jobs)
	output.Must(rows.Write(sim.JobColumns()))
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
				output.Must(outcome.WriteJobs(rows))
				a.tellEnd(&outcome.Report)
			}
			if n := len(reports.Runs); ctx.Err() != nil && (outcome.Report.Source.Halted || n < len(policies)*len(seeds)) {
				rows.Flush()
				output.Printf(a.Err, "interrupted in run %d of %d, at %s of its simulated time; the report is incomplete\n",
					n, len(policies)*len(seeds), output.Duration(output.Seconds(outcome.Report.Virtual)))
				return errors.Join(a.writeRuns(f, reports, jobs.String()), &exit.Error{Code: exit.Failed})
			}
		}
	}
	rows.Flush()
	return a.writeRuns(f, reports, jobs.String())
}

// If a run stopped at its time limit, tellEnd prints a warning. The warning is needed because
// the CSV output has only rows of jobs.
func (a *commands) tellEnd(r *sim.Report) {
	if src := &r.Source; src.Until > 0 && r.Virtual >= src.Until && !src.Halted {
		output.Printf(a.Err, "%s, seed %d: stopped after %s of simulated time; later events are not in the report\n", output.Clean(src.Policy.Name), src.Seed, output.Duration(output.Seconds(src.Until)))
	}
}

// writeRuns writes the HTML page, if requested, and the report. If the report's file cannot be
// written, writeRuns prints the report, so that the report is not lost.
func (a *commands) writeRuns(f *simFlags, reports *sim.Reports, jobs string) error {
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
	return errors.Join(failed, throughBuffer(a.Out, write))
}

func (a *commands) writeReports(w io.Writer, form string, reports *sim.Reports, jobs string) error {
	switch form {
	case "json":
		return reports.WriteJSON(w)
	case "csv":
		_, err := io.WriteString(w, jobs)
		return err
	}
	for i := range reports.Runs {
		if i > 0 {
			output.Printf(w, "\n")
		}
		a.writeSimReport(w, &reports.Runs[i])
	}
	return nil
}

// parseSeeds parses a list of seeds, such as 3, 1-5 or 1,7,9.
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
			return nil, exit.Usagef("--seeds %q: use up to %d seeds, such as 1-5 or 1,7,9", text, maxSeeds)
		}
		for s := from; ; s++ {
			if slices.Contains(out, s) {
				return nil, exit.Usagef("--seeds %s: %d appears twice", text, s)
			}
			if out = append(out, s); s == to {
				break
			}
		}
	}
	return out, nil
}

// maxSeeds is the maximum number of seeds in one `ares sim run` command.
const maxSeeds = 1000

// parseSpan parses a duration, such as 90m, 72h or 14d.
func parseSpan(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := command.ParseDuration(text)
	if err != nil {
		return 0, exit.Usagef("--until %s: use a duration such as 90m, 72h or 14d", text)
	}
	return d, nil
}

// loadPolicies loads built-in policies by name and other policies from files.
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
			return nil, exit.Usagef("--policy: %s appears twice: rename one", p.Name)
		}
		out = append(out, p)
	}
	return out, nil
}

func loadPolicy(name string) (sim.Policy, error) {
	if name == "" {
		return sim.Policy{}, exit.Usagef("--policy: a name is empty: use one of %s, or a file", strings.Join(sim.PolicyNames(), ", "))
	}
	if slices.Contains(sim.PolicyNames(), name) {
		return sim.PolicyNamed(name)
	}
	file, err := openFile(name)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "./\\") {
		_, err = sim.PolicyNamed(name)
	}
	if err != nil {
		return sim.Policy{}, exit.Usagef("--policy: %s", err)
	}
	defer file.Close()
	p, err := sim.ReadPolicy(file)
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// loadFleet reads the nodes of the simulated cluster.
func (a *commands) loadFleet(ctx context.Context, f *simFlags) (*sim.Fleet, error) {
	kind := f.fleetFormat
	if kind == "" {
		kind = map[string]string{".csv": "openb"}[strings.ToLower(filepath.Ext(f.fleet))]
	}
	read, ok := map[string]func(io.Reader) (*sim.Fleet, error){
		"": sim.ReadFleet, "ares": sim.ReadFleet, "openb": sim.ReadOpenbNodes,
	}[kind]
	if !ok {
		return nil, exit.Usagef("--fleet-format %s: use one of %s", kind, strings.Join(fleetFormats, ", "))
	}
	file, err := openFile(f.fleet)
	if err != nil {
		return nil, exit.Usagef("--fleet: %s", err)
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

// machineOf returns a healthy node with the devices of a profile.
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

// loadTrace reads the jobs of a trace and warns about rows that it cannot read.
func (a *commands) loadTrace(ctx context.Context, f *simFlags) (*sim.Trace, error) {
	var from io.Reader
	if f.trace == "-" {
		from = interruptibleReader(ctx, a.In)
	} else {
		file, err := openFile(f.trace)
		if err != nil {
			return nil, exit.Usagef("--trace: %s", err)
		}
		defer file.Close()
		from = file
	}
	in := bufio.NewReaderSize(from, 1<<16)
	kind := f.format
	if kind == "" {
		head, err := in.Peek(1 << 12) // a shorter file gives fewer bytes
		if errors.Is(err, context.Canceled) {
			return nil, context.Canceled
		}
		line, _, _ := strings.Cut(string(head), "\n")
		if kind = sim.DetectFormat(line); kind == "" {
			if near, missing := sim.ClosestFormat(line); len(missing) > 0 {
				return nil, exit.Usagef("--trace %s: looks like format %s, but column %s is missing", f.trace, near, strings.Join(missing, ", "))
			}
			return nil, exit.Usagef("--trace %s: unknown trace format: set --format to one of %s", f.trace, strings.Join(sim.Formats(), ", "))
		}
		output.Printf(a.Err, "%s: detected trace format: %s\n", f.trace, kind)
	}
	if !slices.Contains(sim.Formats(), kind) {
		return nil, exit.Usagef("--format %s: use one of %s", kind, strings.Join(sim.Formats(), ", "))
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

// tellTrace warns about skipped parts of a trace.
func (a *commands) tellTrace(f *simFlags, t *sim.Trace) error {
	for _, p := range t.Problems {
		output.Printf(a.Err, "%s:%d: %s\n", f.trace, p.Line, output.Clean(p.Why))
	}
	if t.Bad > 0 {
		more := ""
		if n := t.Bad - len(t.Problems); n > 0 {
			more = fmt.Sprintf(", %d of them not shown", n)
		}
		output.Printf(a.Err, "%s: %s skipped because they could not be read%s; %s read\n", f.trace, output.Count(t.Bad, "row"), more, output.Count(len(t.Arrivals), "job"))
	}
	if t.Idle > 0 {
		output.Printf(a.Err, "%s: %s skipped: they %s\n", f.trace, output.Count(t.Idle, "row"), t.IdleReason)
	}
	if t.Unended > 0 {
		output.Printf(a.Err, "%s: the recording does not have the end of %s: they run for the predicted runtime, otherwise for their time limit\n", f.trace, output.Count(t.Unended, "job"))
	}
	if t.Assumed > 0 {
		output.Printf(a.Err, "%s: %s of these have neither: they run for one hour, or twice as long as they already ran\n", f.trace, output.Count(t.Assumed, "job"))
	}
	if len(t.Ignored) > 0 {
		output.Printf(a.Err, "%s: unused columns: %s\n", f.trace, output.Clean(strings.Join(t.Ignored, ", ")))
	}
	if f.strict && t.Bad+len(t.Ignored) > 0 {
		return ares.Errorf(ares.Invalid, "%s has %d invalid rows and %d unknown columns, which --strict does not allow", f.trace, t.Bad, len(t.Ignored))
	}
	if len(t.Arrivals) == 0 {
		return ares.Errorf(ares.Invalid, "%s has no readable jobs", f.trace)
	}
	return nil
}
