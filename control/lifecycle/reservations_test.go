package lifecycle

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestOldReservationsGo checks that a reservation is listed until a week after its end, and is then removed.
func TestOldReservationsGo(t *testing.T) {
	r := newReaping(t)
	now := time.Now()
	var last int64
	for name, over := range map[string]time.Duration{"old": ares.ReservationKept, "recent": ares.ReservationKept - time.Hour, "coming": -time.Hour} {
		made, err := r.s.CreateReservation(t.Context(), ares.Reservation{
			Name: name, From: now.Add(-over - time.Hour), Until: now.Add(-over), Nodes: []string{"n"}, By: "ann", CreatedAt: now,
		})
		if err != nil {
			t.Fatal(err)
		}
		last = max(last, made.Revision)
	}
	if err := r.view.WaitFor(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	r.reaper.sweep(t.Context())
	if err := r.view.WaitFor(t.Context(), last+1); err != nil {
		t.Fatal(err)
	}
	if got := r.view.Reservations(); len(got) != 2 || got[0].Name != "coming" || got[1].Name != "recent" {
		t.Errorf("%d are left, first %v", len(got), got)
	}
}

func TestOccupancyOfAReservation(t *testing.T) {
	r := newReaping(t)
	n, j := r.busy(t, time.Minute)
	r.busy(t, time.Minute) // on another node
	window := &ares.Reservation{Name: "w", Tenant: "others", Nodes: []string{n.ID, "nobody-knows"}}
	made, err := r.s.CreateReservation(t.Context(), ares.Reservation{Name: "w", From: time.Now(), Until: time.Now().Add(time.Hour), Nodes: window.Nodes})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.view.WaitFor(t.Context(), made.Revision); err != nil {
		t.Fatal(err)
	}
	got := r.view.OccupancyOf(window)
	if len(got.Nodes) != 1 || got.Nodes[0] != n.ID || len(got.Jobs) != 1 || got.Jobs[0] != j.ID || len(got.Enduring) != 0 {
		t.Errorf("found %+v, want job %s on node %s", got, j.ID, n.ID)
	}
	window.Tenant = j.Tenant
	if got = r.view.OccupancyOf(window); len(got.Jobs) != 0 {
		t.Errorf("of its own tenant it counts %v", got.Jobs)
	}
	if on := r.view.ReservedOn(n.ID); len(on) != 1 || on[0].Name != "w" {
		t.Errorf("the node has the reservations %v", on)
	}
}
