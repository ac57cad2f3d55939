package sim

import (
	_ "embed" // the page's template
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes an HTML page with the figures and plots of the reports. The HTML page needs
// no other file and no network. The page embeds the report as JSON. Every figure on the page
// names the path of its value in that JSON.
func (r *Reports) WriteHTML(to io.Writer) error {
	var labels []string
	for i := range r.Runs {
		labels = append(labels, r.Runs[i].Source.Policy.Name)
	}
	return r.writePage(to, labels, nil)
}

// writePage writes the page with a label for each run. The argument `c` is nil on a page without a comparison.
func (r *Reports) writePage(to io.Writer, labels []string, c *Comparison) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	p := page{Title: "Ares simulation", Reports: r, Compared: compareTables(c), JSON: template.JS(text)} //nolint:gosec // the output of json.Marshal has no <
	for i := range r.Runs {
		p.Runs = append(p.Runs, newView(fmt.Sprintf("runs.%d.", i), labels[i], &r.Runs[i]))
	}
	p.Overlay = overlay(p.Runs)
	if len(r.Runs) > 0 {
		p.Title = r.Runs[0].Source.Trace.Name + " on " + r.Runs[0].Source.Fleet.Name
	}
	if err := pageTemplate.Execute(to, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

type page struct {
	Title    string
	Reports  *Reports
	Compared []compareTable
	Overlay  []*plot // the runs of all policies together
	Runs     []*view
	JSON     template.JS
}

// Several is true if the page shows more than one run.
func (p page) Several() bool { return len(p.Runs) > 1 }

// A `view` is one simulation run on the HTML page.
type view struct {
	*Report
	Label  string // the name of the policy, which is unique among the policies of the page
	Path   string
	Tiles  []pageFigure
	Plots  []*plot
	Heat   *heatmap
	Groups []groupTable
}

// pageFigure contains the text of a figure and the path of its value in the report.
type pageFigure struct {
	Words string
	Text  string
	Note  string
	Path  string
	Value string
}

// groupTable is a table with a row for each group of jobs. Each row shows two distributions: the
// group's waiting times, and the times that the field Also describes.
type groupTable struct {
	Title string
	Also  string
	More  []string // headers of further columns
	Rows  []groupRow
}

type groupRow struct {
	Name  string
	Cells []pageFigure
}

// Name returns a name that identifies this run among the runs on the page.
func (v *view) Name() string { return fmt.Sprintf("%s, seed %d", v.Label, v.Source.Seed) }

// Tile returns the figure that has the given title.
func (v *view) Tile(words string) pageFigure {
	return v.Tiles[slices.IndexFunc(v.Tiles, func(s pageFigure) bool { return s.Words == words })]
}

func newView(path, label string, r *Report) *view {
	v := &view{Report: r, Label: label, Path: path}
	v.tiles()
	v.plots()
	if r.Occupancy != nil {
		v.Heat = newHeatmap(r.Occupancy, r.Virtual)
	}
	all := groupRow{Name: "all", Cells: distributionCells(path, r.Placed, "placed", r.Wait, "completion_seconds", r.Complete)}
	sizes := groupTable{Title: "By size", Also: "completion", Rows: []groupRow{all}}
	for i := range r.BySize {
		sizes.Rows = append(sizes.Rows, v.row("by_size", i, &r.BySize[i], SizeText(r.BySize[i].Name)))
	}
	tenants := groupTable{Title: "By tenant", Also: "completion"}
	for i := range r.ByTenant {
		tenants.Rows = append(tenants.Rows, v.row("by_tenant", i, &r.ByTenant[i], r.ByTenant[i].Name))
	}
	v.Groups = []groupTable{v.delays(), sizes, tenants}
	return v
}

func (v *view) row(list string, i int, g *Group, name string) groupRow {
	return groupRow{Name: name, Cells: distributionCells(fmt.Sprintf("%s%s.%d.", v.Path, list, i), g.Jobs, "jobs", g.Wait, "completion_seconds", g.Complete)}
}

// This method returns the table of delays and preemptions. The table has one row for each group
// of GPU counts.
func (v *view) delays() groupTable {
	r := v.Report
	out := groupTable{Title: "Delay by GPUs", Also: "delay: completion minus runtime", More: []string{"preemptions", "of one job", "GPU-seconds lost"}}
	add := func(name, path, count string, g *Group) {
		cells := distributionCells(path, g.Jobs, count, g.Wait, "delay_seconds", g.Delay)
		for _, c := range []struct {
			name  string
			value float64
		}{{"preemptions", float64(g.Preempted)}, {"preemptions_most", float64(g.PreemptedMost)}, {"lost_gpu_seconds", g.Lost}} {
			cells = append(cells, pageFigure{Text: number(c.value), Path: path + c.name, Value: number(c.value)})
		}
		out.Rows = append(out.Rows, groupRow{Name: name, Cells: cells})
	}
	add("all", v.Path, "placed", &Group{Jobs: r.Placed, Wait: r.Wait, Delay: r.Delay, Preempted: r.Preempted, PreemptedMost: r.PreemptedMost, Lost: r.Lost})
	for i := range r.ByGPUs {
		add(CountText(r.ByGPUs[i].Name), fmt.Sprintf("%sby_gpu_count.%d.", v.Path, i), "jobs", &r.ByGPUs[i])
	}
	return out
}

func (v *view) tile(words, path, text, note string, value float64) {
	v.Tiles = append(v.Tiles, pageFigure{Words: words, Text: text, Note: note, Path: v.Path + path, Value: number(value)})
}

// This method adds a tile with the mean of a distribution. If the distribution is
// missing, the tile has no value.
func (v *view) times(words, path string, s *Distribution) {
	if s == nil {
		v.Tiles = append(v.Tiles, pageFigure{Words: words, Text: none, Path: v.Path + path})
		return
	}
	v.tile(words, path+".mean", durationText(s.Mean), "p95 "+durationText(s.P95), s.Mean)
}

// This is the text that the page shows instead of a missing value.
const none = "–"

func (v *view) tiles() {
	r := v.Report
	percent := func(f float64) string { return fmt.Sprintf("%.1f %%", f) }
	v.tile("jobs", "jobs", number(float64(r.Jobs)), refusals(r)+fmt.Sprintf("%d placed, %d ended", r.Placed, r.Ended), float64(r.Jobs))
	v.times("mean wait", "waiting_seconds", r.Wait)
	v.times("mean completion", "completion_seconds", r.Complete)
	v.tile("GPUs in use", "gpu_use_percent", percent(r.Use), "peak "+percent(r.Peak), r.Use)
	v.tile("GPUs stranded", "stranded_percent", percent(r.Stranded), "free, but not usable by these jobs", r.Stranded)
	if f := r.Fairness; f != nil && f.Tenants > 1 {
		v.tile("Jain's index", "fairness.jain.mean", fmt.Sprintf("%.3f", f.Jain.Mean), fmt.Sprintf("least %.3f, %d tenants", f.Jain.Min, f.Tenants), f.Jain.Mean)
		v.tile("gap to fair shares", "fairness.mean_largest_gap_percent", percent(f.GapMean), "peak "+percent(f.Gap), f.GapMean)
	}
	if r.Preempted > 0 {
		v.tile("preemptions", "preemptions", number(float64(r.Preempted)), number(r.Lost)+" GPU-seconds lost", float64(r.Preempted))
	}
	if d := r.Deadline; d.Jobs > 0 {
		v.tile("deadlines missed", "deadlines.missed", number(float64(d.Missed)), fmt.Sprintf("of %d", d.Jobs), float64(d.Missed))
	}
	v.tile("simulated time", "virtual_seconds", durationText(r.Virtual), fmt.Sprintf("%d GPUs on %d nodes", r.GPUs, r.Source.Fleet.Nodes), r.Virtual)
}

func refusals(r *Report) string {
	if r.Refused == 0 {
		return ""
	}
	return fmt.Sprintf("%d infeasible, ", r.Refused)
}

func distributionCells(path string, jobs int, count string, wait *Distribution, also string, other *Distribution) []pageFigure {
	out := []pageFigure{{Text: strconv.Itoa(jobs), Path: path + count, Value: strconv.Itoa(jobs)}}
	for _, s := range []struct {
		name string
		of   *Distribution
	}{{"waiting_seconds", wait}, {also, other}} {
		if s.of == nil {
			for range 5 {
				out = append(out, pageFigure{Text: none, Path: path + s.name})
			}
			continue
		}
		for _, c := range []struct {
			name  string
			value float64
		}{{"mean", s.of.Mean}, {"p50", s.of.P50}, {"p95", s.of.P95}, {"p99", s.of.P99}, {"max", s.of.Max}} {
			out = append(out, pageFigure{Text: durationText(c.value), Path: path + s.name + "." + c.name, Value: number(c.value)})
		}
	}
	return out
}

// This function formats a value as JSON does.
func number(v float64) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("sim: a report has a number that JSON cannot write: " + err.Error())
	}
	return string(text)
}

