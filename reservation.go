package ares

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Reservation is a window of time in which nodes are for one tenant, or for
// nobody: maintenance. Who is not entitled is not placed there while it is
// open, nor before, unless it is thought to be done by then.
type Reservation struct {
	Name   string
	Tenant string // whose jobs may use the nodes, "" for nobody's
	Queue  string // of the tenant: only its jobs, "" for all
	From   time.Time
	Until  time.Time
	// Which nodes: those listed, and those that have all labels of the selector
	// and are in the domain. A node that joins later is reserved too.
	Nodes    []string
	Selector map[string]string
	Domain   string // level/name, such as leaf/l1
	// Drain moves away what still runs there at From and is not entitled.
	// Without it such jobs run to their end. An at_most_once job that has begun
	// is left to its end, unless Force is set: then it ends as lost.
	Drain     bool
	Force     bool
	By        string
	Why       string
	CreatedAt time.Time
	Revision  int64 // of its record; a deletion compares it
}

// Limits on reservations. Each costs every decision a look at its time, and one
// that lasts longer than a quarter is a label, a taint or a quota instead.
const (
	MaxReservations      = 256
	MaxReservedNodes     = 1024 // that one may list; a selector or a domain may hold more
	MaxReservationLength = 92 * 24 * time.Hour
	MaxReservationAhead  = 366 * 24 * time.Hour
	MaxReservationWhy    = 512
	// ReservationKept is how long one that is over stays in the list.
	ReservationKept = 7 * 24 * time.Hour
	// ReservationLead is how long a job of unknown length is taken to run: so long
	// before its window it is kept off the nodes of a reservation. Whoever says
	// max_runtime_minutes, or is known by its like, is held to that instead.
	ReservationLead = 24 * time.Hour
)

// ReservationState says where a reservation is in its time.
type ReservationState string

// The states of a reservation.
const (
	ReservationUpcoming ReservationState = "upcoming"
	ReservationOpen     ReservationState = "open"
	ReservationOver     ReservationState = "over"
)

// StateAt is where the reservation is in its time. It opens at From and is over
// at Until.
func (r *Reservation) StateAt(now time.Time) ReservationState {
	switch {
	case !now.Before(r.Until):
		return ReservationOver
	case now.Before(r.From):
		return ReservationUpcoming
	}
	return ReservationOpen
}

// Entitles says whether jobs of a tenant's queue may use the nodes.
func (r *Reservation) Entitles(tenant, queue string) bool {
	return r.Tenant != "" && r.Tenant == tenant && (r.Queue == "" || r.Queue == queue)
}

// Bars says whether a job that is not entitled must not begin at a time on its
// nodes: the reservation is open, or the job is thought to last into it.
func (r *Reservation) Bars(at time.Time, lasts time.Duration) bool {
	return at.Before(r.Until) && (!at.Before(r.From) || lasts > r.From.Sub(at))
}

// Holds says whether the reservation is of a node with these labels. within says
// whether the node is in a domain.
func (r *Reservation) Holds(node string, labels map[string]string, within func(Level, string) bool) bool {
	return slices.Contains(r.Nodes, node) || r.Selects(labels, within)
}

// Selects says whether a node that is not listed is one all the same.
func (r *Reservation) Selects(labels map[string]string, within func(Level, string) bool) bool {
	if len(r.Selector) == 0 && r.Domain == "" {
		return false
	}
	for k, v := range r.Selector { // order-free: all of them
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	level, name, _ := strings.Cut(r.Domain, "/")
	return r.Domain == "" || within(Level(level), name)
}

// For says whom it is for, in words.
func (r *Reservation) For() string {
	switch {
	case r.Tenant == "":
		return "for maintenance"
	case r.Queue != "":
		return "for queue " + QueueID(r.Tenant, r.Queue)
	}
	return "for tenant " + r.Tenant
}

// Same says whether two reservations ask for the same, whoever made them and
// when.
func (r *Reservation) Same(o *Reservation) bool {
	return r.Name == o.Name && r.Tenant == o.Tenant && r.Queue == o.Queue && r.From.Equal(o.From) && r.Until.Equal(o.Until) &&
		slices.Equal(r.Nodes, o.Nodes) && maps.Equal(r.Selector, o.Selector) && r.Domain == o.Domain &&
		r.Drain == o.Drain && r.Force == o.Force && r.Why == o.Why
}

// Check reports every mistake of a reservation as received at a time.
func (r *Reservation) Check(now time.Time) error {
	var p Problems
	if !ValidName(r.Name) {
		p.Add("name", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", clip(r.Name))
	}
	name(&p, "tenant_id", r.Tenant)
	name(&p, "queue", r.Queue)
	if r.Queue != "" && r.Tenant == "" {
		p.Add("queue", "it belongs to a tenant: give tenant_id too")
	}
	r.checkTimes(&p, now)
	r.checkNodes(&p)
	if r.Force && !r.Drain {
		p.Add("force", "it says what a drain does to at_most_once jobs: give drain too")
	}
	text(&p, "why", r.Why, MaxReservationWhy)
	return p.Err()
}

func (r *Reservation) checkTimes(p *Problems, now time.Time) {
	switch {
	case r.From.IsZero():
		p.Add("from", "say when it begins, such as 2026-01-31T22:00:00Z")
	case r.Until.IsZero():
		p.Add("until", "say when it ends, such as 2026-02-01T02:00:00Z")
	case !r.From.Before(r.Until):
		p.Add("until", "must be after from (%s), got %s", stamp(r.From), stamp(r.Until))
	case !r.Until.After(now):
		p.Add("until", "is in the past (%s, now it is %s)", stamp(r.Until), stamp(now))
	case r.Until.Sub(r.From) > MaxReservationLength:
		p.Add("until", "a reservation lasts %d days at most, this one %d: use a taint or a quota for longer",
			MaxReservationLength/(24*time.Hour), r.Until.Sub(r.From)/(24*time.Hour))
	case r.From.Sub(now) > MaxReservationAhead:
		p.Add("from", "is more than %d days ahead (%s)", MaxReservationAhead/(24*time.Hour), stamp(r.From))
	}
}

func (r *Reservation) checkNodes(p *Problems) {
	if len(r.Nodes) == 0 && len(r.Selector) == 0 && r.Domain == "" {
		p.Add("nodes", "say which nodes: nodes, node_selector or domain")
	}
	if len(r.Nodes) > MaxReservedNodes {
		p.Add("nodes", "at most %d can be listed, got %d: use node_selector or domain", MaxReservedNodes, len(r.Nodes))
	}
	for i, n := range r.Nodes {
		if field := fmt.Sprintf("nodes[%d]", i); n == "" {
			p.Add(field, "is empty: name a node")
		} else {
			text(p, field, n, MaxNameBytes)
		}
	}
	pairs(p, "node_selector", r.Selector, MaxLabels)
	if r.Domain == "" {
		return
	}
	level, name, _ := strings.Cut(r.Domain, "/")
	if rank := Level(level).Rank(); name == "" || rank < 0 || rank > LevelLeaf.Rank() {
		p.Add("domain", "%q is not a domain: write its level and name, as region/eu, zone/a, spine/s1, leaf/l1 or rack/r1", clip(r.Domain))
		return
	}
	text(p, "domain", name, MaxNameBytes)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
