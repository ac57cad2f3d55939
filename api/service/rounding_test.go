package service

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
)

// This identity may see the jobs of one tenant.
func ofTenant(tenant string) Visibility {
	return Visibility{Who: &ares.Identity{Name: "token:" + tenant + "/ci", Tenant: tenant, Bindings: []ares.Binding{{Role: ares.Viewer, Tenant: tenant}}}}
}

// TestAChangedETATellsNothing asks for the ETA of a job again and again, for more than a day before its start. Starts in the same
// minute must give the same answers at every moment. If the grid depended on the exact distance, the moment of its change would
// tell the start.
func TestAChangedETATellsNothing(t *testing.T) {
	to := ofTenant("red")
	minute := time.Date(2030, 1, 2, 12, 32, 0, 0, time.UTC)
	eta := func(second time.Duration) ares.ETA {
		return ares.ETA{Earliest: minute.Add(second), Latest: minute.Add(second)}
	}
	changes, last := 0, ares.ETA{}
	for now := minute.Add(-26 * time.Hour); now.Before(minute); now = now.Add(7 * time.Second) {
		early, late := to.roundETA(eta(time.Second), now), to.roundETA(eta(59*time.Second), now)
		if early.Earliest != late.Earliest || early.Latest != late.Latest {
			t.Fatalf("%s before the start, the answers are %v and %v", minute.Sub(now), early, late)
		}
		if early.Earliest.After(minute.Add(time.Second)) || early.Latest.Before(minute.Add(59*time.Second)) {
			t.Fatalf("%s before the start, the answer %v does not include it", minute.Sub(now), early)
		}
		if early.Latest != last.Latest {
			changes, last = changes+1, early
		}
	}
	if changes != 4 {
		t.Errorf("the latest start changed %d times, want 4: once for each grid", changes)
	}
}

// TestPredictionsStayWithinTheLimit checks that a rounded prediction does not exceed the job's time limit.
func TestPredictionsStayWithinTheLimit(t *testing.T) {
	job := &ares.Job{Spec: ares.Spec{MaxRuntimeMinutes: 61}}
	exact := ares.RuntimePredicted{P50: 50*time.Minute + time.Second, P90: 61 * time.Minute}
	if p := ofTenant("red").roundPrediction(job, exact); p.P50 != 51*time.Minute || p.P90 != 61*time.Minute {
		t.Errorf("limit 61m: median %s, p90 %s", p.P50, p.P90)
	}
	if p := ofTenant("red").roundPrediction(&ares.Job{}, exact); p.P90 != 65*time.Minute {
		t.Errorf("without a limit: p90 %s", p.P90)
	}
}

// TestNodesHideOtherTenants checks that a tenant sees which devices of a node are taken, but neither the temperature of devices
// that other tenants use nor the numbers of other tenants' runs.
func TestNodesHideOtherTenants(t *testing.T) {
	view := cache.NewView(time.Now)
	job := func(id, tenant string) *ares.Job {
		return &ares.Job{ID: ares.NewJobID(tenant, id), Spec: ares.Spec{Tenant: tenant, Queue: ares.DefaultQueue}, Revision: 1}
	}
	mine, theirs := job("1", "red"), job("1", "blue")
	batch := ares.Batch{Revision: 1, Events: []ares.Event{
		{Node: &ares.Node{ID: "n1", Devices: []ares.Device{{ID: "g0", Healthy: true, Celsius: 71}, {ID: "g1", Healthy: true, Celsius: 72}, {ID: "g2", Healthy: true, Celsius: 40}}}},
		{Session: &ares.Session{Node: "n1"}}, {Job: mine}, {Job: theirs},
	}}
	for i, j := range []*ares.Job{mine, theirs} {
		device := []string{"g0", "g1"}[i]
		run := ares.Run{Phase: ares.Pending}
		if err := run.Place([]ares.Seat{{Node: "n1", Shares: []ares.Share{{Device: device, Milli: 1000}}}}, 0, time.Now()); err != nil {
			t.Fatal(err)
		}
		run.Revision = 1
		batch.Events = append(batch.Events, ares.Event{Run: &ares.RunEvent{Job: j.ID, Run: run}})
	}
	view.Apply(batch)
	d := &Services{Cfg: &Config{View: view, Now: time.Now}}
	entry := *view.Node("n1")
	entry.Score = &ares.NodeScore{Node: "n1", Score: 400, Samples: 17_000, Failures: 3_000, Why: "3 of 17 attempts ended by the node", At: time.Now()}
	all := Visibility{Who: &ares.Identity{Bindings: []ares.Binding{{Role: ares.PlatformAdmin}}}}
	for name, c := range map[string]struct {
		to      Visibility
		celsius [3]int32
		samples float64
	}{"a tenant": {ofTenant("red"), [3]int32{71, 0, 40}, 0}, "an administrator": {all, [3]int32{71, 72, 40}, 17}} {
		m := d.node(c.to, &entry)
		for i, dev := range m.GetDevices() {
			if dev.GetCelsius() != c.celsius[i] {
				t.Errorf("%s sees %d degrees at device %d, want %d", name, dev.GetCelsius(), i, c.celsius[i])
			}
		}
		if s := m.GetScore(); s.GetScore() != 400 || s.GetSamples() != c.samples || (s.GetWhy() == "") != (c.samples == 0) {
			t.Errorf("%s sees the score %v", name, s)
		}
		if m.GetGpusFree() != 1 {
			t.Errorf("%s sees %d free GPUs, want 1", name, m.GetGpusFree())
		}
	}
}
