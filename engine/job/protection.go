package job

import ares "github.com/ares-scheduler/ares"

// SetProtection protects a job from preemption, or ends its protection if p is nil. The protection of a job without
// records is dropped at the end of the batch.
func (j *Table) SetProtection(id ares.JobID, p *ares.Protection) {
	if p == nil {
		delete(j.protections, id)
		return
	}
	if j.protections == nil {
		j.protections = map[ares.JobID]*ares.Protection{}
	}
	j.protections[id] = p
	j.markChanged(j.Entry(id))
}

// Protection returns the protection of a job, or nil if it has none. Nearly all jobs have none, so protections are in a map
// and not in the entries.
func (j *Table) Protection(id ares.JobID) *ares.Protection { return j.protections[id] }
