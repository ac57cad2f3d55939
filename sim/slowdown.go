package sim

import "time"

// BoundedSlowdown summarizes the bounded slowdown of the jobs that have ended: completion time divided by
// runtime, where every runtime counts as at least the given time. Without this bound, the slowdown of a
// job of one second would say little about what its user noticed. BoundedSlowdown returns nil if no job has
// ended.
func (w *World) BoundedSlowdown(least time.Duration) *Distribution {
	var all []float64
	for i := range w.jobs {
		if j := &w.jobs[i]; !j.ended.IsZero() {
			all = append(all, j.ended.Sub(j.accepted).Seconds()/max(j.runtime, least).Seconds())
		}
	}
	return distribution(all)
}
