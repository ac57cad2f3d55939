package enginetest

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// doReservation writes an administrator's reservation.
func doReservation(w *Cluster, in *arguments) (string, error) {
	ahead, err := time.ParseDuration(in.text("in", "0s"))
	if err != nil {
		return "", err
	}
	lasts, err := time.ParseDuration(in.text("for", "1h"))
	if err != nil {
		return "", err
	}
	r := &ares.Reservation{
		Name: in.first(), Tenant: in.text("tenant", ""), Queue: in.text("queue", ""), From: w.Now.Add(ahead), Until: w.Now.Add(ahead + lasts),
		Nodes: in.list("nodes"), Selector: in.pairs("selector"), Domain: in.text("domain", ""),
		Drain: in.hasFlag("drain"), Force: in.hasFlag("force"), By: "ann", CreatedAt: w.Now, Revision: w.revision + 1,
	}
	if err := r.Check(w.Now); err != nil {
		return "", fmt.Errorf("reservation: %w", err)
	}
	w.PutEvents(ares.Event{Reservation: r})
	return "", nil
}
