package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Reservation is an administrator's reservation in a fleet file. A Reservation reserves nodes for a tenant, or for
// maintenance, for some time. The times of a reservation count from the arrival of the first job.
type Reservation struct {
	Name     string            `yaml:"name"`
	Tenant   string            `yaml:"tenant"` // "" for maintenance
	Queue    string            `yaml:"queue"`
	From     string            `yaml:"from"` // such as 36h or 2d; default 0
	For      string            `yaml:"for"`
	Nodes    []string          `yaml:"nodes"`
	Selector map[string]string `yaml:"node_selector"`
	Domain   string            `yaml:"domain"`
	Drain    bool              `yaml:"drain"`
}

// This method returns the reservation as a server stores it.
func (r *Reservation) record() (*ares.Reservation, error) {
	var from time.Duration
	if r.From != "" {
		var err error
		if from, err = parseDuration("from", r.From); err != nil {
			return nil, err
		}
	}
	lasts, err := parseDuration("for", r.For)
	if err != nil {
		return nil, err
	}
	out := &ares.Reservation{
		Name: r.Name, Tenant: r.Tenant, Queue: r.Queue, From: Epoch.Add(from), Until: Epoch.Add(from + lasts),
		Nodes: r.Nodes, Selector: r.Selector, Domain: r.Domain, Drain: r.Drain, By: "fleet", CreatedAt: Epoch,
	}
	return out, out.Check(Epoch)
}

// parseDuration reads a duration, which may be in days.
func parseDuration(field, text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n <= 366 {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, ares.Errorf(ares.Invalid, "%s: %q is not a duration: write 90m, 36h or 2d", field, text)
}

// checkReservations reports every mistake in the fleet's reservations.
func (f *Fleet) checkReservations(p *ares.Problems) {
	if len(f.Reserved) > ares.MaxReservations {
		p.Add("reservations", "at most %d of them", ares.MaxReservations)
	}
	seen := map[string]bool{}
	for i := range f.Reserved {
		r := &f.Reserved[i]
		field := fmt.Sprintf("reservations[%d]", i)
		if _, err := r.record(); err != nil {
			p.Add(field, "%s", err)
		}
		for _, n := range r.Nodes {
			if !f.hasNode(n) {
				p.Add(field+".nodes", "no machine %q: machines with a count are named %s and so on", n, numbered("NAME", 0))
			}
		}
		if seen[r.Name] {
			p.Add(field+".name", "%q is given twice", r.Name)
		}
		seen[r.Name] = true
	}
}

// hasNode reports whether the fleet has a machine of this name.
func (f *Fleet) hasNode(node string) bool {
	return slices.ContainsFunc(f.Machines, func(m Machine) bool {
		if m.Count == 1 {
			return m.Name == node
		}
		number, ok := strings.CutPrefix(node, m.Name+"-")
		k, err := strconv.Atoi(number)
		return ok && err == nil && k >= 0 && k < m.Count && numbered(m.Name, k) == node
	})
}

// Reservations returns the records of the fleet's reservations.
func (f *Fleet) Reservations() []*ares.Reservation {
	var out []*ares.Reservation
	for i := range f.Reserved {
		if r, err := f.Reserved[i].record(); err == nil { // ReadFleet has reported errors already
			out = append(out, r)
		}
	}
	return out
}

// This method adds the reservations that an edit requests.
func (d *editResolver) reservations(e *Edit) error {
	for _, r := range e.Reserve {
		for there := range d.state.Reservations() {
			if there.Name == r.Name {
				return ares.Errorf(ares.Conflict, "reservation %s already exists", r.Name)
			}
		}
		d.events = append(d.events, ares.Event{Reservation: r})
		d.descriptions = append(d.descriptions, fmt.Sprintf("reservation %s %s from %s until %s", r.Name, r.For(),
			r.From.UTC().Format(time.RFC3339), r.Until.UTC().Format(time.RFC3339)))
	}
	return nil
}
