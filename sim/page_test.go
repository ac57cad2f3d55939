package sim_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/sim/simtest"
)

// This function returns the setup with which the sample in the documentation is simulated.
func simulation(t *testing.T) sim.Setup {
	t.Helper()
	jobs, err := os.Open("../docs/samples/sim/jobs.sacct")
	if err != nil {
		t.Fatal(err)
	}
	defer jobs.Close()
	trace, err := sim.Read("slurm", jobs)
	if err != nil || trace.Bad > 0 || len(trace.Ignored) > 0 {
		t.Fatalf("%v, %+v", err, trace)
	}
	fleet, err := sim.ReadFleet(strings.NewReader("machines: [{name: m, count: 70, gpus: 8, cpus: 200, memory_mb: 2000000}]"))
	if err != nil {
		t.Fatal(err)
	}
	return sim.Setup{Trace: trace, TraceName: "jobs.sacct", Fleet: fleet, FleetName: "fleet.yaml", Policy: sim.Policy{Name: "ares", Engine: config.Default()}}
}

func run(t *testing.T, s sim.Setup) sim.Report {
	t.Helper()
	o, err := sim.Simulate(s)
	if err != nil {
		t.Fatal(err)
	}
	return o.Report
}

// TestPageMatchesJSON checks that every figure on the page is the value at its path in the JSON.
// Every curve must go through the values in the JSON.
func TestPageMatchesJSON(t *testing.T) {
	t.Parallel()
	s := simulation(t)
	all := sim.Reports{Format: sim.ReportFormat, Version: "<b>&", Runs: []sim.Report{run(t, s)}}
	s.Seed, s.Resample, s.TraceName = 3, sim.ResampleOrder, "</script><script>alert(1)</script>.csv"
	all.Runs = append(all.Runs, run(t, s))
	var text, page bytes.Buffer
	if err := all.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if err := all.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := simtest.CheckPage(page.Bytes(), text.Bytes()); err != nil {
		t.Error(err)
	}
	for _, foreign := range []string{"http://", "https://", "<script>alert", "@import", "url("} {
		if strings.Contains(page.String(), foreign) {
			t.Errorf("the page has %s", foreign)
		}
	}
	// The check must detect that the page was changed.
	var value any
	if err := json.Unmarshal(text.Bytes(), &value); err != nil {
		t.Fatal(err)
	}
	value.(map[string]any)["runs"].([]any)[1].(map[string]any)["series"].(map[string]any)["waiting_jobs"].([]any)[2] = 99
	other, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if simtest.CheckPage(page.Bytes(), other) == nil {
		t.Error("a page with other values than the JSON passes")
	}
}
