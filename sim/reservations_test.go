package sim

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// This function simulates two jobs on two machines with the given reservations. Each machine has
// four GPUs, and each job needs four GPUs for two hours.
func windowed(t *testing.T, reservations string) *World {
	t.Helper()
	f, err := ReadFleet(strings.NewReader("machines: [{name: m, count: 2, gpus: 4, cpus: 8, memory_mb: 1000, labels: {pool: old}}]\nreservations:\n" + reservations))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := Read("philly", strings.NewReader("timestamp,duration,num_gpus,cluster\n2020-01-01 00:00:00,7200,4,a\n2020-01-01 00:00:00,7200,4,b\n"))
	if err != nil || jobs.Bad > 0 {
		t.Fatal(err, jobs.Problems)
	}
	p, err := PolicyNamed("ares")
	if err != nil {
		t.Fatal(err)
	}
	p.Estimate = EstimateOracle
	w := NewWorld(f, p)
	w.CheckLaws(1)
	if err := w.Run(jobs, 0, nil); err != nil {
		t.Fatal(err)
	}
	if v := w.LawReport(); v.Violations > 0 {
		t.Errorf("broken laws: %v", v.First)
	}
	return w
}

func TestAFleetHasReservations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reservations string
		ends               time.Duration // end of the later job
		stops              int
	}{
		{"none", " []", 2 * time.Hour, 0},
		{"in the way", " - {name: disks, from: 1h, for: 1h, nodes: [m-00000]}", 4 * time.Hour, 0},
		{"at once", " - {name: disks, for: 1h, node_selector: {pool: old}}", 3 * time.Hour, 0},
		{"late enough", " - {name: disks, from: 2h, for: 1h, nodes: [m-00000], drain: true}", 2 * time.Hour, 0},
		{"for one of them", " - {name: night, tenant: b, for: 1d, nodes: [m-00001]}\n - {name: day, tenant: a, for: 1d, nodes: [m-00000]}", 2 * time.Hour, 0},
	} {
		w := windowed(t, c.reservations)
		var last time.Time
		stops := 0
		for i := range w.jobs {
			if w.jobs[i].ended.After(last) {
				last = w.jobs[i].ended
			}
			stops += w.jobs[i].preemptions
		}
		if last.Sub(Epoch) != c.ends || stops != c.stops {
			t.Errorf("%s: the last ends after %s with %d stops, want %s and %d", c.name, last.Sub(Epoch), stops, c.ends, c.stops)
		}
	}
}

func TestReservationsOfAFleetAreChecked(t *testing.T) {
	t.Parallel()
	_, err := ReadFleet(strings.NewReader(`machines: [{name: m, count: 1, gpus: 4, cpus: 8, memory_mb: 1000}]
reservations:
 - {name: a, for: 1h}
 - {name: b, nodes: [m], for: soon}
 - {name: c, nodes: [m], for: 1h, domain: l1}
 - {name: d, nodes: [m-7], for: 1h}
 - {name: d, nodes: [m], for: 1h}
`))
	if ares.CodeOf(err) != ares.Invalid {
		t.Fatalf("read with %v", err)
	}
	for _, word := range []string{"is missing: give nodes", `for: "soon" is not a duration`, "leaf/l1", `no machine "m-7"`, `"d" is given twice`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

// TestDrainedJobStartsOver checks that a job without checkpoints loses its progress. The simulator must count the
// cost.
func TestDrainedJobStartsOver(t *testing.T) {
	t.Parallel()
	f, err := ReadFleet(strings.NewReader("machines: [{name: m, count: 2, gpus: 4, cpus: 8, memory_mb: 1000}]\nreservations:\n" +
		" - {name: disks, from: 25h, for: 1h, nodes: [m-00000], drain: true}\n - {name: fans, from: 0h, for: 1h, nodes: [m-00001]}"))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := Read("philly", strings.NewReader("timestamp,duration,num_gpus,cluster\n2020-01-01 00:00:00,108000,4,a\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := PolicyNamed("ares")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(f, p)
	if err := w.Run(jobs, 0, nil); err != nil {
		t.Fatal(err)
	}
	if j := w.jobs[0]; j.ended.Sub(Epoch) != 55*time.Hour || j.preemptions != 1 || j.lostMilli != 4000*25*3600 {
		t.Errorf("it ends after %s, was stopped %d times and lost %d", j.ended.Sub(Epoch), j.preemptions, j.lostMilli)
	}
}

// TestWhatIfReserves checks that a reservation of the only machine makes waiting jobs wait longer.
func TestWhatIfReserves(t *testing.T) {
	t.Parallel()
	m := newMoment(t, "n")
	m.runs("first", "a", "n", 8, 60, 30*time.Minute)
	m.waits("second", "a", 8, 60)
	r := &ares.Reservation{Name: "disks", From: noon.Add(time.Hour), Until: noon.Add(3 * time.Hour), Nodes: []string{"n"}}
	w, err := RunWhatIf(t.Context(), m.snapshot(), &Edit{Reserve: []*ares.Reservation{r}}, 24*time.Hour, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Jobs) != 1 || w.Jobs[0].Sooner != -(150*time.Minute).Seconds() || !strings.Contains(w.Changes[0], "reservation disks for maintenance") {
		t.Errorf("got %+v, %v", w.Jobs, w.Changes)
	}
}
