package laws_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/laws"
)

// TestReservationViolationsAreFound places a job on node b, which has a reservation, and
// drains a job that runs on node a.
func TestReservationViolationsAreFound(t *testing.T) {
	t.Parallel()
	open := ares.Reservation{Name: "w", From: epoch.Add(-time.Hour), Until: epoch.Add(time.Hour), Nodes: []string{"b"}}
	edit := func(change func(*ares.Reservation)) ares.Reservation {
		r := open
		change(&r)
		return r
	}
	soon := edit(func(r *ares.Reservation) { r.From = epoch.Add(30 * time.Minute) })
	for _, c := range []struct {
		name    string
		r       ares.Reservation
		minutes int
		law     string
	}{
		{"open", open, 1, "windows"},
		{"over", edit(func(r *ares.Reservation) { r.Until = epoch }), 0, ""},
		{"of another node", edit(func(r *ares.Reservation) { r.Nodes = []string{"a"} }), 0, ""},
		{"by its label", edit(func(r *ares.Reservation) { r.Nodes, r.Selector = nil, map[string]string{"id": "b"} }), 0, "windows"},
		{"its tenant's", edit(func(r *ares.Reservation) { r.Tenant = ares.DefaultTenant }), 0, ""},
		{"another tenant's", edit(func(r *ares.Reservation) { r.Tenant = "small" }), 0, "windows"},
		{"another queue's", edit(func(r *ares.Reservation) { r.Tenant, r.Queue = ares.DefaultTenant, "q" }), 0, "windows"},
		{"done by then", soon, 30, ""},
		{"not done by then", soon, 31, "windows"},
		{"of unknown length", edit(func(r *ares.Reservation) { r.From = epoch.Add(23 * time.Hour); r.Until = epoch.Add(25 * time.Hour) }), 0, "windows"},
		{"a day ahead", edit(func(r *ares.Reservation) { r.From = epoch.Add(24 * time.Hour); r.Until = epoch.Add(25 * time.Hour) }), 0, ""},
	} {
		s := testCluster()
		job := &ares.Job{Spec: ares.Spec{GPUs: 1, MaxRuntimeMinutes: c.minutes}.WithDefaults(), ID: "j", AcceptedAt: epoch, Revision: 2}
		s.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Job: job}, {Reservation: &c.r}}})
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expectViolation(t, laws.Check(s, &ares.Plan{Revision: 2, Now: epoch, Place: []ares.Placing{{Job: "j", Seats: []ares.Seat{seat("b", 0, 0)}}}}), c.law)
		})
	}
	for _, c := range []struct {
		name string
		r    ares.Reservation
		law  string
	}{
		{"drained", edit(func(r *ares.Reservation) { r.Nodes, r.Drain = []string{"a"}, true }), ""},
		{"drained too early", edit(func(r *ares.Reservation) { r.Nodes, r.Drain, r.From = []string{"a"}, true, epoch.Add(time.Minute) }), "windows"},
		{"drained from elsewhere", edit(func(r *ares.Reservation) { r.Drain = true }), "windows"},
		{"drained without being asked", edit(func(r *ares.Reservation) { r.Nodes = []string{"a"} }), "windows"},
		{"drained though entitled", edit(func(r *ares.Reservation) { r.Nodes, r.Drain, r.Tenant = []string{"a"}, true, ares.DefaultTenant }), "windows"},
	} {
		s := testCluster()
		s.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Reservation: &c.r}}})
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expectViolation(t, laws.Check(s, &ares.Plan{Revision: 2, Now: epoch, Stop: []ares.Stopping{{Job: "db", Stop: ares.Stop{Why: ares.StopDrain, By: "reservation w", At: epoch}}}}), c.law)
		})
	}
}
