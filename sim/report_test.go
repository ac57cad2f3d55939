package sim

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/sim/simtest"
)

const smallFleet = "machines: [{name: m, count: 2, gpus: 4, cpus: 8, memory_mb: 1000}]\ntenants: [{name: a, weight: 2}]"

const smallTrace = `job_id,user,num_gpu,submit_time,duration,expect_time_list,best_effort
1,a,4,0,100,150,0
2,b,4,0,100,150,0
3,b,4,10,100,120,0
4,a,2,20,50,0,0
5,a,1,20,50,300,1
6,b,12,30,10,1000,0
`

func small(t *testing.T) Setup {
	t.Helper()
	f, err := ReadFleet(strings.NewReader(smallFleet))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Read("deadlines", strings.NewReader(smallTrace))
	if err != nil || trace.Bad > 0 {
		t.Fatal(err, trace.Problems)
	}
	return Setup{Trace: trace, TraceName: "small.csv", Fleet: f, FleetName: "small.yaml", Policy: Policy{Name: "ares", Engine: config.Default()}}
}

func simulate(t *testing.T, s Setup) *Outcome {
	t.Helper()
	o, err := Simulate(s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestReportCounts checks the report of a simulation that is small enough to compute by hand. Jobs
// 1 and 2 fill both machines until 100 s. Job 3 has one machine until 200 s, and jobs 4 and 5 share
// the other until 150 s. Job 6 requests more GPUs than the fleet has.
func TestReportCounts(t *testing.T) {
	t.Parallel()
	r := simulate(t, small(t)).Report
	if r.Jobs != 6 || r.Placed != 5 || r.Refused != 1 || r.Ended != 5 || r.Virtual != 200 || r.GPUs != 8 {
		t.Errorf("counts %+v", r)
	}
	if want := (Distribution{Mean: 50, P50: 80, P95: 90, P99: 90, Max: 90}); *r.Wait != want {
		t.Errorf("waits %+v, want %+v", r.Wait, want)
	}
	if want := (Distribution{Mean: 130, P50: 130, P95: 190, P99: 190, Max: 190}); *r.Complete != want {
		t.Errorf("completions %+v, want %+v", r.Complete, want)
	}
	if use := 100 * (3*400.0 + 150) / (8 * 200); r.Use != rounded(use) || r.Peak != 100 {
		t.Errorf("use %v of %v, peak %v", r.Use, use, r.Peak)
	}
	// Jobs 1 and 2 met their deadlines, job 3 ended 70 s late, and the deadline of job 6 has not passed.
	if want := (Deadlines{Jobs: 4, Met: 2, Missed: 1}); r.Deadline != want {
		t.Errorf("deadlines %+v, want %+v", r.Deadline, want)
	}
	if got := fmt.Sprint(names(r.BySize), r.BySize[3].Waiting, names(r.ByTenant)); got != "[1 2 4 16] 1 [a b]" {
		t.Errorf("groups %s", got)
	}
	if got := fmt.Sprint(names(r.ByGPUs), r.GPUsNamed("9+").Waiting, r.GPUsNamed("9+").Delay); got != "[1 2-4 9+] 1 <nil>" || *r.Delay != *r.Wait {
		t.Errorf("by GPUs %s, delays %+v", got, r.Delay)
	}
	if got := fmt.Sprint(r.Series.Waiting); got != "[0 1 3 3 0 0 0]" {
		t.Errorf("waiting %s at %v", got, r.Series.Seconds)
	}
	if got := fmt.Sprint(r.Series.Allocated, r.Series.Load); got != "[100 100 100 100 87.5 50 0] [100 150 187.5 187.5 87.5 50 0]" {
		t.Errorf("allocated and load %s", got)
	}
	if got := fmt.Sprint(r.Occupancy.Rows, r.Occupancy.Percent); got != "[m-00000 m-00001] [[100 100 100 100 100 100 0] [100 100 100 100 75 0 0]]" &&
		got != "[m-00000 m-00001] [[100 100 100 100 75 0 0] [100 100 100 100 100 100 0]]" {
		t.Errorf("occupancy %s", got)
	}
}

// TestNoTimePasses checks that the mean allocation equals the current allocation if no simulated
// time passes. Tenants a and b have different weights, and each has 4 of the 8 GPUs.
func TestNoTimePasses(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.Trace.Arrivals = s.Trace.Arrivals[:2]
	for i := range s.Trace.Arrivals {
		s.Trace.Arrivals[i].Runs = 0
	}
	r := simulate(t, s).Report
	if r.Virtual != 0 || r.Placed != 2 || r.Use != 100 || r.Peak != 100 {
		t.Errorf("%d placed in %v s: use %v, at most %v", r.Placed, r.Virtual, r.Use, r.Peak)
	}
	// The weighted shares are 1/4 and 1/2, so Jain's index is (3/4)² / (2 · 5/16) = 0.9.
	if f := r.Fairness; f.Jain.Mean != 0.9 || f.Jain.Min != 0.9 || f.ByTenant[0].Share != 50 || f.ByTenant[1].Share != 50 {
		t.Errorf("fairness %+v", r.Fairness)
	}
}

// TestPercentiles checks that the p-th percentile is the smallest value v for which at least p
// percent of all values are less than or equal to v.
func TestPercentiles(t *testing.T) {
	t.Parallel()
	upTo := func(n int) (out []float64) {
		for i := range n {
			out = append(out, float64(i+1))
		}
		return out
	}
	for _, c := range []struct {
		n, percent int
		want       float64
	}{{1, 0, 1}, {1, 99, 1}, {2, 50, 1}, {2, 51, 2}, {10, 95, 10}, {20, 95, 19}, {100, 99, 99}, {101, 99, 100}, {101, 100, 101}, {200, 0, 1}} {
		if got := percentile(upTo(c.n), c.percent); got != c.want {
			t.Errorf("p%d of 1 to %d is %v, want %v", c.percent, c.n, got, c.want)
		}
	}
	if points := cdf(upTo(200)); len(points) != 101 || points[0] != 1 || points[1] != 2 || points[95] != 190 {
		t.Errorf("points %v", points)
	}
}

func names(groups []Group) (out []string) {
	for _, g := range groups {
		out = append(out, g.Name)
	}
	return out
}

// TestFragmentation checks values that were computed by hand. The node has one free GPU, and 0.3 of another GPU
// is free. The jobs request between 0.2 and two GPUs.
func TestFragmentation(t *testing.T) {
	t.Parallel()
	room := &engine.FreeCapacity{Whole: 1, Parts: []uint16{300}, CPUs: 10, MemoryMB: 10}
	mix := []jobKind{{milli: 500, jobs: 2}, {gpus: 1, jobs: 1}, {gpus: 2, jobs: 1}, {gpus: 1, cpus: 11, jobs: 1}, {milli: 200, jobs: 5}}
	want := []int{300, 300, 1300, 1300, 0}
	sum := 0
	for i := range mix {
		if got := mix[i].fragmented(room, room.Milli()); got != want[i] {
			t.Errorf("%+v cannot use %d, want %d", mix[i], got, want[i])
		}
		sum += want[i] * mix[i].jobs
	}
	if got := fragmentation(mix, room, room.Milli()); got != sum/10 {
		t.Errorf("stranded %d, want %d", got, sum/10)
	}
}

// TestReportsAreReproducible checks that two equal simulations give the same bytes. It compares the JSON, the CSV
// and the HTML page.
func TestReportsAreReproducible(t *testing.T) {
	t.Parallel()
	for _, how := range Resamples() {
		var first []byte
		for range 3 {
			s := small(t)
			s.Seed, s.Resample = 7, how
			o := simulate(t, s)
			all := Reports{Format: ReportFormat, Runs: []Report{o.Report}}
			var b bytes.Buffer
			rows := csv.NewWriter(&b)
			if err := o.WriteJobs(rows); err != nil {
				t.Fatal(err)
			}
			if err := all.WriteJSON(&b); err != nil {
				t.Fatal(err)
			}
			if err := all.WriteHTML(&b); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = b.Bytes()
			}
			if !bytes.Equal(first, b.Bytes()) {
				t.Fatalf("resampled by %s, two runs differ", how)
			}
		}
	}
}

// In TestEmptyDistributions, no job ends. The report must then have null instead of 0 as the completion times. The
// page must show a dash. Zeros in an older report must be read as null.
func TestEmptyDistributions(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.Until = time.Second
	all := Reports{Format: ReportFormat, Runs: []Report{simulate(t, s).Report}}
	var text, page bytes.Buffer
	if err := all.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if err := all.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	if r := &all.Runs[0]; r.Wait == nil || r.Complete != nil || r.ByTenant[0].Complete != nil || !strings.Contains(text.String(), `"completion_seconds": null`) {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(page.String(), `<data value="" data-path="runs.0.completion_seconds">–</data>`) {
		t.Error("the page has no dash")
	}
	if err := simtest.CheckPage(page.Bytes(), text.Bytes()); err != nil {
		t.Error(err)
	}
	older := strings.ReplaceAll(text.String(), `"completion_seconds": null`, `"completion_seconds": {"mean": 0, "p50": 0, "p95": 0, "p99": 0, "max": 0}`)
	read, err := ReadReports(strings.NewReader(older))
	if err != nil || read.Runs[0].Complete != nil || read.Runs[0].BySize[0].Complete != nil || read.Runs[0].Wait == nil {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	all := Reports{Format: ReportFormat, Version: "v", Runs: []Report{simulate(t, small(t)).Report}}
	var b bytes.Buffer
	if err := all.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	read, err := ReadReports(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := read.WriteJSON(&again); err != nil || again.String() != b.String() {
		t.Errorf("a report that was read is written differently (%v)", err)
	}
	if !strings.Contains(b.String(), `"waiting_jobs": [ 0, 1, 3, 3, 0, 0, 0 ]`) {
		t.Error("a list of numbers is not on one line")
	}
	for _, text := range []string{"{}", `{"format":"ares-sim-report/9"}`, "x"} {
		if _, err := ReadReports(strings.NewReader(text)); err == nil {
			t.Errorf("%s is taken for a report", text)
		}
	}
}

func TestJobRows(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	to := csv.NewWriter(&b)
	if err := simulate(t, small(t)).WriteJobs(to); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 6 {
		t.Fatal(rows, err)
	}
	at := func(row int, column string) string { return rows[row][slices.Index(JobColumns(), column)] }
	for _, c := range []struct {
		row          int
		column, want string
	}{
		{2, "name", "3"},
		{2, "tenant", "b"},
		{2, "gpus", "4"},
		{2, "line", "4"},
		{2, "submitted", "10"},
		{2, "started", "100"},
		{2, "ended", "200"},
		{2, "waiting", "90"},
		{2, "completion", "190"},
		{2, "deadline", "130"},
		{2, "deadline_met", "false"},
		{0, "deadline_met", "true"},
		{3, "deadline", ""},
		{5, "started", ""},
		{5, "waiting", ""},
		{5, "deadline_met", ""},
		{2, "trace_job", "3"},
	} {
		if got := at(c.row, c.column); got != c.want {
			t.Errorf("%s of row %d is %q, want %q", c.column, c.row, got, c.want)
		}
	}
}

// TestSamplesAreBounded checks that a long simulation has no more samples than the limit. The samples must be
// taken at equal intervals.
func TestSamplesAreBounded(t *testing.T) {
	t.Parallel()
	s := small(t)
	last := s.Trace.Arrivals[5]
	for i := range 5000 { // jobs run one after the other, long beyond the time of the last arrival
		last.At, last.Runs = last.At+time.Duration(i)*time.Second, 7*time.Second
		last.Spec.GPUs = 1
		s.Trace.Arrivals = append(s.Trace.Arrivals, last)
	}
	s.Until = 0
	r := simulate(t, s).Report
	if n := len(r.Series.Seconds); n < maxSamples/4 || n > maxSamples+1 {
		t.Errorf("%d samples", n)
	}
	if n := len(r.Occupancy.Seconds); n > maxColumns {
		t.Errorf("%d columns", n)
	}
	if !slices.IsSorted(r.Series.Seconds) || r.Series.Seconds[len(r.Series.Seconds)-1] != r.Virtual {
		t.Error("samples are not in order, or do not end with the run")
	}
}

func TestUntilAndHalt(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.Until = 120 * time.Second
	if r := simulate(t, s).Report; r.Virtual != 120 || r.Ended != 2 || r.Placed != 5 || r.Refused != 1 || r.Source.Halted {
		t.Errorf("until 120 s: %+v", r)
	}
	s.Until = 0
	var last Progress
	s.Tick = func(p Progress) bool { last = p; return p.Now < 20*time.Second }
	if r := simulate(t, s).Report; !r.Source.Halted || r.Virtual != 20 || r.Jobs != 5 {
		t.Errorf("halted: %+v", r)
	}
	if last.Done != 5 || last.Total != 12 || last.Waiting != 3 {
		t.Errorf("progress %+v", last)
	}
}
