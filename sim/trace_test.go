package sim

import (
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/engine/config"
)

// TestQuotesCostOneRow checks that a quotation mark in sacct output is part of a name. The reason is that sacct does
// not quote values. In a CSV file, an unclosed quotation mark must make only its own row invalid.
func TestQuotesCostOneRow(t *testing.T) {
	t.Parallel()
	trace, err := Read("slurm", strings.NewReader("JobID|JobName|Submit|ElapsedRaw|AllocTRES|\r\n"+
		"1|\"train|2026-01-01T00:00:00|60|gres/gpu=1|\r\n\r\n"+
		"2|a\"b\"|2026-01-01T00:00:01|60|gres/gpu=2|"))
	if err != nil || trace.Bad != 0 || len(trace.Arrivals) != 2 {
		t.Fatalf("%+v, %v", trace, err)
	}
	if a, b := trace.Arrivals[0], trace.Arrivals[1]; a.Spec.Name != `"train` || b.Spec.Name != `a"b"` || b.Spec.GPUs != 2 || b.Line != 4 {
		t.Errorf("read %+v and %+v", a, b)
	}
	trace, err = Read("philly", strings.NewReader(`timestamp,duration,num_gpus,cluster
2017-10-09 06:00:00,5,1,"a
2017-10-09 06:00:01,5,1,b"b
2017-10-09 06:00:02,5,1,"c, d"
2017-10-09 06:00:03,5,1,e
`))
	if err != nil || trace.Bad != 2 || trace.Problems[0].Line != 2 || trace.Problems[1].Line != 3 {
		t.Fatalf("%+v, %v", trace, err)
	}
	if len(trace.Arrivals) != 2 || trace.Arrivals[0].Spec.Tenant != "c, d" || trace.Arrivals[0].Line != 4 {
		t.Errorf("read %+v", trace.Arrivals)
	}
}

