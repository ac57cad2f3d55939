package sim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Both halves of the regimes have the same loads, and as many learnable regimes, large gangs and tenants.
func TestRegimesAreBalanced(t *testing.T) {
	t.Parallel()
	type half struct {
		all, learnable, large, typed, limits int
		load                                 float64
	}
	var tune, judge half
	names, perLoad := map[string]bool{}, map[float64]int{}
	for _, r := range Regimes() {
		if names[r.Name] || r.Load < 0.5 || r.Load > 3 || !strings.Contains(r.Name, string(r.sizes)) {
			t.Errorf("%s: its name is taken or wrong, or its load %v is outside 0.5 to 3", r.Name, r.Load)
		}
		names[r.Name] = true
		h, step := &tune, 1
		if r.Judged {
			h, step = &judge, -1
		}
		perLoad[r.Load] += step
		h.all++
		h.load += r.Load
		if r.Learnable {
			h.learnable++
		}
		if mix := sizeMixes[r.sizes]; mix[len(mix)-1].milli > 8000 && r.sizes != "philly" {
			h.large++
		}
		if len(r.fleet.models()) > 0 {
			h.typed++
		}
		if r.limits == limitsWrong {
			h.limits++
		}
	}
	if tune.all < 20 || tune.all != judge.all || tune.learnable != judge.learnable || math.Abs(tune.load-judge.load) > 0.01 {
		t.Errorf("to tune on: %+v, judged: %+v", tune, judge)
	}
	if tune.typed != judge.typed || max(tune.large-judge.large, judge.large-tune.large) > 2 || max(tune.limits-judge.limits, judge.limits-tune.limits) > 3 {
		t.Errorf("to tune on: %+v, judged: %+v", tune, judge)
	}
	for load, more := range perLoad {
		if more != 0 {
			t.Errorf("load %v: %d more regimes to tune on than judged", load, more)
		}
	}
}

// The same seed draws the same jobs, and another seed draws others.
func TestRegimesAreDrawnBySeed(t *testing.T) {
	t.Parallel()
	for _, r := range Regimes() {
		a, b, c := r.Trace(7), r.Trace(7), r.Trace(8)
		if !slices.EqualFunc(a.Arrivals, b.Arrivals, sameArrival) {
			t.Errorf("%s: two draws with one seed differ", r.Name)
		}
		if slices.EqualFunc(a.Arrivals, c.Arrivals, sameArrival) {
			t.Errorf("%s: two seeds draw the same jobs", r.Name)
		}
	}
}

func sameArrival(a, b Arrival) bool {
	return a.At == b.At && a.Runs == b.Runs && a.Owner == b.Owner && a.Spec.Name == b.Spec.Name && a.Spec.GPUs == b.Spec.GPUs && a.Spec.Members == b.Spec.Members
}

// Every regime has its number of jobs and its load, and its fleet can run each of its jobs.
func TestRegimesAreValid(t *testing.T) {
	t.Parallel()
	largest := 0.0
	for _, r := range Regimes() {
		trace, w := r.Trace(3), NewWorld(r.Fleet(), Policy{})
		last := trace.Arrivals[len(trace.Arrivals)-1].At
		load := trace.Work().Seconds() / (last.Seconds() * float64(r.GPUs()))
		if len(trace.Arrivals) != r.Jobs || math.Abs(load/r.Load-1) > 0.03 || r.GPUs() != w.GPUs() {
			t.Errorf("%s: %d jobs at load %.3f on %d GPUs", r.Name, len(trace.Arrivals), load, w.GPUs())
		}
		for i := range trace.Arrivals {
			a := &trace.Arrivals[i]
			largest = max(largest, a.gpuMilli()/1000)
			spec, refused := w.split(a.Spec)
			spec.Command = []string{"true"} // a simulation needs no command, a server does
			if limit := time.Duration(a.Spec.MaxRuntimeMinutes) * time.Minute; refused || a.Runs < 5*time.Second || a.Owner == "" || limit > 0 && limit < a.Runs {
				t.Fatalf("%s: job %d cannot run, or not for its time: %+v", r.Name, i, a)
			}
			if err := spec.WithDefaults().Check(); err != nil {
				t.Fatalf("%s: job %d: %v", r.Name, i, err)
			}
		}
	}
	if largest != 256 {
		t.Errorf("the largest gang has %v GPUs", largest)
	}
}

