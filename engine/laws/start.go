package laws

import (
	"fmt"

	ares "github.com/ares-scheduler/ares"
)

// startConditions returns an error if a start condition of a job is not met. The argument `element` is the index of the
// placed element of an array. The conditions are read from the records alone, without the index that the engine keeps.
func (t *checker) startConditions(job *ares.Job, run *ares.Run, element int) error {
	if run.IsHeld(job) {
		return fmt.Errorf("the job is held")
	}
	c := job.Start
	if c == nil {
		return nil
	}
	first := run.Placed == 0 && run.Next == 0
	if first && c.Begin.After(t.plan.Now) {
		return fmt.Errorf("the job begins at %s", c.Begin)
	}
	for _, d := range c.Dependencies {
		id := d.Job
		switch {
		case d.Type == ares.AfterCorr:
			id = ares.ElementID(d.Job, element)
		case !first:
			continue
		case d.Type == ares.Singleton:
			if other := t.earlierOfName(job); other != "" {
				return fmt.Errorf("the job is a singleton, but %s has the same name and user, and has not ended", other)
			}
			continue
		}
		before, known := t.state.Run(id)
		if known && d.Type.State(before.Phase, before.HasStarted()) != ares.DependencyMet || !known && d.Type != ares.AfterAny && d.Type != ares.AfterStart {
			return fmt.Errorf("the dependency %s is not met: %s is %q", d, id, before.Phase)
		}
	}
	return nil
}

// earlierOfName returns an unfinished job that was accepted before the given one and has the same name and user, or "".
func (t *checker) earlierOfName(job *ares.Job) ares.JobID {
	for other, run := range t.state.Jobs() {
		if other.Tenant == job.Tenant && other.Owner == job.Owner && other.Name == job.Name && other.ArrayOf == "" && (run == nil || !run.Phase.Final()) && other.Revision < job.Revision {
			return other.ID
		}
	}
	return ""
}
