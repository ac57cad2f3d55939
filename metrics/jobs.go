package metrics

import (
	"maps"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// jobCounter counts how many jobs enter each phase. It counts what this process sees, so a restart begins with 0.
type jobCounter struct {
	mu      sync.Mutex
	entered map[ares.Phase]int
	phase   map[ares.JobID]ares.Phase // of live jobs
}

func newJobCounter() *jobCounter {
	return &jobCounter{entered: map[ares.Phase]int{}, phase: map[ares.JobID]ares.Phase{}}
}

// The method `follow` reads one batch of changes.
func (c *jobCounter) follow(b *ares.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.Reset {
		c.forgetOthers(b)
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Job != nil:
			if _, known := c.phase[e.Job.ID]; !known { // a snapshot repeats known jobs, in whatever phase they are
				c.enter(e.Job.ID, ares.Pending)
			}
		case e.Run != nil:
			c.enter(e.Run.Job, e.Run.Run.Phase)
		case e.Gone.Kind == ares.KindJob:
			delete(c.phase, ares.JobID(e.Gone.ID))
		}
	}
}

// forgetOthers drops the jobs that a snapshot does not have. They ended while this process did not watch.
func (c *jobCounter) forgetOthers(b *ares.Batch) {
	live := make(map[ares.JobID]bool, len(c.phase))
	for i := range b.Events {
		if j := b.Events[i].Job; j != nil {
			live[j.ID] = true
		}
	}
	maps.DeleteFunc(c.phase, func(id ares.JobID, _ ares.Phase) bool { return !live[id] })
}

// The method `enter` counts a job that changes its phase. A final phase is never left, so a record that says otherwise is an
// old one.
func (c *jobCounter) enter(id ares.JobID, p ares.Phase) {
	if was, known := c.phase[id]; known && (was == p || was.Final()) {
		return
	}
	c.phase[id] = p
	c.entered[p]++
}

// The method `counts` returns the number of jobs that entered each phase.
func (c *jobCounter) counts() map[ares.Phase]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.entered)
}