// In a learnable regime, the earlier runs of a name predict much of a runtime. In the others, nothing that is known
// about a job predicts it.
func TestLearnableRegimes(t *testing.T) {
	t.Parallel()
	keys := map[string]func(*Arrival) string{
		"owner and name": func(a *Arrival) string { return a.Owner + "/" + a.Spec.Name },
		"owner":          func(a *Arrival) string { return a.Owner },
		"GPUs":           func(a *Arrival) string { return sizeName(int(a.gpuMilli())) },
		"limit":          func(a *Arrival) string { return time.Duration(a.Spec.MaxRuntimeMinutes).String() },
	}
	for _, r := range Regimes() {
		trace := r.Trace(5)
		for name, key := range keys {
			got := explained(trace, key)
			if r.Learnable && name == "owner and name" && got < 0.25 {
				t.Errorf("%s is learnable, but %s explain only %.2f of the variance", r.Name, name, got)
			}
			if !r.Learnable && got > 0.02 {
				t.Errorf("%s is not learnable, but %s explain %.2f of the variance", r.Name, name, got)
			}
		}
	}
}

// explained returns how much of the variance of ln(runtime) is predicted by the mean of the earlier jobs with the same
// key. A key with few earlier jobs is predicted mostly by the mean of all earlier jobs. The first tenth of the jobs
// does not count.
func explained(t *Trace, key func(*Arrival) string) float64 {
	type sum struct{ n, total float64 }
	groups, all := map[string]sum{}, sum{}
	mean := 0.0
	for i := range t.Arrivals {
		mean += math.Log(t.Arrivals[i].Runs.Seconds()) / float64(len(t.Arrivals))
	}
	var wrong, spread float64
	for i := range t.Arrivals {
		a := &t.Arrivals[i]
		log, g := math.Log(a.Runs.Seconds()), groups[key(a)]
		if i > len(t.Arrivals)/10 {
			guess := (g.total + 3*all.total/all.n) / (g.n + 3)
			wrong += (log - guess) * (log - guess)
			spread += (log - mean) * (log - mean)
		}
		groups[key(a)], all = sum{g.n + 1, g.total + log}, sum{all.n + 1, all.total + log}
	}
	return 1 - wrong/spread
}

// A regime is also a built-in workload, and an unknown one is named.
func TestRegimeWorkload(t *testing.T) {
	t.Parallel()
	r := Regimes()[0]
	w, err := WorkloadNamed(RegimePrefix + r.Name)
	if err != nil {
		t.Fatal(err)
	}
	if w.Draw == nil || !slices.EqualFunc(w.Draw(1).Arrivals, w.Trace.Arrivals, sameArrival) {
		t.Error("the workload has other jobs than its first seed")
	}
	if _, err := WorkloadNamed("regime:none"); ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), r.Name) {
		t.Errorf("an unknown regime: %v", err)
	}
}

// The bounded slowdown of a job that waits as long as it runs is 2, and short jobs count as a minute long.
func TestBoundedSlowdown(t *testing.T) {
	t.Parallel()
	trace := &Trace{Arrivals: []Arrival{
		{Runs: 100 * time.Second, Spec: ares.Spec{GPUs: 1}}, {Runs: 100 * time.Second, Spec: ares.Spec{GPUs: 1}}, {Runs: 10 * time.Second, Spec: ares.Spec{GPUs: 1}},
	}}
	p, err := PolicyNamed("fifo-backfill")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(&Fleet{Machines: []Machine{{Name: "n", Count: 1, GPUs: 1}}}, p)
	if w.BoundedSlowdown(time.Minute) != nil {
		t.Error("there is a slowdown without jobs")
	}
	if err := w.Run(trace, 0, nil); err != nil {
		t.Fatal(err)
	}
	if got := w.BoundedSlowdown(time.Minute); got.P50 != 2 || got.Max != 3.5 {
		t.Errorf("the median is %v and the maximum is %v, not 2 and 210 s ÷ 60 s", got.P50, got.Max)
	}
}

// A simulation of a regime draws its jobs by seed, and runs of two policies with the same seeds can be compared.
func TestRegimeRunsAreComparable(t *testing.T) {
	t.Parallel()
	r := Regimes()[0]
	r.Jobs = 200
	var runs []Labelled
	for _, name := range []string{"fifo-backfill", "sjf-backfill"} {
		p, err := PolicyNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(2) {
			out, err := Simulate(Setup{Draw: r.Trace, Fleet: r.Fleet(), Policy: p, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, Labelled{Label: name, Report: &out.Report})
		}
	}
	if a, b := runs[0].Report, runs[1].Report; a.Complete.Mean == b.Complete.Mean || a.Source.Trace.SHA256 != b.Source.Trace.SHA256 || a.Source.Trace.Jobs != 200 {
		t.Errorf("seeds 0 and 1 of %s have the mean completion times %v and %v", r.Name, a.Complete.Mean, b.Complete.Mean)
	}
	c, err := Compare(runs, false)
	if err != nil || len(c.Policies) != 2 || len(c.Seeds) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}
