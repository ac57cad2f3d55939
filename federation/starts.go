package federation

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// mayStart reports whether a waiting job's start conditions are met: its start time, its retry delay, and the jobs that
// it depends on. They are checked at the hub, because a member does not know the other jobs.
func (t *term) mayStart(e *entry, now time.Time) bool {
	if e.Run.NotBefore.After(now) {
		return false
	}
	if e.Run.Placed > 0 {
		return true // the conditions are for the first start, which was in another cluster
	}
	for _, id := range e.Job.After {
		if !t.isMet(ares.Dependency{Type: ares.AfterOK, Job: ares.JobID(id)}) {
			return false
		}
	}
	c := e.Job.Start
	if c == nil {
		return true
	}
	if c.Begin.After(now) {
		return false
	}
	for _, d := range c.Dependencies {
		if d.Type == ares.Singleton {
			if t.hasEarlierTwin(e.Job) {
				return false
			}
		} else if !t.isMet(d) {
			return false
		}
	}
	return true
}

// isMet reports whether a dependency on another job is met now. A job stays live while others depend on it.
func (t *term) isMet(d ares.Dependency) bool {
	e := t.view.Job(d.Job)
	if e == nil {
		return false
	}
	switch d.Type {
	case ares.AfterOK, ares.AfterCorr: // an array goes whole, so its elements wait for the whole other array
		return e.Run.Phase == ares.Succeeded
	case ares.AfterAny:
		return e.Run.Phase.Final()
	case ares.AfterNotOK:
		return e.Run.Phase.Final() && e.Run.Phase != ares.Succeeded
	case ares.AfterStart:
		return e.Run.Placed > 0 || e.Run.Phase.Final()
	}
	return false
}

// hasEarlierTwin reports whether a job of the same name and user was accepted earlier and has not ended.
func (t *term) hasEarlierTwin(j *ares.Job) (found bool) {
	t.view.Search(func(o *ares.Job) bool {
		return o.Name == j.Name && o.Owner == j.Owner && o.Tenant == j.Tenant && o.Revision < j.Revision && o.ArrayOf == ""
	}, func(e *entry) bool {
		found = !e.Run.Phase.Final()
		return !found
	})
	return found
}