// This method adds plots of the time series and of the distributions.
func (v *view) plots() {
	r := v.Report
	if s := r.Series; s != nil {
		v.overTime(s)
	}
	shares := make([]float64, len(r.WaitCDF))
	for i := range shares {
		shares[i] = float64(i)
	}
	longest, says := 0.0, "Share of jobs that waited, and that were done, within a time."
	if r.Wait != nil {
		longest = r.Wait.Max
		says += " The median wait of placed jobs is " + durationText(r.Wait.P50) + "."
	}
	if r.Complete != nil {
		longest = max(longest, r.Complete.Max)
		says += " The median completion time of ended jobs is " + durationText(r.Complete.P50) + "."
	}
	cdf := newPlot("cdf", "How long jobs took", says, durations("time since submission, logarithmic", longest), linear("% of jobs", 100, true))
	cdf.draw(v.Path+"waiting_cdf_seconds", "waiting", "a", false, r.WaitCDF, shares)
	if len(r.CompleteCDF) > 0 {
		cdf.draw(v.Path+"completion_cdf_seconds", "completion", "b", false, r.CompleteCDF, shares)
	}
	v.Plots = append(v.Plots, cdf)
	if f := r.Fairness; f != nil && f.Tenants > 1 {
		v.fairness(f)
	}
}

