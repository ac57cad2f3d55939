package window

import (
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// If an open window drains its nodes, EvictFromWindows stops the jobs on these nodes, except jobs that may use
// the window and, unless the drain is forced, jobs that must finish or are protected. When the plan is full, EvictFromWindows leaves the remaining jobs to the next plan.
func (c *Calendar) EvictFromWindows(plan *ares.Plan) {
	if len(c.Windows) == 0 {
		return
	}
	stopped := map[ares.JobID]bool{}
	for i := range plan.Stop {
		stopped[plan.Stop[i].Job] = true
	}
	for _, w := range c.Windows {
		if !w.Drain || w.StateAt(plan.Now) != ares.ReservationOpen {
			continue
		}
		for _, e := range c.jobsToEvict(w) {
			switch {
			case stopped[e.ID]:
				continue
			case len(plan.Stop) >= config.MaxPlacings:
				plan.Wake = plan.Now
				return
			}
			stopped[e.ID] = true
			by := ares.Textf("%s", w.Ref()).Render(ares.OwnedBy(e.Job.Tenant)) // the text is stored with the job
			plan.Stop = append(plan.Stop, ares.Stopping{Job: e.ID, Stop: ares.Stop{Why: ares.StopDrain, By: by, At: plan.Now}})
		}
	}
}

// jobsToEvict returns the jobs that must be stopped on the nodes of a window, sorted by ID.
func (c *Calendar) jobsToEvict(w *Window) []*job.Entry {
	var out []*job.Entry
	in := c.windowNodes(w)
	for i := in.Next(0); i >= 0; i = in.Next(i + 1) {
		n := c.Cluster.Nodes[i]
		for _, occupant := range n.Occupants {
			e := c.Jobs.Owner(occupant)
			if e.Job == nil || w.Entitles(e.Job.Tenant, e.Job.Queue) || !w.Force && c.Jobs.Protection(e.ID) != nil {
				continue
			}
			if e.Run.IsStoppedByDrain(e.Job, n.ID, w.Force) {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b *job.Entry) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return slices.Compact(out)
}
