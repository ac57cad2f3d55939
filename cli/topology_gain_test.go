package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
)

// placedJob returns a running job with the given GPUs. The job has two bandwidths: that of its placement, and that of a first-fit
// placement.
func placedJob(id string, gpus int, mbps, first int32) *apipb.Job {
	return &apipb.Job{JobId: id, Name: id, State: "running", Attempts: []*apipb.Attempt{{
		Seats:          []*apipb.JobSeat{{Node: "n1", Gpus: make([]int32, gpus)}},
		PlacementScore: &apipb.PlacementScore{Level: "node", Domain: "n1", BandwidthMbps: mbps, FirstFitMbps: first},
	}}}
}

func TestGainOfLiveJobs(t *testing.T) {
	apart := placedJob("alike", 4, 10_000, 10_000)
	m := apart.Attempts[0].PlacementScore
	m.Level, m.Domain, m.NetworkGbps, m.NetworkLatencyNanos = "leaf", "l1", 100, 3000
	serve(t, &fake{jobs: []*apipb.Job{
		placedJob("fast", 2, 50_000, 10_000), apart, placedJob("slow", 2, 10_000, 20_000),
		placedJob("single", 1, 0, 0), placedJob("unknown", 8, 10_000, 0),
		{JobId: "waiting", State: "pending"},
	}})
	code, out, errs := run(t, "topology", "gain")
	want := `JOB      NAME     GPUS  WITHIN   MB/S   FIRST FIT  RATIO  LATENCY
fast     fast     2     node n1  50000  10000      5.00   -
alike    alike    4     leaf l1  10000  10000      1.00   3 us
slow     slow     2     node n1  10000  20000      0.50   -
unknown  unknown  8     node n1  10000  ?          ?      -

3 jobs with several GPUs: 1.36 times the bandwidth of a first fit (geometric mean; 0.50 to 5.00), better in 1, equal in 1, worse in 1.
Not in the ratio: 1 job without a first fit among the first nodes.
`
	if code != 0 || out != want || errs != "" {
		t.Errorf("exit code %d\n%s%swant\n%s", code, out, errs, want)
	}
	if _, out, _ = run(t, "topology", "gain", "--limit", "1"); !strings.Contains(out, "1 of 4 jobs; show more with --limit N") || !strings.Contains(out, "3 jobs with several GPUs: 1.36") {
		t.Errorf("the ratio must be over all jobs, however many are shown:\n%s", out)
	}
}

func TestGainWithoutJobs(t *testing.T) {
	serve(t, &fake{})
	if code, out, _ := run(t, "topology", "gain"); code != 0 || !strings.Contains(out, "ares topology gain --simulate") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// The type `simulation` has the fields that the test reads from the output of "ares topology gain
// --simulate -o json".
type simulation struct {
	Refused int `json:"refused"`
	Sizes   []struct {
		GPUs     int     `json:"gpus"`
		Engine   float64 `json:"bandwidth_mbps"`
		FirstFit float64 `json:"first_fit_mbps"`
	} `json:"sizes"`
	Overall struct {
		Ratio   float64 `json:"ratio"`
		Better  int     `json:"better"`
		Equal   int     `json:"equal"`
		Worse   int     `json:"worse"`
		Unknown int     `json:"unknown"`
	} `json:"overall"`
}

// TestGainSimulated checks that the same seed gives the same result. Only machines whose links differ in speed may show a gain.
func TestGainSimulated(t *testing.T) {
	simulate := func(args ...string) (s simulation) {
		code, out, errs := run(t, append([]string{"topology", "gain", "--simulate", "--arrivals", "500", "-o", "json"}, args...)...)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for profile, gains := range map[string]bool{"dgx1-v100": true, "pcie-8": true, "v100-4": true, "dgx-h100": false, "t4-4": false} {
		s := simulate("--profile", profile)
		g := s.Overall
		known := g.Better + g.Equal + g.Worse
		if known == 0 || g.Unknown > 0 || (g.Ratio > 1.05) != gains || !gains && g.Equal != known {
			t.Errorf("%s: %+v", profile, g)
		}
		for _, f := range s.Sizes {
			if f.GPUs < 2 || f.Engine < f.FirstFit {
				t.Errorf("%s, jobs of %d GPUs: %.0f MB/s, a first fit has %.0f", profile, f.GPUs, f.Engine, f.FirstFit)
			}
		}
	}
	one, two, other := simulate("--machines", "3"), simulate("--machines", "3"), simulate("--machines", "3", "--seed", "2")
	if one.Overall.Ratio != two.Overall.Ratio || one.Overall.Better != two.Overall.Better {
		t.Errorf("one seed gave %+v and %+v", one.Overall, two.Overall)
	}
	if one.Overall.Better == other.Overall.Better && one.Refused == other.Refused {
		t.Errorf("two seeds gave the same workload: %+v", one)
	}
}

func TestGainUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--seed 2":                    "--seed applies to a simulation: add --simulate",
		"--simulate --limit 3":        "--limit applies to live jobs",
		"--simulate --profile x":      `"x" is not a profile of simulated devices: choose one of`,
		"--simulate --machines 0":     "--machines 0: use 1 to 64",
		"--simulate --arrivals -1":    "--arrivals -1: use 1 to 1000000",
		"--limit -1":                  "use 0 for all",
		"--simulate --seed minus-one": "--seed: want",
	} {
		code, _, errs := run(t, append([]string{"topology", "gain"}, strings.Fields(args)...)...)
		if code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
	}
}
