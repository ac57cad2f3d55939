package admin

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// The type `gain` compares the real placements of a workload with first-fit placement. First
// fit takes the first nodes by name and the devices with the lowest indexes. The comparison
// uses the modelled bandwidth of the slowest link between two devices of a job.
type gain struct {
	Jobs    []gainedJob `json:"jobs,omitempty"`
	Ratio   float64     `json:"ratio"` // geometric mean over the jobs, 0 without jobs
	Least   float64     `json:"least"`
	Most    float64     `json:"most"`
	Better  int         `json:"better"`
	Equal   int         `json:"equal"`
	Worse   int         `json:"worse"`
	Unknown int         `json:"unknown"` // jobs without a computed first fit

	sum float64 // sum of the logarithms of the ratios
}

// gainedJob is the comparison for one job that uses several GPUs.
type gainedJob struct {
	ID           string  `json:"job_id"`
	Name         string  `json:"name"`
	GPUs         int     `json:"gpus"`
	Within       string  `json:"within"`
	MBps         int     `json:"bandwidth_mbps"`
	FirstFitMBps int     `json:"first_fit_mbps"`
	Ratio        float64 `json:"ratio"`
	NetworkGbps  int     `json:"network_gbps,omitempty"`          // 0 on one node, or if it is unknown
	LatencyNanos int     `json:"network_latency_nanos,omitempty"` // 0 on one node
}

// The method `count` adds one comparison to the totals.
func (g *gain) count(mbps, firstFit int) float64 {
	if mbps == 0 || firstFit == 0 {
		g.Unknown++
		return 0
	}
	ratio := float64(mbps) / float64(firstFit)
	if known := g.known(); known == 0 {
		g.Least, g.Most = ratio, ratio
	}
	g.Least, g.Most = min(g.Least, ratio), max(g.Most, ratio)
	switch {
	case mbps > firstFit:
		g.Better++
	case mbps == firstFit:
		g.Equal++
	default:
		g.Worse++
	}
	g.sum += math.Log(ratio)
	g.Ratio = math.Exp(g.sum / float64(g.known()))
	return ratio
}

func (g *gain) known() int { return g.Better + g.Equal + g.Worse }

// The method `summary` describes the result of the comparison in one sentence.
func (g *gain) summary() string {
	if g.known() == 0 {
		return "No job with several GPUs was compared."
	}
	text := fmt.Sprintf("%s with several GPUs: %.2f times the bandwidth of a first fit (geometric mean; %.2f to %.2f), better in %d, equal in %d, worse in %d.",
		output.Count(g.known(), "job"), g.Ratio, g.Least, g.Most, g.Better, g.Equal, g.Worse)
	if g.Equal == g.known() {
		text += "\nIf all links are equal, as with an NVSwitch, every choice of devices is equally fast."
	}
	return text
}

func (a *commands) topologyGainCommand() *cobra.Command {
	var o output.Flags
	var limit int
	var d firstFitComparison
	var simulate bool
	c := &cobra.Command{
		Use: "gain", Short: "Show the bandwidth that jobs gain over first-fit placement", Args: command.ExactArgs(),
		Long: `For each live job with several GPUs, show the bandwidth of the slowest link between its devices.
For comparison, the output also shows the bandwidth with first-fit placement. The output
includes finished jobs until they are archived. Bandwidths are modelled from the types of links,
not measured.

With --simulate the command needs no server. Jobs with 1, 2, 4 and 8 GPUs start and end at
random on mock nodes. The engine places these jobs on one copy of the nodes, and a first-fit
algorithm places the same jobs on another copy.`,
		Example: "  ares topology gain\n  ares topology gain --simulate --profile dgx1-v100 --seed 7",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return exit.Usagef("--limit %d: use 0 for all, or a positive maximum", limit)
			}
			if simulate {
				if cmd.Flags().Changed("limit") {
					return exit.Usagef("--limit applies to live jobs: remove it with --simulate")
				}
				return a.simulateGain(cmd.Context(), &o, &d)
			}
			for _, name := range []string{"profile", "machines", "arrivals", "seed"} {
				if cmd.Flags().Changed(name) {
					return exit.Usagef("--%s applies to a simulation: add --simulate", name)
				}
			}
			return a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
				g, err := liveGain(ctx, c)
				if err != nil {
					return err
				}
				return a.PrintValue(o.Format, g, func(w io.Writer) { a.writeGain(w, g, limit) })
			})(cmd, args)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&limit, "limit", 100, "maximum number of jobs to show; 0 for all (the ratio always includes all jobs)")
	f.BoolVar(&simulate, "simulate", false, "compare placements of random jobs on mock nodes, without a server")
	f.StringVar(&d.profile, "profile", "dgx1-v100", "mock machine: "+strings.Join(gpu.Profiles(), ", "))
	f.IntVar(&d.machines, "machines", 1, "number of mock nodes, 1 to 64")
	f.IntVar(&d.arrivals, "arrivals", 10_000, "number of jobs, 1 to 1000000")
	f.Uint64Var(&d.seed, "seed", 1, "seed of the random workload: the same seed gives the same figures")
	output.Must(c.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(gpu.Profiles(), cobra.ShellCompDirectiveNoFileComp)))
	o.AddOutput(c)
	return c
}