// TestCPUUnits checks that any trace runs on any fleet with the right CPU limits. The format openb counts thousandths
// of cores, and other formats count cores.
func TestCPUUnits(t *testing.T) {
	t.Parallel()
	pods, err := Read("openb", strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"+
		"a,4500,10,1,1000,0,100\nb,4000,10,1,1000,0,100\n"))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := Read("slurm", strings.NewReader("JobID|Submit|ElapsedRaw|AllocTRES|\n"+
		"1|2026-01-01T00:00:00|100|cpu=5,gres/gpu=1|\n2|2026-01-01T00:00:00|100|cpu=4,gres/gpu=1|\n"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := ReadFleet(strings.NewReader("machines: [{name: m, gpus: 8, cpus: 8, memory_mb: 1000}]"))
	if err != nil {
		t.Fatal(err)
	}
	listed, err := ReadOpenbNodes(strings.NewReader("sn,cpu_milli,memory_mib,gpu,model\nn,8000,1000,8,T4\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, trace := range []*Trace{pods, jobs} {
		for _, fleet := range []*Fleet{own, listed} {
			o, err := Simulate(Setup{Trace: trace, Fleet: fleet, Policy: Policy{Engine: config.Default()}})
			if err != nil {
				t.Fatal(err)
			}
			if r := &o.Report; r.Ended != 2 || r.Wait.Max != 100 {
				t.Errorf("%s, in thousandths %v, on a fleet in thousandths %v: %d ended, one waited %v", trace.Format, trace.MilliCPU, fleet.MilliCPU, r.Ended, r.Wait.Max)
			}
		}
	}
	if jobs.Arrivals[0].Spec.CPUs != 5 || own.cpuFactor != 0 {
		t.Error("a simulation has changed what it was given")
	}
}

// TestIdleRowsAreCounted checks that rows without work are counted and reported, but not as errors.
func TestIdleRowsAreCounted(t *testing.T) {
	t.Parallel()
	for kind, text := range map[string]string{
		"philly":    "timestamp,duration,num_gpus,cluster\n2017-10-09 06:00:00,5,0,a\n2017-10-09 06:00:01,5,1,b\n",
		"deadlines": "job_id,user,num_gpu,submit_time,duration,expect_time_list\n1,a,0,1,5,9\n2,a,1,1,5,9\n",
		"slurm": "JobID|Submit|ElapsedRaw|AllocTRES|\n1|2026-01-01T00:00:00|0||\n" +
			"2|2026-01-01T00:00:00|5|cpu=1,gres/gpu=1|\n2.batch|2026-01-01T00:00:00|5|cpu=1|\n",
	} {
		trace, err := Read(kind, strings.NewReader(text))
		if err != nil || trace.Bad != 0 || trace.Idle != 1 || trace.IdleReason == "" || len(trace.Arrivals) != 1 {
			t.Errorf("%s: %+v, %v", kind, trace, err)
			continue
		}
		o, err := Simulate(Setup{Trace: trace, Fleet: &Fleet{Machines: []Machine{{Name: "m", Count: 1, GPUs: 1, CPUs: 1}}}, Policy: Policy{Engine: config.Default()}})
		if err != nil || o.Report.Source.Trace.Idle != 1 {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if trace, err := Read("openb", strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,0,0\n")); err != nil || len(trace.Arrivals) != 1 || trace.Idle != 0 {
		t.Errorf("%+v, %v", trace, err)
	}
}

// TestBadRows checks that bad rows are reported with their line numbers. Values must not be guessed.
func TestBadRows(t *testing.T) {
	t.Parallel()
	const sacct, pods = "JobID|JobName|Submit|ElapsedRaw|AllocTRES|NNodes|\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"
	for _, c := range []struct{ kind, head, row, why string }{
		{"slurm", sacct, "1|a|2026-01-01T00:00:00|60", "4 cells"},
		{"slurm", sacct, "1|a|2026-01-01T00:00:00|60|", "5 cells"},
		{"slurm", sacct, "1|a|b|2026-01-01T00:00:00|60|cpu=1|1|", "8 cells"},
		{"slurm", sacct, "1|a|2026-01-01T00:00:00|60|cpu=1|0|", "at least 1"},
		{"slurm", sacct, "1|a|2026-01-01T00:00:00|60|cpu=9999999999999|1|", "a list such as"},
		{"slurm", sacct, "1|a|2026-01-01T00:00:00|60|mem=9999999999T|1|", "a list such as"},
		{"slurm", sacct, "1|a|2026-01-01T00:00:00|60|mem=NaNG|1|", "a list such as"},
		{"openb", pods, "a,1,1,1,1000,10,5", `"5" is not after`},
		{"openb", pods, "a,1,1,2,500,0,5", "only one GPU can be shared"},
	} {
		trace, err := Read(c.kind, strings.NewReader(c.head+c.row+"\n"))
		if err != nil || trace.Bad != 1 || trace.Problems[0].Line != 2 || !strings.Contains(trace.Problems[0].Why, c.why) {
			t.Errorf("%q: %+v, %v, want %s", c.row, trace, err, c.why)
		}
	}
	if _, err := ReadOpenbNodes(strings.NewReader("sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,m\nb,1,1,1,m\na,1,1,1,m\n")); err == nil || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("a node given twice: %v", err)
	}
}

// TestTypeOfGPUs checks that the GPU type in a trace is used as the GPU model. If no machine has the model that a job
// requests, the job is rejected and does not block other jobs.
func TestTypeOfGPUs(t *testing.T) {
	t.Parallel()
	trace, err := Read("slurm", strings.NewReader(`JobID|Submit|ElapsedRaw|AllocTRES|
1|2026-01-01T00:00:00|60|gres/gpu:a100=2
2|2026-01-01T00:00:01|60|gres/gpu=2,gres/gpu:h100=2|
3|2026-01-01T00:00:02|60|gres/gpu:h100=1,gres/gpu:t4=1|
4|2026-01-01T00:00:03|60|gres/gpu=2,gres/gpu:t4=1|
`))
	if err != nil || len(trace.Arrivals) != 4 {
		t.Fatalf("%+v, %v", trace, err)
	}
	for i, want := range []string{"a100", "h100", "", ""} {
		if s := trace.Arrivals[i].Spec; s.GPUModel != want || s.GPUs != 2 {
			t.Errorf("job %d wants %d of %q, not of %q", i+1, s.GPUs, s.GPUModel, want)
		}
	}
	fifo, err := PolicyNamed("fifo")
	if err != nil {
		t.Fatal(err)
	}
	fleet := &Fleet{Machines: []Machine{{Name: "m", Count: 1, GPUs: 8, Model: "NVIDIA H100"}}}
	o, err := Simulate(Setup{Trace: trace, Fleet: fleet, Policy: fifo})
	if err != nil {
		t.Fatal(err)
	}
	if r := &o.Report; r.Refused != 1 || r.Ended != 3 {
		t.Errorf("%d refused and %d ended", r.Refused, r.Ended)
	}
}

func TestBadNumbers(t *testing.T) {
	t.Parallel()
	for row, why := range map[string]string{
		"2017-10-09 06:00:00,5,-5,a":                   `num_gpus "-5" is negative`,
		"2017-10-09 06:00:00,5,99999999999,a":          "is too large",
		"2017-10-09 06:00:00,5,99999999999999999999,a": "is too large",
		"2017-10-09 06:00:00,5,1.5,a":                  "is not a whole number",
		"2017-10-09 06:00:00,-5,1,a":                   `duration "-5" is negative`,
		"2017-10-09 06:00:00,5e9,1,a":                  "is too large",
		"2017-10-09 06:00:00,1e999,1,a":                "is too large",
		"2017-10-09 06:00:00,NaN,1,a":                  "is not a number of seconds",
	} {
		trace, err := Read("philly", strings.NewReader("timestamp,duration,num_gpus,cluster\n"+row+"\n"))
		if err != nil || trace.Bad != 1 || !strings.Contains(trace.Problems[0].Why, why) {
			t.Errorf("%s: %+v, %v, want %s", row, trace, err, why)
		}
	}
}

func TestClosestFormat(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{
		"JobID|JobName|Submit|ElapsedRaw|State|": "slurm AllocTRES",
		"timestamp,duration,cluster":             "philly num_gpus",
		"a,b,c":                                  " ",
	} {
		kind, missing := ClosestFormat(head)
		if got := kind + " " + strings.Join(missing, ","); got != want {
			t.Errorf("%s is nearly %q, want %q", head, got, want)
		}
	}
}

// The forecast of a job uses earlier jobs of the same user, so a trace keeps the user.
func TestSlurmUsersOwnTheirJobs(t *testing.T) {
	t.Parallel()
	trace, err := Read("slurm", strings.NewReader("JobID|JobName|User|Submit|ElapsedRaw|AllocTRES|\n7|fit|ada|2026-01-01T00:00:00|60|cpu=1,gres/gpu=1|\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := PolicyNamed("easy-forecast")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(&Fleet{Machines: []Machine{{Name: "n", Count: 1, GPUs: 1, CPUs: 8}}}, p)
	w.arrive(&trace.Arrivals[0])
	w.flush()
	if got := w.predictor.predictions[jobID(0)].ask.User; got != "ada" {
		t.Errorf("the forecast takes %q for the user", got)
	}
}
