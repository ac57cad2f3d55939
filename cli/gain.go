package cli

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
	"github.com/ares-scheduler/ares/client"
)

// gain compares the placements of a workload with those of a first fit, which
// takes the first nodes by name and the lowest devices, by the modelled
// bandwidth of the slowest link between two devices of a job.
type gain struct {
	Jobs    []gainedJob `json:"jobs,omitempty"`
	Ratio   float64     `json:"ratio"` // geometric mean over the jobs, 0 without any
	Least   float64     `json:"least"`
	Most    float64     `json:"most"`
	Better  int         `json:"better"`
	Equal   int         `json:"equal"`
	Worse   int         `json:"worse"`
	Unknown int         `json:"unknown"` // of which a first fit was not worked out

	sum float64 // of the logarithms of the ratios
}

// gainedJob is one job with several GPUs.
type gainedJob struct {
	ID           string  `json:"job_id"`
	Name         string  `json:"name"`
	GPUs         int     `json:"gpus"`
	Within       string  `json:"within"`
	MBps         int     `json:"bandwidth_mbps"`
	FirstFitMBps int     `json:"first_fit_mbps"`
	Ratio        float64 `json:"ratio"`
}

// count takes one comparison into the figures over all.
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

// summary says it in a sentence.
func (g *gain) summary() string {
	if g.known() == 0 {
		return "No job of several GPUs was compared."
	}
	text := fmt.Sprintf("%s of several GPUs: %.2f times the bandwidth of a first fit (geometric mean; %.2f to %.2f), better in %d, equal in %d, worse in %d.",
		count(g.known(), "job"), g.Ratio, g.Least, g.Most, g.Better, g.Equal, g.Worse)
	if g.Equal == g.known() {
		text += "\nWhere all devices reach each other alike, as through an NVSwitch, no choice of devices is faster than another."
	}
	return text
}

func (a *app) topologyGainCommand() *cobra.Command {
	var o readFlags
	var limit int
	var d duel
	var simulate bool
	c := &cobra.Command{
		Use: "gain", Short: "Compare the placements of jobs with those of a naive first fit", Args: exactly(),
		Long: `For every live job of several GPUs, running or finished and not yet archived: what the
slowest link between two of its devices carries, and what it would have carried had the
first free devices been taken, at the moment it was placed. The figures are modelled from
the kinds of links, not measured.

With --simulate no server is asked. Jobs of 1, 2, 4 and 8 GPUs come to empty mock machines
and leave them at random; the engine places them on one copy of the machines and a first
fit on another.`,
		Example: "  ares topology gain\n  ares topology gain --simulate --profile dgx1-v100 --seed 7",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit %d: use 0 for all, or how many at most", limit)
			}
			if simulate {
				if cmd.Flags().Changed("limit") {
					return usagef("--limit is of live jobs: leave it out with --simulate")
				}
				return a.simulateGain(cmd.Context(), &o, &d)
			}
			for _, name := range []string{"profile", "machines", "arrivals", "seed"} {
				if cmd.Flags().Changed(name) {
					return usagef("--%s is of a simulation: give --simulate too", name)
				}
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error {
				g, err := liveGain(ctx, c)
				if err != nil {
					return err
				}
				return a.printValue(o.output, g, func(w io.Writer) { a.writeGain(w, g, limit) })
			})(cmd, args)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&limit, "limit", 100, "show at most this many jobs; 0 for all. The ratio is over all of them")
	f.BoolVar(&simulate, "simulate", false, "compare on mock machines instead")
	f.StringVar(&d.profile, "profile", "dgx1-v100", "mock machine: "+strings.Join(gpu.Profiles(), ", "))
	f.IntVar(&d.machines, "machines", 1, "how many of them, 1 to 64")
	f.IntVar(&d.arrivals, "arrivals", 10_000, "jobs that come, 1 to 1000000")
	f.Uint64Var(&d.seed, "seed", 1, "of the random workload: the same seed gives the same figures")
	must(c.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(gpu.Profiles(), cobra.ShellCompDirectiveNoFileComp)))
	o.addOutput(c)
	return c
}

// liveGain compares the latest placement of every live job, and of every
// element of an array.
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

// add takes a job into account, if it was ever placed with several GPUs.
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
	}
	row.Ratio = g.count(row.MBps, row.FirstFitMBps)
	g.Jobs = append(g.Jobs, row)
}

func (a *app) writeGain(w io.Writer, g *gain, limit int) {
	if len(g.Jobs) == 0 {
		say(w, "No live job has been placed with several GPUs. See figures without any with: ares topology gain --simulate\n")
		return
	}
	t := table{head: []string{"JOB", "NAME", "GPUS", "WITHIN", "MB/S", "FIRST FIT", "RATIO"}}
	for i, j := range g.Jobs {
		if i == limit && limit > 0 {
			break
		}
		first, ratio := "?", "?"
		if j.FirstFitMBps > 0 {
			first, ratio = strconv.Itoa(j.FirstFitMBps), fmt.Sprintf("%.2f", j.Ratio)
		}
		t.add(j.ID, j.Name, strconv.Itoa(j.GPUs), j.Within, strconv.Itoa(j.MBps), first, ratio)
	}
	t.write(w, a.color)
	if limit > 0 && len(g.Jobs) > limit {
		say(w, "%d of %d jobs; see more with --limit\n", limit, len(g.Jobs))
	}
	say(w, "\n%s\n", g.summary())
	if g.Unknown > 0 {
		say(w, "Of %s a first fit was not found among the first nodes; the ratio is without them.\n", count(g.Unknown, "job"))
	}
}