func (v *view) overTime(s *Series) {
	r := v.Report
	ideal := slices.Sorted(slices.Values(s.Load))
	load := newPlot("load", "Allocation over load", "Share of the GPUs that is allocated, against what jobs that arrived and have not ended request. The ideal is the requested share, up to 100 %.",
		linear("GPUs requested, % of the fleet", max(slices.Max(s.Load), 100), false), linear("allocated, %", 100, true))
	load.draw("", "ideal", "ideal", false, []float64{0, 100, max(ideal[len(ideal)-1], 100)}, []float64{0, 100, 100})
	load.dot(v.Path+"series.allocated_percent", "allocated", "a", s.Load, s.Allocated)
	over := newPlot("time", "Allocation over time", fmt.Sprintf("Share of the GPUs that is allocated, %.1f %% on average, and that is free but stranded, %.1f %% on average.", r.Use, r.Stranded),
		timeline(r.Virtual), linear("% of GPUs", 100, true))
	over.draw(v.Path+"series.allocated_percent", "allocated", "a", true, s.Seconds, s.Allocated)
	over.draw(v.Path+"series.stranded_percent", "stranded", "c", true, s.Seconds, s.Stranded)
	most := slices.Max(s.Waiting)
	queue := newPlot("queue", "Queue over time", fmt.Sprintf("Waiting jobs, peak %d.", most), timeline(r.Virtual), linear("jobs waiting", max(float64(most), 4), true))
	queue.draw(v.Path+"series.waiting_jobs", "waiting", "a", true, s.Seconds, waitingJobs(s))
	v.Plots = append(v.Plots, load, over, queue)
}

func (v *view) fairness(f *Fairness) {
	var at, jain, gap []float64
	for _, p := range f.Series {
		at, jain, gap = append(at, p.At), append(jain, 100*p.Jain), append(gap, p.Gap)
	}
	p := newPlot("fairness", "Fairness over time", fmt.Sprintf("Jain's index of the tenants' weighted shares, %.3f on average, and the largest gap of a tenant to its fair share, in percent of the fleet, peak %.1f %%.",
		f.Jain.Mean, f.Gap), timeline(v.Virtual), linear("%", 100, true))
	p.draw(v.Path+"fairness.series.jain", "Jain's index × 100", "a", true, at, jain)
	p.draw(v.Path+"fairness.series.largest_gap_percent", "largest gap to a fair share", "c", true, at, gap)
	v.Plots = append(v.Plots, p)
}

// SizeText returns a label for a group of jobs of one size.
func SizeText(name string) string {
	switch name {
	case "0":
		return "no GPUs"
	case "1":
		return "1 GPU"
	case "2":
		return "2 GPUs"
	case "more":
		return "more GPUs"
	}
	return "up to " + name + " GPUs"
}

// CountText returns a label for a group of jobs with similar GPU counts.
func CountText(name string) string {
	switch name {
	case "0":
		return "no GPUs"
	case "1":
		return "1 GPU"
	case "9+":
		return "9 and more GPUs"
	}
	return strings.ReplaceAll(name, "-", " to ") + " GPUs"
}

// Facts returns the lines that describe what was simulated.
func (v *view) Facts() [][2]string {
	src := &v.Source
	facts := [][2]string{
		{"Trace", fmt.Sprintf("%s (%s, %d jobs, %d bad rows, SHA-256 %.12s…)", src.Trace.Name, src.Trace.Format, src.Trace.Jobs, src.Trace.Bad, src.Trace.SHA256)},
		{"Fleet", fmt.Sprintf("%s (%d nodes, %d GPUs, SHA-256 %.12s…)", src.Fleet.Name, src.Fleet.Nodes, src.Fleet.GPUs, src.Fleet.SHA256)},
		{"Policy", fmt.Sprintf("%s (engine configuration %s)", src.Policy.Name, src.Policy.Engine)},
		{"Seed", strings.TrimSuffix(fmt.Sprintf("%d, resampled by %s", src.Seed, src.Resample), ", resampled by none")},
	}
	if src.Until > 0 {
		facts = append(facts, [2]string{"Until", durationText(src.Until)})
	}
	if src.Halted {
		facts = append(facts, [2]string{"Interrupted", "at " + durationText(v.Virtual) + " of simulated time"})
	}
	return facts
}
