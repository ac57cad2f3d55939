package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine/config"
)

// This function returns the run of a job with one attempt. The last two parameters are
// the attempt's start and end, in minutes after noon.
func ended(t *testing.T, job *ares.Job, begin, end int) ares.Run {
	t.Helper()
	run := ares.NewRun(job.AcceptedAt)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	for _, err := range []error{
		run.Place([]ares.Seat{{Node: "n1", NUMA: -1}}, 0, at(begin)),
		func() error { run.Last().Fence = 5; return nil }(),
		run.Claim(job, 5, 0, "n1", at(begin)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if end > begin {
		if err := run.Finish(job, 5, 0, ares.RankResult{Outcome: ares.OutcomeSucceeded}, at(end)); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// recordedHistory returns a recording with ended, running, waiting and cancelled jobs.
func recordedHistory(t *testing.T) []byte {
	t.Helper()
	m := newMoment(t, "n1")
	m.tenant("b", 4)
	first := m.waits("first", "b", 4, 0)
	second := m.waits("second", "b", 2, 0, func(s *ares.Spec) { s.After = []string{string(first.ID)} })
	running := m.waits("running", "a", 1, 600)
	m.waits("waiting", "a", 1, 30)
	m.waits("unknown", "a", 1, 0)
	cancelled := m.waits("cancelled", "a", 8, 0)
	array := m.waits("array", "a", 1, 0, func(s *ares.Spec) { s.Array = ares.Array{Count: 3} })
	for _, e := range m.events {
		if e.Job != nil && (e.Job.Name == "waiting" || e.Job.Name == "unknown") { // a prediction without any runs
			m.events = append(m.events, ares.Event{Forecast: &ares.RuntimePredicted{Job: e.Job.ID, P50: 12 * time.Hour, P90: 22 * time.Hour}})
		}
	}
	stoppedArray := m.waits("stopped", "a", 1, 0, func(s *ares.Spec) { s.Array = ares.Array{Count: 3} })
	made := ares.NewRun(noon)
	made.Next = 1
	element := array.Element(0)
	element.Revision = 100
	var out bytes.Buffer
	w, err := recording.NewWriter(&out, recording.NewHeader("s", "v", config.Default(), noon))
	if err != nil {
		t.Fatal(err)
	}
	stopped := ares.NewRun(noon)
	if err = stopped.RequestStop(ares.Stop{Why: ares.StopCancel, By: "me", At: noon}); err != nil {
		t.Fatal(err)
	}
	put := func(id ares.JobID, r ares.Run) ares.Event { return ares.Event{Run: &ares.RunEvent{Job: id, Run: r}} }
	for i, b := range []ares.Batch{
		{Reset: true, Events: m.events},
		{Events: []ares.Event{put(first.ID, ended(t, first, 10, 30)), put(running.ID, ended(t, running, 5, 0)), put(cancelled.ID, stopped)}},
		{Events: []ares.Event{{Job: element}, put(array.ID, made), put(stoppedArray.ID, stopped), put(element.ID, ended(t, element, 1, 4))}},
		{Events: []ares.Event{put(second.ID, ended(t, second, 40, 45))}},
		{Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindJob, ID: string(first.ID)}}}},
	} {
		b.Revision, b.At = int64(i+1), noon.Add(time.Hour)
		if err = w.Batch(b); err != nil {
			t.Fatal(err)
		}
	}
	if err = w.Close(recording.EndClosed); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestRecordingAsTrace reads a recording as a trace. The trace must have the
// arrival times, the runtimes and the machines of the recording.
func TestRecordingAsTrace(t *testing.T) {
	t.Parallel()
	data := recordedHistory(t)
	if DetectFormat(string(data[:100])) != "ares" {
		t.Error("a recording is not seen as one")
	}
	trace, err := Read("ares", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range trace.Arrivals {
		got = append(got, fmt.Sprintf("%s %s %s", a.Spec.Name, time.Unix(0, 0).Add(a.At).Sub(noon), a.Runs))
	}
	want := "first -1h0m0s 20m0s|running -1h0m0s 10h0m0s|waiting -1h0m0s 30m0s|unknown -1h0m0s 1h0m0s|array[1] -1h0m0s 1h0m0s|array[2] -1h0m0s 1h0m0s|array[0] -1h0m0s 3m0s|second 30m0s 5m0s"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("read\n%s\nwant\n%s", s, want)
	}
	if trace.Unended != 5 || trace.Assumed != 3 || trace.Bad != 0 || len(trace.Digest) != 64 {
		t.Errorf("%d not ended, %d assumed, %d bad", trace.Unended, trace.Assumed, trace.Bad)
	}
	o, err := Simulate(Setup{Trace: trace, Fleet: trace.Fleet, Policy: Policy{Name: "ares", Engine: config.Default()}})
	if err != nil {
		t.Fatal(err)
	}
	if r := o.Report; r.Ended != 8 || r.GPUs != 8 || r.Source.Fleet.Nodes != 1 {
		t.Errorf("ended %d on %d GPUs of %d nodes", r.Ended, r.GPUs, r.Source.Fleet.Nodes)
	}
}

// TestArchiveAsTrace reads the archive of a server as a trace.
func TestArchiveAsTrace(t *testing.T) {
	t.Parallel()
	m := newMoment(t)
	job := m.waits("old", "a", 2, 0)
	line, err := json.Marshal(map[string]any{"job": job, "run": ended(t, job, 0, 7)})
	if err != nil {
		t.Fatal(err)
	}
	text := string(line) + "\n" + string(line) + "\n{\"torn\n"
	if DetectFormat(text) != "ares" {
		t.Error("an archive is not seen as one")
	}
	trace, err := Read("ares", strings.NewReader(text))
	if err != nil || len(trace.Arrivals) != 1 || trace.Arrivals[0].Runs != 7*time.Minute || trace.Arrivals[0].Spec.GPUs != 2 || trace.Bad != 1 || trace.Problems[0].Line != 3 || trace.Fleet != nil {
		t.Errorf("read %+v, %v", trace, err)
	}
}
