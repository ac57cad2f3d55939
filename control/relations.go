package control

import ares "github.com/ares-scheduler/ares"

// relate counts what an entry is to other jobs: an element of its array, one
// that is to come after some, one that gives way, or is given way to.
func (v *View) relate(e *Entry, sign int) {
	if e.Run.Nominated != nil {
		v.kept += sign
	}
	if yielded(&e.Run) {
		if sign > 0 {
			v.yields[e.Job.ID] = true
		} else {
			delete(v.yields, e.Job.ID)
		}
	}
	if !e.Run.Phase.Final() {
		for _, id := range e.Job.After {
			if v.awaited[ares.JobID(id)] += sign; v.awaited[ares.JobID(id)] == 0 {
				delete(v.awaited, ares.JobID(id))
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
	els.Total = e.Job.ArrayCount
	if els.Add(e.Run.Phase, sign); els.Made == 0 {
		delete(v.arrays, e.Job.ArrayOf)
	}
}

// Elements counts the elements of an array.
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

// elementsPage lists the elements of an array by index. They are found by
// their IDs, so that the list costs what the array is long.
func (v *View) elementsPage(f Filter) Page {
	p := Page{Revision: v.revision}
	known := v.arrays[f.ArrayOf]
	if known == nil {
		return p
	}
	first := 0
	if f.After != "" {
		first = known.Total // the page before is gone, and so is the rest
		if last := v.jobs[f.After]; last != nil {
			first = last.Job.ArrayIndex + 1
		}
	}
	for i := range known.Total {
		e := v.jobs[ares.ElementID(f.ArrayOf, i)]
		if e == nil || !f.matches(e) {
			continue
		}
		p.Total++
		switch {
		case i < first:
		case f.Limit > 0 && len(p.Entries) == f.Limit:
			p.More = true
		default:
			p.Entries = append(p.Entries, e)
		}
	}
	return p
}

// Awaited says whether a job that has not ended is to come after this one, and
// the revision at which that is so.
func (v *View) Awaited(id ares.JobID) (awaited bool, revision int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.awaited[id] > 0, v.revision
}
