package cache

import ares "github.com/ares-scheduler/ares"

// The method `relate` updates the view's counts of an entry's relations to other jobs. A job may be
// an element of an array, a dependent of other jobs, a victim of preemption, or a job for which
// seats are reserved.
func (v *View) relate(e *Entry, sign int) {
	if e.Run.Nominated != nil {
		v.kept += sign
	}
	if wasPreempted(&e.Run) {
		if sign > 0 {
			v.preempted[e.Job.ID] = true
		} else {
			delete(v.preempted, e.Job.ID)
		}
	}
	if !e.Run.Phase.Final() {
		for _, id := range e.Job.After {
			if v.awaited[ares.JobID(id)] += sign; v.awaited[ares.JobID(id)] == 0 {
				delete(v.awaited, ares.JobID(id))
			}
		}
		if e.Job.Start != nil {
			for _, d := range e.Job.Start.Dependencies {
				if v.awaited[d.Job] += sign; v.awaited[d.Job] == 0 {
					delete(v.awaited, d.Job)
				}
			}
		}
	}
	if e.Job.ArrayOf == "" {
		return
	}
	els := v.arrays[e.Job.ArrayOf]
	if els == nil {
		els = &ares.Elements{}
		v.arrays[e.Job.ArrayOf] = els
	}
	els.Total = int(e.Job.ArrayCount)
	if els.Add(e.Run.Phase, sign); els.Made == 0 {
		delete(v.arrays, e.Job.ArrayOf)
	}
}

// Elements counts an array's elements by phase.
func (v *View) Elements(array *ares.Job) ares.Elements {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.elements(array)
}

func (v *View) elements(array *ares.Job) ares.Elements {
	els := ares.Elements{}
	if known := v.arrays[array.ID]; known != nil {
		els = *known
	}
	els.Total = array.Array.Count
	return els
}

// elementsPage lists the elements of an array in the order of their indexes. It finds elements by
// their IDs, so the cost depends only on the length of the array.
func (v *View) elementsPage(f Filter) Page {
	p := Page{Revision: v.revision}
	known := v.arrays[f.ArrayOf]
	if known == nil {
		return p
	}
	first := 0
	if f.After != "" {
		first = known.Total // the elements of the previous page were archived, so all others were archived too
		if last := v.jobs[f.After].job; last != nil {
			first = int(last.ArrayIndex) + 1
		}
	}
	for i := range known.Total {
		r := v.jobs[ares.ElementID(f.ArrayOf, i)]
		if r.job == nil || !f.matches(r) {
			continue
		}
		p.Total++
		switch {
		case i < first:
		case f.Limit > 0 && len(p.Entries) == f.Limit:
			p.More = true
		default:
			p.Entries = append(p.Entries, r.view())
		}
	}
	return p
}

// Awaited reports whether an unfinished job depends on this job, and at which revision the view was
// read.
func (v *View) Awaited(id ares.JobID) (awaited bool, revision int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.awaited[id] > 0, v.revision
}
