package ares

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Reservation is a window of time in which nodes are reserved for one tenant, or for maintenance. During the window,
// only entitled jobs are placed on the reserved nodes. A job that is not entitled may be placed on a reserved node
// before the window opens. It must be expected to end before that time.
type Reservation struct {
	Name   string
	Tenant string // the tenant whose jobs may use the nodes, "" for maintenance
	Queue  string // only jobs of this queue of the tenant, "" for all
	From   time.Time
	Until  time.Time
	// Nodes lists the names of reserved nodes. Selector and Domain add every node that has all the labels and is in the
	// domain, including nodes that join later.
	Nodes    []string
	Selector map[string]string
	Domain   string // level/name, such as leaf/l1
	// If Drain is set, running jobs that are not entitled are stopped when the window opens. Without Drain, jobs that are not entitled
	// run to their end. Even with Drain, an at_most_once job that has started runs to its end, unless Force is set.
	// With Drain and Force, a started at_most_once job is stopped and ends as lost.
	Drain     bool
	Force     bool
	By        string
	Why       string
	CreatedAt time.Time
	Revision  int64 // revision of its record; a deletion compares it
}

// Reservations are limited in number and size, because every decision checks all of them. To dedicate nodes for
// longer than a quarter of a year, use a label, a taint or a quota.
const (
	MaxReservations      = 256
	MaxReservedNodes     = 1024 // nodes listed in one reservation; a selector or a domain may match more
	MaxReservationLength = 92 * 24 * time.Hour
	MaxReservationAhead  = 366 * 24 * time.Hour
	MaxReservationWhy    = 512
	// ReservationKept is how long a reservation stays listed after it has ended.
	ReservationKept = 7 * 24 * time.Hour
	// ReservationLead is the runtime that is assumed for a job whose runtime is neither limited nor predicted. In the
	// period of this length before the window opens, such a job is not placed on reserved nodes. If a job has
	// max_runtime_minutes or a predicted runtime, that value is used instead of ReservationLead.
	ReservationLead = 24 * time.Hour
)

// ReservationState says whether a reservation's window is in the future, open or over.
type ReservationState string

// These are the states of a reservation.
const (
	ReservationUpcoming ReservationState = "upcoming"
	ReservationOpen     ReservationState = "open"
	ReservationOver     ReservationState = "over"
)

// StateAt returns the state of the reservation at time now. The window opens at From and is over at
// Until.
func (r *Reservation) StateAt(now time.Time) ReservationState {
	switch {
	case !now.Before(r.Until):
		return ReservationOver
	case now.Before(r.From):
		return ReservationUpcoming
	}
	return ReservationOpen
}

// Entitles reports whether jobs of a tenant's queue may use the reserved nodes.
func (r *Reservation) Entitles(tenant, queue string) bool {
	return r.Tenant != "" && r.Tenant == tenant && (r.Queue == "" || r.Queue == queue)
}

// Bars reports whether the reservation prevents a job that is not entitled from starting at the
// given time. Such a job cannot start while the window is open. It cannot start before the window
// either, if it is expected to run into the window.
func (r *Reservation) Bars(at time.Time, lasts time.Duration) bool {
	return at.Before(r.Until) && (!at.Before(r.From) || lasts > r.From.Sub(at))
}

// Holds reports whether the reservation includes the given node, which has the given labels. The
// argument "within" is a function that reports whether the node is in a given domain.
func (r *Reservation) Holds(node string, labels map[string]string, within func(Level, string) bool) bool {
	return slices.Contains(r.Nodes, node) || r.Selects(labels, within)
}

// Selects reports whether a node with the given labels matches the reservation's selector and
// domain. It does not read the list Nodes.
func (r *Reservation) Selects(labels map[string]string, within func(Level, string) bool) bool {
	if len(r.Selector) == 0 && r.Domain == "" {
		return false
	}
	for k, v := range r.Selector { // order-free: all must match
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	level, name, _ := strings.Cut(r.Domain, "/")
	return r.Domain == "" || within(Level(level), name)
}

// For is the method that returns a text with the tenant or queue for which the nodes are reserved.
func (r *Reservation) For() Text {
	if r.Tenant == "" {
		return PlainText("for maintenance")
	}
	return Textf("for %s", ScopeRef(r.Tenant, r.Queue))
}

// Same reports whether two reservations are equal except for their authors and times.
func (r *Reservation) Same(o *Reservation) bool {
	return r.Name == o.Name && r.Tenant == o.Tenant && r.Queue == o.Queue && r.From.Equal(o.From) && r.Until.Equal(o.Until) &&
		slices.Equal(r.Nodes, o.Nodes) && maps.Equal(r.Selector, o.Selector) && r.Domain == o.Domain &&
		r.Drain == o.Drain && r.Force == o.Force && r.Why == o.Why
}

// Check reports every mistake in a reservation that is submitted at time now.
func (r *Reservation) Check(now time.Time) error {
	var p Problems
	if !ValidName(r.Name) {
		p.Add("name", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", Clip(r.Name))
	}
	name(&p, "tenant_id", r.Tenant)
	name(&p, "queue", r.Queue)
	if r.Queue != "" && r.Tenant == "" {
		p.Add("queue", "a queue belongs to a tenant: give tenant_id too")
	}
	r.checkTimes(&p, now)
	r.checkNodes(&p)
	if r.Force && !r.Drain {
		p.Add("force", "force only changes what a drain does to at_most_once jobs: give drain too")
	}
	text(&p, "why", r.Why, MaxReservationWhy)
	return p.Err()
}

func (r *Reservation) checkTimes(p *Problems, now time.Time) {
	switch {
	case r.From.IsZero():
		p.Add("from", "is missing: give the time at which it begins, such as 2026-01-31T22:00:00Z")
	case r.Until.IsZero():
		p.Add("until", "is missing: give the time at which it ends, such as 2026-02-01T02:00:00Z")
	case !r.From.Before(r.Until):
		p.Add("until", "must be after from (%s), got %s", stamp(r.From), stamp(r.Until))
	case !r.Until.After(now):
		p.Add("until", "is in the past (%s, now it is %s)", stamp(r.Until), stamp(now))
	case r.Until.Sub(r.From) > MaxReservationLength:
		p.Add("until", "a reservation lasts at most %d days, got %d: use a taint or a quota instead",
			MaxReservationLength/(24*time.Hour), r.Until.Sub(r.From)/(24*time.Hour))
	case r.From.Sub(now) > MaxReservationAhead:
		p.Add("from", "is more than %d days ahead (%s)", MaxReservationAhead/(24*time.Hour), stamp(r.From))
	}
}

func (r *Reservation) checkNodes(p *Problems) {
	if len(r.Nodes) == 0 && len(r.Selector) == 0 && r.Domain == "" {
		p.Add("nodes", "is missing: give nodes, node_selector or domain")
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
		p.Add("domain", "%q is not a domain: write its level and name, as region/eu, zone/a, spine/s1, leaf/l1 or rack/r1", Clip(r.Domain))
		return
	}
	text(p, "domain", name, MaxNameBytes)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
