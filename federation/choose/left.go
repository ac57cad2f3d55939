package choose

import (
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// refreshNeeds takes over from the run which clusters must not get the job at a time. It reports whether that changed.
func (c *Chooser) refreshNeeds(id ares.JobID, e *entry, at time.Time) bool {
	if e.run == nil {
		return false
	}
	left := e.run.LeftAt(at)
	same := slices.Equal(e.needs.Excluded, e.run.ExcludedClusters) && slices.Equal(e.needs.Left, left)
	e.needs.Excluded, e.needs.Left = e.run.ExcludedClusters, left
	if len(left) > 0 {
		c.left[id] = true
	} else {
		delete(c.left, id)
	}
	return !same
}

// forgetLeft lets clusters get jobs again that they gave back, when the time for that has come.
func (c *Chooser) forgetLeft(now time.Time) {
	var events []ares.Event
	for _, id := range slices.Sorted(maps.Keys(c.left)) {
		if e := c.jobs[id]; c.refreshNeeds(id, e, now) && e.job != nil {
			events = append(events, ares.Event{Job: e.engineJob()})
		}
	}
	c.apply(events, now)
}

// notIn returns the clusters that must not get the job, whatever they have.
func (n *Needs) notIn() []string {
	out := slices.Clone(n.Excluded)
	for _, l := range n.Left {
		out = append(out, l.Cluster)
	}
	return out
}
