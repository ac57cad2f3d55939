package sim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine"
)

// TestRecordingIsATrace: what a server recorded comes back as jobs with the times
// they came and ran for, on the fleet it had.
func TestRecordingIsATrace(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	job := func(id string, revision int64, at time.Duration, spec ares.Spec) ares.Event {
		return ares.Event{Revision: revision, Job: &ares.Job{ID: ares.JobID(id), Revision: revision, AcceptedAt: began.Add(at), Spec: spec.WithDefaults()}}
	}
	element := job("job-e", 6, 50*time.Minute, ares.Spec{GPUs: 1})
	element.Job.ArrayOf = "job-array"
	ran := func(id string, revision int64, at, runs time.Duration) ares.Event {
		run := ares.NewRun(began)
		run.Phase, run.FinishedAt = ares.Succeeded, began.Add(at+runs)
		if runs > 0 {
			run.Attempts = []ares.Attempt{{Number: 1, Outcome: ares.OutcomeSucceeded, StartedAt: began.Add(at), EndedAt: began.Add(at + runs)}}
		}
		return ares.Event{Revision: revision, Run: &ares.RunEvent{Job: ares.JobID(id), Run: run}}
	}
	var file bytes.Buffer
	w, err := recording.NewWriter(&file, recording.NewHeader("s", "v", engine.Default(), began))
	if err != nil {
		t.Fatal(err)
	}
	events := []ares.Event{
		{Revision: 1, Node: &ares.Node{ID: "n", CPUs: 8, MemoryMB: 100, Devices: []ares.Device{{ID: "d", Type: "gpu", Reason: "broken", Celsius: 99}}}},
		{Revision: 1, Tenant: &ares.Tenant{ID: "t", Weight: 3, Limits: ares.NoLimits()}},
		job("job-a", 2, 10*time.Minute, ares.Spec{GPUs: 1, Tenant: "t", Deadline: began.Add(time.Hour)}),
		job("job-b", 3, 5*time.Minute, ares.Spec{GPUs: 1, Tenant: "t", After: []string{"job-a"}}),
		job("job-c", 4, 5*time.Minute, ares.Spec{GPUs: 1}),
		job("job-array", 5, 20*time.Minute, ares.Spec{GPUs: 1, Array: ares.Array{Count: 3}}),
		element,
		job("job-cancelled", 7, time.Minute, ares.Spec{GPUs: 1}),
		ran("job-a", 8, 15*time.Minute, 7*time.Minute),
		ran("job-b", 9, 22*time.Minute, 3*time.Minute),
		ran("job-e", 10, 52*time.Minute, time.Minute),
		ran("job-cancelled", 11, 60*time.Minute, 0),
	}
	if err = w.Batch(ares.Batch{Revision: 11, Reset: true, Events: events, At: began}); err != nil {
		t.Fatal(err)
	}
	if err = w.Flush(); err != nil {
		t.Fatal(err)
	}
	trace, err := Read("ares", bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, a := range trace.Arrivals {
		said = append(said, time.Unix(0, 0).UTC().Add(a.At).Format("15:04")+" "+a.Spec.Tenant+" "+a.Runs.String())
	}
	if got := strings.Join(said, ", "); got != "00:05 t 3m0s, 00:10 t 7m0s, 00:20 default 1m0s" {
		t.Errorf("read %s", got)
	}
	if trace.Bad != 1 || !strings.Contains(trace.Problems[0].Why, "job-c had not ended") || strings.Join(trace.Ignored, " ") != "after" || len(trace.Digest) != 64 {
		t.Errorf("told %d %v %v %q", trace.Bad, trace.Problems, trace.Ignored, trace.Digest)
	}
	fleet, err := ReadRecordedFleet(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	r := simulate(t, Setup{Trace: trace, Fleet: fleet, Policy: Policy{Name: "ares", Engine: engine.Default()}}).Report
	if r.Ended != 3 || r.GPUs != 1 || r.Source.Fleet.Nodes != 1 || r.Deadline.Met != 1 || fleet.Digest != trace.Digest {
		t.Errorf("report %+v", r)
	}
	if _, err := Read("ares", strings.NewReader("JobID|")); err == nil || !strings.Contains(err.Error(), "no recording") {
		t.Errorf("a dump of sacct as a recording: %v", err)
	}
}
