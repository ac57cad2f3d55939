package sim

import (
	"fmt"
	"slices"
	"strings"
)

// overlaySeeds is the maximum number of runs of one policy in an overlay. More curves of one color are not readable.
const overlaySeeds = 5

// policyColors and policyDashes are the numbers of colors and of dash patterns in the style of the page. They have no
// common divisor, so that all pairs of them are used before one repeats.
const (
	policyColors = 8
	policyDashes = 3
)

// overlay returns plots that show the runs of all policies together. It returns nil if there is only one policy.
func overlay(views []*view) []*plot {
	var policies []string
	drawn := map[string]int{}
	var shown []overlayRun
	for _, v := range views {
		at := slices.Index(policies, v.Label)
		if at < 0 {
			at = len(policies)
			policies = append(policies, v.Label)
		}
		if drawn[v.Label]++; drawn[v.Label] <= overlaySeeds {
			shown = append(shown, overlayRun{v, fmt.Sprintf("p%d d%d", at%policyColors, at%policyDashes)})
		}
	}
	if len(policies) < 2 {
		return nil
	}
	note := ""
	for _, n := range drawn {
		if n > overlaySeeds {
			note = fmt.Sprintf(" Only the first %d seeds of each policy are drawn.", overlaySeeds)
		} else if n > 1 && note == "" {
			note = " Each seed is a curve."
		}
	}
	of := strings.Join(policies, ", ")
	return []*plot{
		overlayCDF(shown, "Waiting time of all policies", "Share of jobs that waited at most a time, under "+of+"."+note, "waiting_cdf_seconds",
			func(r *Report) (*Distribution, []float64) { return r.Wait, r.WaitCDF }),
		overlayCDF(shown, "Completion time of all policies", "Share of jobs that were done within a time, under "+of+"."+note, "completion_cdf_seconds",
			func(r *Report) (*Distribution, []float64) { return r.Complete, r.CompleteCDF }),
		overlaySeries(shown, "time", "Allocation of all policies", "Share of the GPUs that is allocated, under "+of+"."+note, "% of GPUs", "allocated_percent",
			func(s *Series) []float64 { return s.Allocated }),
		overlaySeries(shown, "queue", "Queue of all policies", "Waiting jobs, under "+of+"."+note, "jobs waiting", "waiting_jobs", waitingJobs),
	}
}

// The type `overlayRun` is a run in an overlay. The runs of one policy have the same class.
type overlayRun struct {
	*view
	class string
}

func overlayCDF(runs []overlayRun, title, says, field string, of func(*Report) (*Distribution, []float64)) *plot {
	longest := 0.0
	for _, run := range runs {
		if d, _ := of(run.Report); d != nil {
			longest = max(longest, d.Max)
		}
	}
	p := newPlot("cdf", title, says, durations("time since submission, logarithmic", longest), linear("% of jobs", 100, true))
	for _, run := range runs {
		_, times := of(run.Report)
		if len(times) < 2 {
			continue // a run that placed or ended no job has no curve
		}
		shares := make([]float64, len(times))
		for i := range shares {
			shares[i] = float64(i)
		}
		p.draw(run.Path+field, run.Label, run.class, false, times, shares)
	}
	p.Few = len(p.Lines) == 0
	return p
}

func overlaySeries(runs []overlayRun, name, title, says, label, field string, of func(*Series) []float64) *plot {
	end, most := 0.0, 4.0
	for _, run := range runs {
		if end = max(end, run.Virtual); run.Series != nil {
			most = max(most, slices.Max(of(run.Series)))
		}
	}
	if name == "time" {
		most = 100
	}
	p := newPlot(name, title, says, timeline(end), linear(label, most, true))
	for _, run := range runs {
		if run.Series != nil && len(run.Series.Seconds) > 1 {
			p.draw(run.Path+"series."+field, run.Label, run.class, true, run.Series.Seconds, of(run.Series))
		}
	}
	p.Few = len(p.Lines) == 0
	return p
}

func waitingJobs(s *Series) []float64 {
	out := make([]float64, len(s.Waiting))
	for i, n := range s.Waiting {
		out[i] = float64(n)
	}
	return out
}

// Legend returns one line for each name in the plot. Several runs of one policy have the same name.
func (p *plot) Legend() []line {
	var out []line
	for _, l := range p.Lines {
		if !slices.ContainsFunc(out, func(o line) bool { return o.Words == l.Words }) {
			out = append(out, l)
		}
	}
	return out
}
