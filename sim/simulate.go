package sim

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Setup is the input of one simulation.
type Setup struct {
	Trace *Trace
	// Draw draws the trace by seed, for a workload that is random. Trace is not used then.
	Draw      func(seed uint64) *Trace
	TraceName string
	Fleet     *Fleet
	FleetName string
	Policy    Policy
	Seed      uint64
	Resample  string
	Until     time.Duration
	// Tick is called with the progress after every time step. If Tick returns false, the run ends.
	Tick func(Progress) bool
}

// Progress is the progress of a simulation.
type Progress struct {
	Now         time.Duration // simulated time since the start
	Done, Total int           // arrivals and ends, so far and of the whole trace
	Waiting     int           // waiting jobs
}

// Outcome is the result of a finished simulation.
type Outcome struct {
	Report Report
	world  *World
}

// Simulate runs a trace on a fleet under a policy, and returns the report.
func Simulate(s Setup) (*Outcome, error) {
	if s.Draw != nil {
		s.Trace = s.Draw(s.Seed)
	}
	trace, err := s.Trace.Resample(s.Resample, s.Seed)
	if err != nil {
		return nil, err
	}
	trace, fleet := sameCPUUnit(trace, s.Fleet)
	w := NewWorld(fleet, s.Policy.For(trace, s.Seed))
	w.MeasureFairness()
	seen := addSampler(w, trace, s.Until)
	total := len(trace.Arrivals)
	for i := range trace.Arrivals {
		if trace.Arrivals[i].Runs > 0 {
			total++
		}
	}
	tick := func(now time.Time, waiting int) {
		if s.Tick != nil && !s.Tick(Progress{Now: now.Sub(Epoch), Done: len(w.jobs) + w.finished, Total: total, Waiting: waiting}) {
			w.Halt()
		}
	}
	if err := w.Run(trace, s.Until, tick); err != nil {
		return nil, err
	}
	return &Outcome{Report: s.report(w, seen), world: w}, nil
}

// This method returns the report of the simulated world. The report includes its source and the
// time series.
func (s *Setup) report(w *World, seen *sampler) Report {
	seen.last(w)
	r := w.Report()
	r.Source = Source{
		Trace:  TraceSource{Name: s.TraceName, Format: s.Trace.Format, SHA256: s.Trace.Digest, Jobs: len(s.Trace.Arrivals), Bad: s.Trace.Bad, Idle: s.Trace.Idle},
		Fleet:  FleetSource{Name: s.FleetName, SHA256: s.Fleet.Digest, GPUs: w.gpus},
		Policy: s.Policy.source(), Seed: s.Seed,
		Resample: cmp.Or(s.Resample, ResampleNone), Until: s.Until.Seconds(), Halted: w.halted,
	}
	for range s.Fleet.Nodes() {
		r.Source.Fleet.Nodes++
	}
	series, occupancy := seen.series(w.gpus), seen.occupancy()
	r.Series, r.Occupancy = &series, &occupancy
	r.Stranded = mean(series.Seconds, series.Stranded)
	r.Fairness = w.Fairness().rounded()
	return r
}

func (p *Policy) source() PolicySource {
	return PolicySource{Name: p.Name, Engine: p.Engine.Digest(), Estimate: p.Estimate, Error: p.EstimateError, Checkpoint: p.CheckpointSeconds}
}

// JobColumns returns the columns of WriteJobs. Times are in seconds since the
// start. If an event did not happen, its time is empty.
func JobColumns() []string {
	return []string{
		"policy", "seed", "line", "job", "name", "tenant", "gpus", "submitted", "started", "ended", "waiting", "completion", "preemptions",
		"lost_gpu_seconds", "deadline", "deadline_met", "trace_job",
	}
}

// WriteJobs writes a row for every job that arrived.
func (o *Outcome) WriteJobs(to *csv.Writer) error {
	w, src := o.world, &o.Report.Source
	for i := range w.jobs {
		j := &w.jobs[i]
		row := []string{
			src.Policy.Name, strconv.FormatUint(src.Seed, 10), strconv.Itoa(j.line), string(j.id), j.name, j.tenant,
			strconv.FormatFloat(float64(j.gpus)/1000, 'f', -1, 64), seconds(j.accepted, Epoch), seconds(j.placed, Epoch), seconds(j.ended, Epoch),
			seconds(j.placed, j.accepted), seconds(j.ended, j.accepted),
			strconv.Itoa(j.preemptions), strconv.FormatFloat(float64(j.lostMilli)/1000, 'f', -1, 64), seconds(j.deadline, Epoch), "", j.traceID,
		}
		if due := j.deadline; !due.IsZero() && !j.ended.IsZero() {
			row[len(row)-2] = strconv.FormatBool(!j.ended.After(due))
		}
		if err := to.Write(row); err != nil {
			return fmt.Errorf("write the jobs: %w", err)
		}
	}
	to.Flush()
	return to.Error()
}

// This function returns the seconds from one time to another. It returns "" if one of the times is
// not known.
func seconds(at, after time.Time) string {
	if at.IsZero() {
		return ""
	}
	return strconv.FormatFloat(rounded(at.Sub(after).Seconds()), 'f', -1, 64)
}

// WriteJSON writes reports as JSON. The same reports always give the same bytes.
func (r *Reports) WriteJSON(to io.Writer) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	text = numbers.ReplaceAllFunc(text, func(all []byte) []byte { return bytes.Join(bytes.Fields(all), []byte(" ")) })
	if _, err := to.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// This expression matches a list or an object that contains only numbers and spans several lines.
// Such lists and objects are more readable on one line. The expression never matches inside a
// JSON string, because JSON strings contain no line breaks.
var numbers = regexp.MustCompile(`\[\n[-0-9.e+,\s]*\]|\{\n(\s*"[a-z0-9_]+": [-0-9.e+]+,?)+\s*\}`)

// ReadReports reads the output of WriteJSON.
func ReadReports(from io.Reader) (*Reports, error) {
	var r Reports
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return nil, ares.Errorf(ares.Invalid, "the file is not a report of `ares sim run`: %s", err)
	}
	if r.Format != ReportFormat {
		return nil, ares.Errorf(ares.Invalid, "the file is not a report of `ares sim run`: its format is %q instead of %q", r.Format, ReportFormat)
	}
	for i := range r.Runs {
		r.Runs[i].dropEmpty()
	}
	return &r, nil
}
