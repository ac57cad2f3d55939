package apipb_test

import (
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
)

// TestCPUFractionsInJSON checks that a job's CPU cores may have a fraction in JSON.
func TestCPUFractionsInJSON(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][2]int32{
		`{"cpu_cores": 0.5}`:                  {0, 500},
		`{"cpu_cores":11.5,"name":"a"}`:       {11, 500},
		`{"cpu_cores" : 11.125}`:              {11, 125},
		`{"cpu_cores": 5e-1}`:                 {0, 500},
		`{"cpu_cores": 12}`:                   {12, 0},
		`{"cpu_cores": 3, "cpu_milli": 250}`:  {3, 250},
		`{"command": ["\"cpu_cores\": 0.5"]}`: {0, 0},
	} {
		var spec apipb.JobSpec
		if err := apipb.UnmarshalJSON([]byte(body), &spec); err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := [2]int32{spec.GetCpuCores(), spec.GetCpuMilli()}; got != want {
			t.Errorf("%s: %d cores and %d thousandths, want %v", body, got[0], got[1], want)
		}
		s := spec.Spec()
		if again := apipb.NewJobSpec(&s); again.GetCpuCores() != want[0] || again.GetCpuMilli() != want[1] {
			t.Errorf("%s: after a round trip %d and %d", body, again.GetCpuCores(), again.GetCpuMilli())
		}
	}
	var many apipb.SubmitJobsRequest
	if err := apipb.UnmarshalJSON([]byte(`{"jobs": [{"cpu_cores": 0.5}, {"cpu_cores": 1.5}]}`), &many); err != nil || many.GetJobs()[1].GetCpuMilli() != 500 {
		t.Errorf("a list of jobs: %v, %v", &many, err)
	}
	for body, want := range map[string]string{
		`{"cpu_cores": 0.0005}`:                "at most three decimals",
		`{"cpu_cores": -0.5}`:                  "cpu_cores",
		`{"cpu_cores": 0.5, "cpu_milli": 250}`: "cpu_milli",
	} {
		var spec apipb.JobSpec
		if err := apipb.UnmarshalJSON([]byte(body), &spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", body, err, want)
		}
	}
}
