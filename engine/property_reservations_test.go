package engine_test

import (
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// The action Window writes or deletes a random reservation.
func (m *machine) Window(t *rapid.T) {
	if once(t, 4, "gone") {
		m.w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindReservation, ID: pick(t, "name", "w1", "w2", "w3")}})
		return
	}
	m.reserve(t)
}

func (m *machine) reserve(t *rapid.T) {
	r := &ares.Reservation{
		Name: pick(t, "name", "w1", "w2", "w3"), Tenant: pick(t, "tenant", "", "ml", "web", ares.DefaultTenant),
		From: m.w.Now.Add(pick(t, "in", -time.Minute, 0, time.Second, 30*time.Second, 20*time.Minute, 23*time.Hour, 25*time.Hour)),
		By:   "ann", Drain: rapid.Bool().Draw(t, "drain"), CreatedAt: m.w.Now,
	}
	r.Until = r.From.Add(pick(t, "for", 2*time.Minute, time.Hour, 30*time.Hour))
	if r.Tenant != "" {
		r.Queue = pick(t, "queue", "", "", "default", "q1")
	}
	switch rapid.IntRange(0, 3).Draw(t, "which") {
	case 0:
		r.Nodes = []string{m.node(t), m.node(t), "nobody-knows"}
	case 1:
		r.Selector = map[string]string{"zone": pick(t, "zone", "z0", "z1")}
	case 2:
		r.Domain = pick(t, "domain", "leaf/l1", "rack/l0", "zone/z1", "region/eu", "spine/s0")
	case 3:
		r.Nodes, r.Domain, r.Selector = []string{m.node(t)}, "region/eu", map[string]string{"zone": "z1"}
	}
	r.Force = r.Drain && once(t, 3, "force")
	if err := r.Check(m.w.Now); err != nil {
		t.Fatal(err)
	}
	m.w.PutEvents(ares.Event{Reservation: r})
}