// liveGain compares the latest placement of every live job and every live array element with
// first-fit placement.
func liveGain(ctx context.Context, c *client.Client) (*gain, error) {
	g := &gain{}
	var arrays []string
	for j, err := range c.AllJobs(ctx, &apipb.ListJobsRequest{}) {
		if err != nil {
			return nil, err
		}
		if j.GetElements() != nil {
			arrays = append(arrays, j.GetJobId())
		}
		g.add(j)
	}
	for _, id := range arrays {
		for j, err := range c.AllJobs(ctx, &apipb.ListJobsRequest{ArrayOf: id}) {
			if err != nil {
				return nil, err
			}
			g.add(j)
		}
	}
	return g, nil
}

// The method `add` includes a job in the comparison if the job's last attempt uses several
// GPUs.
func (g *gain) add(j *apipb.Job) {
	attempts := j.GetAttempts()
	if len(attempts) == 0 {
		return
	}
	last := attempts[len(attempts)-1]
	m, gpus := last.GetPlacementScore(), 0
	for _, seat := range last.GetSeats() {
		gpus += len(seat.GetGpus())
	}
	if gpus < 2 || m.GetBandwidthMbps() == 0 {
		return
	}
	row := gainedJob{
		ID: j.GetJobId(), Name: j.GetName(), GPUs: gpus, Within: strings.TrimSpace(m.GetLevel() + " " + m.GetDomain()),
		MBps: int(m.GetBandwidthMbps()), FirstFitMBps: int(m.GetFirstFitMbps()),
		NetworkGbps: int(m.GetNetworkGbps()), LatencyNanos: int(m.GetNetworkLatencyNanos()),
	}
	row.Ratio = g.count(row.MBps, row.FirstFitMBps)
	g.Jobs = append(g.Jobs, row)
}

func (a *commands) writeGain(w io.Writer, g *gain, limit int) {
	if len(g.Jobs) == 0 {
		output.Printf(w, "No live job has several GPUs. Simulate some with: ares topology gain --simulate\n")
		return
	}
	t := output.Table{Head: []string{"JOB", "NAME", "GPUS", "WITHIN", "MB/S", "FIRST FIT", "RATIO", "LATENCY"}}
	for i, j := range g.Jobs {
		if i == limit && limit > 0 {
			break
		}
		first, ratio, latency := "?", "?", "-" // a job on one node uses no network
		if j.LatencyNanos > 0 {
			latency = fmt.Sprintf("%g us", float64(j.LatencyNanos)/1000)
		}
		if j.FirstFitMBps > 0 {
			first, ratio = strconv.Itoa(j.FirstFitMBps), fmt.Sprintf("%.2f", j.Ratio)
		}
		t.Add(j.ID, j.Name, strconv.Itoa(j.GPUs), j.Within, strconv.Itoa(j.MBps), first, ratio, latency)
	}
	a.WriteTable(w, &t)
	if limit > 0 && len(g.Jobs) > limit {
		output.Printf(w, "%d of %d jobs; show more with --limit N\n", limit, len(g.Jobs))
	}
	output.Printf(w, "\n%s\n", g.summary())
	if g.Unknown > 0 {
		output.Printf(w, "Not in the ratio: %s without a first fit among the first nodes.\n", output.Count(g.Unknown, "job"))
	}
}
