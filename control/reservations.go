package control

import (
	"cmp"
	"context"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// Reservations lists the reservations by name.
func (v *View) Reservations() []*ares.Reservation {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := slices.Collect(maps.Values(v.windows))
	slices.SortFunc(out, func(a, b *ares.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Occupancy is what a reservation finds.
type Occupancy struct {
	Nodes    []string     // it is of, by ID
	Jobs     []ares.JobID // that are not entitled and hold seats there, by ID
	Enduring []ares.JobID // of these, at_most_once jobs that have begun
}

// Under tells what a reservation finds on its nodes.
func (v *View) Under(r *ares.Reservation) Occupancy {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out Occupancy
	atlas := topology.NewLocator(v.topology)
	jobs := map[ares.JobID]bool{}
	for id, n := range v.nodes { // order-free: sorted below
		if !r.Holds(id, n.Node.Labels, atlas.Locate(id, n.Node.Labels).In) {
			continue
		}
		out.Nodes = append(out.Nodes, id)
		for job := range v.seats[id] { // order-free: sorted below
			e := v.jobs[job]
			if jobs[job] || r.Entitles(e.Job.Tenant, e.Job.Queue) || len(unsettledOn(e, id)) == 0 {
				continue
			}
			jobs[job] = true
			out.Jobs = append(out.Jobs, job)
			if e.Run.Endures(e.Job) {
				out.Enduring = append(out.Enduring, job)
			}
		}
	}
	slices.Sort(out.Nodes)
	slices.Sort(out.Jobs)
	slices.Sort(out.Enduring)
	return out
}

// ReservedOn lists the reservations of a node, by their beginning.
func (v *View) ReservedOn(node string) []*ares.Reservation {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n := v.nodes[node]
	if n == nil || len(v.windows) == 0 {
		return nil
	}
	place := topology.NewLocator(v.topology).Locate(node, n.Node.Labels)
	var out []*ares.Reservation
	for _, r := range v.windows { // order-free: sorted below
		if r.Holds(node, n.Node.Labels, place.In) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *ares.Reservation) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name)) })
	return out
}

// sweep removes the reservations that have been over for long.
func (r *Reaper) sweep(ctx context.Context) {
	for _, w := range r.View.Reservations() {
		if r.Now().Before(w.Until.Add(ares.ReservationKept)) {
			continue
		}
		if _, err := r.Store.DeleteReservation(ctx, w.Name, w.Revision); err != nil && ares.CodeOf(err) != ares.NotFound && ctx.Err() == nil {
			r.Log.Warn("remove a reservation that is over", "reservation", w.Name, "error", err)
		}
	}
}
