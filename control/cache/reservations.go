package cache

import (
	"cmp"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// Reservations returns all reservations, sorted by name.
func (v *View) Reservations() []*ares.Reservation {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := slices.Collect(maps.Values(v.windows))
	slices.SortFunc(out, func(a, b *ares.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Occupancy describes the nodes of a reservation and the jobs on them.
type Occupancy struct {
	Nodes    []string     // nodes of the reservation, by ID
	Jobs     []ares.JobID // jobs with seats there that may not use the reservation, by ID
	Enduring []ares.JobID // the jobs in Jobs that are at_most_once and have started
}

// OccupancyOf returns the current occupancy of a reservation's nodes.
func (v *View) OccupancyOf(r *ares.Reservation) Occupancy {
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
			e := v.entry(job)
			if jobs[job] || r.Entitles(e.Job.Tenant, e.Job.Queue) || len(UnsettledOn(e, id)) == 0 {
				continue
			}
			jobs[job] = true
			out.Jobs = append(out.Jobs, job)
			if e.Run.MustFinish(e.Job) {
				out.Enduring = append(out.Enduring, job)
			}
		}
	}
	slices.Sort(out.Nodes)
	slices.Sort(out.Jobs)
	slices.Sort(out.Enduring)
	return out
}

// ReservedOn lists the reservations that include a node, ordered by start time.
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
