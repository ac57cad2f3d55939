package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/sim"
)

// checkRegions rejects flags that have no meaning for a federation.
func checkRegions(cmd *cobra.Command, f *simFlags) error {
	changed := cmd.Flags().Changed
	if !changed("regions") {
		if changed("choose") {
			return exit.Usagef("--choose needs --regions")
		}
		return nil
	}
	if err := (sim.Regions{Count: f.regions}).Check(); err != nil {
		return exit.Usagef("--regions: %s", err)
	}
	for _, c := range f.choose {
		if !slices.Contains(sim.RegionChoices(), c) {
			return exit.Usagef("--choose %s: use one or several of %s", c, strings.Join(sim.RegionChoices(), ", "))
		}
	}
	switch {
	case len(f.choose) == 0:
		return exit.Usagef("--choose is empty: use one or several of %s", strings.Join(sim.RegionChoices(), ", "))
	case len(f.policies) != 1:
		return exit.Usagef("--regions compares ways to choose a region: use one --policy for all clusters")
	case f.output == "csv" || f.html != "" || f.until != "":
		return exit.Usagef("--regions has no -o csv, --html or --until: use -o table or json")
	}
	return nil
}

// regionReports is the JSON output of a simulation with regions.
type regionReports struct {
	Format  string               `json:"format"`
	Version string               `json:"ares_version"`
	Policy  string               `json:"policy"`
	Runs    []*sim.RegionsResult `json:"runs"`
}

// simulateRegions simulates every way to choose a region with every seed, and writes the results.
func (a *commands) simulateRegions(ctx context.Context, f *simFlags, setup sim.Setup, policy sim.Policy, seeds []uint64) error {
	all := regionReports{Format: "ares-sim-regions/1", Version: a.Version, Policy: policy.Name}
	for _, seed := range seeds {
		trace := setup.Trace
		if setup.Draw != nil {
			trace = setup.Draw(seed)
		}
		trace, err := trace.Resample(setup.Resample, seed)
		if err != nil {
			return err
		}
		for _, choose := range f.choose {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := sim.SimulateRegions(trace, setup.Fleet, policy, sim.Regions{Count: f.regions, Seed: seed}, choose)
			if err != nil {
				return err
			}
			all.Runs = append(all.Runs, r)
		}
	}
	write := func(w io.Writer) error {
		if f.output == "json" {
			enc := json.NewEncoder(w)
			enc.SetIndent("", " ")
			return enc.Encode(all)
		}
		return a.writeRegions(w, &all)
	}
	if f.out != "" && f.out != standardOutput {
		return toFile(f.out, write)
	}
	return throughBuffer(a.Out, write)
}

func (a *commands) writeRegions(w io.Writer, all *regionReports) error {
	first := all.Runs[0]
	output.Printf(w, "%s in %d regions under %s\n", output.Count(first.Jobs, "job"), first.Regions, output.Clean(all.Policy))
	if first.Left > 0 {
		output.Printf(w, "%s left out: no region can run them, or they never end\n", output.Count(first.Left, "job"))
	}
	output.Printf(w, "\n")
	t := output.Table{Head: []string{"CHOOSE", "SEED", "WAIT MEAN", "P50", "P95", "MAX", "GPUS USED", "COMPUTE COST", "EGRESS COST", "MOVED GIB", "RESIDENCY VIOLATIONS"}}
	for _, r := range all.Runs {
		d := func(v float64) string { return output.Duration(output.Seconds(v)) }
		t.Add(r.Choose, fmt.Sprint(r.Seed), d(r.Wait.Mean), d(r.Wait.P50), d(r.Wait.P95), d(r.Wait.Max), fmt.Sprintf("%.1f %%", r.Use),
			fmt.Sprintf("%.2f", r.Compute), fmt.Sprintf("%.2f", r.Egress), fmt.Sprintf("%.0f", r.MovedGB), fmt.Sprint(r.Violations))
	}
	a.WriteTable(w, &t)
	return nil
}
