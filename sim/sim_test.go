package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
)

func TestReadReportsBadRows(t *testing.T) {
	t.Parallel()
	trace, err := Read("philly", strings.NewReader(`timestamp,duration,num_gpus,gpu_time,cluster,mood
2017-10-09 07:01:55,66.0,1,66.0,a,good
2017-10-09 06:13:03,2951.0,x,2951.0,b,bad
yesterday,1,1,1,b,bad
2017-10-09 06:00:00,5,0,0,b,idle
2017-10-09 06:30:00,5.5,2,0,b,fine
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Arrivals) != 2 || trace.Arrivals[0].Line != 6 || trace.Arrivals[0].Runs != 5500*time.Millisecond {
		t.Errorf("read %+v", trace.Arrivals)
	}
	if trace.Bad != 2 || trace.Problems[0].Line != 3 || trace.Problems[1].Line != 4 || len(trace.Ignored) != 1 || trace.Ignored[0] != "mood" {
		t.Errorf("told %d %v %v", trace.Bad, trace.Problems, trace.Ignored)
	}
	if _, err = Read("philly", strings.NewReader("timestamp,duration\n")); err == nil || !strings.Contains(err.Error(), "num_gpus") {
		t.Errorf("a header without num_gpus: %v", err)
	}
}

func TestSlurmLines(t *testing.T) {
	t.Parallel()
	trace, err := Read("slurm", strings.NewReader(`JobID|JobName|Account|Submit|ElapsedRaw|AllocTRES|NNodes|TimelimitRaw|
7|train|ml|2026-01-01T00:00:00|60|billing=16,cpu=16,gres/gpu=8,mem=128G,node=2|2|120|
7.batch|batch|ml|2026-01-01T00:00:00|60|cpu=8,mem=64G,node=1|1||
8|never|ml|2026-01-01T00:00:00|0||1|UNLIMITED|
9|typed|ml|2026-01-01T00:00:01|60|cpu=3,gres/gpu:a100=2,gres/gpu:t4=4,node=2|2||
10|both|ml|2026-01-01T00:00:02|60|cpu=3,gres/gpu=2,gres/gpu:a100=2,node=1|1||
11|uneven|ml|2026-01-01T00:00:02|60|cpu=3,gres/gpu=3,node=2|2||
12|old|ml|1969-12-31T00:00:02|60|cpu=3,gres/gpu=3,node=1|1||
13|vast|ml|2026-01-01T00:00:02|60|cpu=3,gres/gpu=3000000,node=3000|3000||
`))
	if err != nil || trace.Bad != 3 || trace.Problems[0].Line != 7 || len(trace.Arrivals) != 3 {
		t.Fatalf("%+v, %v", trace, err)
	}
	if s := trace.Arrivals[0].Spec; s.GPUs != 4 || s.CPUs != 8 || s.MemoryMB != 65536 || s.Members != 2 || s.Tenant != "ml" || s.MaxRuntimeMinutes != 120 {
		t.Errorf("read %+v", s)
	}
	if typed, both := trace.Arrivals[1].Spec, trace.Arrivals[2].Spec; typed.GPUs != 3 || typed.CPUs != 2 || both.GPUs != 2 {
		t.Errorf("read %+v and %+v", typed, both)
	}
}

// TestWaitingIsCounted checks that two jobs with four GPUs each run one after the other on a
// machine with four GPUs.
func TestWaitingIsCounted(t *testing.T) {
	t.Parallel()
	f, err := ReadFleet(strings.NewReader("machines: [{name: m, count: 1, gpus: 4, cpus: 8, memory_mb: 1000}]"))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Read("philly", strings.NewReader(`timestamp,duration,num_gpus,cluster
2017-10-09 06:00:00,100,4,a
2017-10-09 06:00:10,50,4,b
2017-10-09 06:00:20,50,8,b
`))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(f, Policy{Engine: config.Default()})
	if err := w.Run(trace, 0, nil); err != nil {
		t.Fatal(err)
	}
	if got := w.jobs[1].placed.Sub(Epoch); got != 100*time.Second {
		t.Errorf("the second began after %s", got)
	}
	if got := w.jobs[1].ended.Sub(Epoch); got != 150*time.Second {
		t.Errorf("the second ended after %s", got)
	}
	if !w.jobs[2].placed.IsZero() {
		t.Error("eight GPUs were found on a machine of four")
	}
	if err := w.state.Check(); err != nil {
		t.Error(err)
	}
}
