package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// A job with start conditions (a hold, a begin time or dependencies) that are not met is in no queue. It enters its queue
// when an event or the clock meets the last of them. The conditions other than a hold concern the first start: they do
// not apply any more once the job was placed, or once the first element of an array was. Jobs without start conditions
// have no part in the index below.

// hasStartConditions reports whether the job may have a start condition. It is false for nearly all jobs.
func (e *Entry) hasStartConditions() bool {
	return e.Job.Start != nil || e.Run != nil && (e.Run.Hold != nil || e.Run.AwaitsHub())
}

// wasPlaced reports whether the job, or an element of it, was placed before.
func wasPlaced(r *ares.Run) bool { return r != nil && (r.Placed > 0 || r.Next > 0) }

// mayStart reports whether all start conditions of the job are met.
func (j *Table) mayStart(e *Entry) bool {
	c := e.Job.Start
	if e.Run.IsHeld(e.Job) {
		return false
	}
	if c == nil {
		return true
	}
	if !wasPlaced(e.Run) && c.Begin.After(j.clock) {
		return false
	}
	for _, d := range c.Dependencies {
		if state, _ := j.dependencyState(e.Job, e.Run, d); state != ares.DependencyMet {
			return false
		}
	}
	return true
}

// dependencyState returns the state of one dependency of a job, and the job that decides it. That entry is nil if the job is
// not live. For a job that is not live nothing is known, so the dependency waits unless any end of the job meets it.
func (j *Table) dependencyState(job *ares.Job, run *ares.Run, d ares.Dependency) (ares.DependencyState, *Entry) {
	switch {
	case d.Type == ares.AfterCorr:
		return j.elementState(job, run, d.Job)
	case wasPlaced(run):
		return ares.DependencyMet, nil
	case d.Type == ares.Singleton:
		first := j.firstOfName(job)
		if first == nil || first.ID == job.ID || job.Revision > 0 && byAcceptance(first.Job, job) > 0 {
			return ares.DependencyMet, nil
		}
		return ares.DependencyWaits, first
	}
	e := j.EntryByID[d.Job]
	if e == nil || e.Job == nil {
		if d.Type == ares.AfterAny || d.Type == ares.AfterStart {
			return ares.DependencyMet, nil
		}
		return ares.DependencyWaits, nil
	}
	return d.Type.State(e.Phase(), e.Run != nil && e.Run.HasStarted()), e
}

// elementState returns the state of the dependency aftercorr on an array, for the next element of the job. The elements of
// an array are made in the order of their index, so the next element is the only one that matters.
func (j *Table) elementState(job *ares.Job, run *ares.Run, array ares.JobID) (ares.DependencyState, *Entry) {
	if el := j.EntryByID[ares.ElementID(array, nextElement(run))]; el != nil && el.Job != nil {
		return ares.AfterCorr.State(el.Phase(), false), el
	}
	e := j.EntryByID[array]
	if e == nil || e.Job == nil {
		return ares.DependencyWaits, nil
	}
	if e.Phase().Final() { // it ended before it made the element
		return ares.DependencyNever, e
	}
	return ares.DependencyWaits, e
}

// CorrespondingElements returns how many of the next elements of an array may be made, up to `most`. With the dependency
// aftercorr, these are the elements whose counterparts have succeeded.
func (j *Table) CorrespondingElements(e *Entry, most int) int {
	if e.Job.Start == nil {
		return most
	}
	next := e.NextElement()
	for _, d := range e.Job.Start.Dependencies {
		if d.Type != ares.AfterCorr {
			continue
		}
		for i := range most {
			if el := j.EntryByID[ares.ElementID(d.Job, next+i)]; el == nil || el.Job == nil || el.Phase() != ares.Succeeded {
				most = i
				break
			}
		}
	}
	return most
}

// mayStartSince returns the time from which the start conditions of the job are met, apart from dependencies in
// Spec.After. It is the time of acceptance for a job without conditions.
func (j *Table) mayStartSince(e *Entry) time.Time {
	since := e.Job.AcceptedAt
	if e.Run != nil && e.Run.Hold != nil && e.Run.Hold.Released {
		since = LaterOf(since, e.Run.Hold.At)
	}
	if c := e.Job.Start; c != nil {
		since = LaterOf(since, c.Begin)
		for _, d := range c.Dependencies {
			if other := j.EntryByID[d.Job]; other != nil && other.Run != nil {
				since = LaterOf(since, other.Run.FinishedAt)
			}
		}
	}
	return since
}

// StartBlockers returns the start conditions that keep a job waiting. The job need not be in the table.
func (j *Table) StartBlockers(job *ares.Job, run *ares.Run, now time.Time) []ares.Blocker {
	var out []ares.Blocker
	switch {
	case run != nil && run.Unconfirmed:
		out = append(out, ares.Blocker{Kind: ares.BlockerHold, Detail: ares.Textf("this cluster was restored, and the hub has not confirmed the job yet")})
	case run != nil && run.Returning != "":
		out = append(out, ares.Blocker{Kind: ares.BlockerHold, Detail: ares.Textf("it is being returned to the hub: %s", run.Returning)})
	case run.IsHeld(job):
		by := "it was submitted held"
		if run != nil && run.Hold != nil {
			by = "it is held by " + run.Hold.By
		}
		out = append(out, ares.Blocker{Kind: ares.BlockerHold, Detail: ares.Textf("%s: run ares release %s", by, job.ID)})
	}
	c := job.Start
	if c == nil {
		return out
	}
	if !wasPlaced(run) && c.Begin.After(now) {
		out = append(out, ares.Blocker{Kind: ares.BlockerBegin, Detail: ares.Textf("it begins at %s (in %s)",
			c.Begin.UTC().Format(time.RFC3339), c.Begin.Sub(now).Round(time.Second))})
	}
	for _, d := range c.Dependencies {
		if state, other := j.dependencyState(job, run, d); state != ares.DependencyMet {
			out = append(out, ares.Blocker{Kind: ares.BlockerDependency, Detail: dependencyDetail(job, run, d, state, other)})
		}
	}
	return out
}

// dependencyDetail describes a dependency that is not met. It names the type of the dependency.
func dependencyDetail(job *ares.Job, run *ares.Run, d ares.Dependency, state ares.DependencyState, other *Entry) ares.Text {
	ref := ares.JobRef(d.Job, job.Tenant, job.Queue) // the user wrote this ID, so the reference reveals nothing
	if other != nil && d.Type != ares.AfterCorr {
		ref = other.Job.Ref()
	}
	waits := ares.Textf("waits for %s %s (%s)", ref, d.Type.Awaits(), d.Type)
	if d.Type == ares.AfterCorr {
		next := nextElement(run)
		waits = ares.Textf("element %d waits for element %d of %s %s (%s)", next, next, ref, d.Type.Awaits(), d.Type)
	}
	switch {
	case other == nil:
		return ares.Textf("%s: there is no such live job, so it is not known", waits)
	case state == ares.DependencyNever:
		return ares.Textf("%s: it is %s, so that can never happen", waits, other.Phase())
	case d.Type == ares.Singleton:
		return ares.Textf("waits for %s to end (singleton): it has the same name and user, and was submitted earlier", ref)
	}
	return ares.Textf("%s: it is %s", waits, other.Phase())
}

// WaitsOnlyForBegin returns the begin time of a job if that is the only start condition that is not met.
func (j *Table) WaitsOnlyForBegin(e *Entry, now time.Time) (time.Time, bool) {
	b := j.StartBlockers(e.Job, e.Run, now)
	if len(b) != 1 || b[0].Kind != ares.BlockerBegin {
		return time.Time{}, false
	}
	return e.Job.Start.Begin, true
}

// CancelUnmet stops the jobs with a dependency that can never be met, unless they ask to wait.
func (j *Table) CancelUnmet(plan *ares.Plan) {
	for _, e := range j.starts.unmet {
		if len(plan.Stop) == config.MaxPlacings {
			plan.Wake = plan.Now
			return
		}
		for _, d := range e.Job.Start.Dependencies {
			if state, other := j.dependencyState(e.Job, e.Run, d); state == ares.DependencyNever {
				plan.Stop = append(plan.Stop, ares.Stopping{Job: e.ID, Stop: ares.Stop{
					Why: ares.StopDependency, At: plan.Now,
					By: fmt.Sprintf("its dependency %s can never be met: %s is %s", d, other.ID, other.Phase()),
				}})
				break
			}
		}
	}
}

// WakeAtBegin sets the plan's wake-up time to the next begin time of a job.
func (j *Table) WakeAtBegin(plan *ares.Plan) {
	for _, e := range j.starts.begins[j.starts.begun:] {
		if at := e.Job.Start.Begin; at.After(plan.Now) {
			plan.Wake = EarlierOf(plan.Wake, at)
			return
		}
	}
}

// byAcceptance orders jobs by their acceptance.
func byAcceptance(a, b *ares.Job) int {
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID))
}

// byBegin orders entries by their begin time, then by ID.
func byBegin(a, b *Entry) int {
	return cmp.Or(a.Job.Start.Begin.Compare(b.Job.Start.Begin), cmp.Compare(a.ID, b.ID))
}

func byEntryID(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) }

func byEntryAcceptance(a, b *Entry) int { return byAcceptance(a.Job, b.Job) }

// indexStart removes the conditions of an entry's previous job from the index, and adds those of its new job.
func (j *Table) indexStart(e *Entry, before *ares.Job) {
	x := &j.starts
	if before != nil && x.byName != nil {
		j.removeName(e, before)
	}
	if before != nil && before.Start != nil {
		now := e.Job
		e.Job = before // the lists are ordered by the previous job
		x.begins = removeSorted(x.begins, e, byBegin)
		x.unmet = removeSorted(x.unmet, e, byEntryID)
		e.Job = now
		x.countBegun(j.clock)
		for _, d := range before.Start.Dependencies {
			if d.Type == ares.Singleton {
				x.singletons--
				continue
			}
			list := slices.DeleteFunc(x.dependents[d.Job], func(o *Entry) bool { return o == e })
			if x.dependents[d.Job] = list; len(list) == 0 {
				delete(x.dependents, d.Job)
			}
		}
	}
	if e.Job != nil && e.Job.Start != nil {
		for _, d := range e.Job.Start.Dependencies {
			if d.Type == ares.Singleton {
				x.singletons++
				continue
			}
			if x.dependents == nil {
				x.dependents = map[ares.JobID][]*Entry{}
			}
			if list := x.dependents[d.Job]; len(list) == 0 || list[len(list)-1] != e { // another dependency of e may name the same job
				x.dependents[d.Job] = append(list, e)
			}
		}
	}
	j.indexNames()
}

// indexNames makes the index of names when the first singleton arrives. The index is kept afterwards: a user who submits one
// singleton after another must not make each cycle index all jobs.
func (j *Table) indexNames() {
	x := &j.starts
	if x.singletons == 0 || x.byName != nil {
		return
	}
	x.byName = map[nameKey][]*Entry{}
	for _, e := range j.EntryByID { // order-free: sorted right below
		if e.isNamed() {
			x.byName[nameKeyOf(e.Job)] = append(x.byName[nameKeyOf(e.Job)], e)
		}
	}
	for _, list := range x.byName { // order-free: each list is sorted alone
		slices.SortFunc(list, byEntryAcceptance)
	}
}

// dependedState is all that jobs which depend on a job can see of it.
type dependedState struct {
	live, started bool
	phase         ares.Phase
}

// The method `dependedState` returns the state of a job for the jobs that depend on it. It is empty while no job depends on
// another.
func (j *Table) dependedState(e *Entry) dependedState {
	if len(j.starts.dependents) == 0 || e.Job == nil {
		return dependedState{}
	}
	return dependedState{true, e.Run != nil && e.Run.HasStarted(), e.Phase()}
}

// updateStart brings the index up to date with an entry. If the entry's dependedState has changed, it also marks the jobs that
// wait for it as changed. Other changes of a job, such as new labels, must cost nothing for the many jobs that may wait for it.
func (j *Table) updateStart(e *Entry) {
	x := &j.starts
	changed := e.stateChanged
	e.stateChanged = false
	if x.byName != nil {
		j.updateName(e)
	}
	if changed && len(x.dependents) > 0 {
		for _, o := range x.dependents[e.ID] {
			j.markChanged(o)
		}
		if e.Job != nil && e.Job.ArrayOf != "" {
			for _, o := range x.dependents[e.Job.ArrayOf] {
				j.markChanged(o)
			}
		}
	}
	if e.Job == nil || e.Job.Start == nil {
		return
	}
	if !e.Job.Start.Begin.IsZero() {
		x.begins = updateSorted(x.begins, e, byBegin, e.Waits() && !wasPlaced(e.Run))
		x.countBegun(j.clock)
	}
	x.unmet = updateSorted(x.unmet, e, byEntryID, j.isUnmeetable(e))
}

// isUnmeetable reports whether the job is to be cancelled because a dependency can never be met.
func (j *Table) isUnmeetable(e *Entry) bool {
	c := e.Job.Start
	if !e.Waits() || e.Run != nil && (e.Run.Placed > 0 || e.Run.Stop != nil || e.Run.Nominated != nil) || !c.CancelsUnmet() {
		return false
	}
	return slices.ContainsFunc(c.Dependencies, func(d ares.Dependency) bool {
		state, _ := j.dependencyState(e.Job, e.Run, d)
		return state == ares.DependencyNever
	})
}

// countBegun restores the invariant of `begun`.
func (x *startIndex) countBegun(clock time.Time) {
	x.begun, _ = slices.BinarySearchFunc(x.begins, clock, func(e *Entry, at time.Time) int {
		if e.Job.Start.Begin.After(at) {
			return 1
		}
		return -1
	})
}

// moveBegun moves the jobs whose begin time has come to their queue. If the clock went back, it takes others out again.
func (j *Table) moveBegun() {
	x := &j.starts
	if len(x.begins) == 0 {
		return
	}
	was := x.begun
	x.countBegun(j.clock)
	for _, e := range x.begins[min(was, x.begun):max(was, x.begun)] {
		if to := j.QueueFor(e); to != e.Queue {
			j.Dequeue(e)
			j.enqueue(e, to)
		}
	}
}

// isNamed reports whether a singleton waits for the job. The elements of an array have their own names.
func (e *Entry) isNamed() bool {
	return e.Job != nil && e.Job.Name != "" && e.Job.ArrayOf == "" && !e.Phase().Final()
}

func nameKeyOf(job *ares.Job) nameKey { return nameKey{job.Tenant, job.Owner, job.Name} }

// firstOfName returns the earliest unfinished job with the name and user of a job, or nil. For a job that is not in the
// table, while no singleton is, it searches all jobs.
func (j *Table) firstOfName(job *ares.Job) *Entry {
	if j.starts.byName != nil {
		if list := j.starts.byName[nameKeyOf(job)]; len(list) > 0 {
			return list[0]
		}
		return nil
	}
	var first *Entry
	for _, e := range j.EntryByID { // order-free: finds the earliest
		if e.isNamed() && nameKeyOf(e.Job) == nameKeyOf(job) && (first == nil || byEntryAcceptance(e, first) < 0) {
			first = e
		}
	}
	return first
}

// updateName adds an entry to the index of names, or removes it. If another job becomes the earliest of its name, that job
// is marked as changed.
func (j *Table) updateName(e *Entry) {
	if e.Job == nil || e.Job.ArrayOf != "" || e.Job.Name == "" {
		return
	}
	j.changeName(nameKeyOf(e.Job), func(list []*Entry) []*Entry {
		return updateSorted(list, e, byEntryAcceptance, e.isNamed())
	})
}

// removeName removes an entry from the index of names, under the name of its previous job.
func (j *Table) removeName(e *Entry, before *ares.Job) {
	j.changeName(nameKeyOf(before), func(list []*Entry) []*Entry {
		return slices.DeleteFunc(list, func(o *Entry) bool { return o == e })
	})
}

func (j *Table) changeName(key nameKey, change func([]*Entry) []*Entry) {
	list := j.starts.byName[key]
	var was *Entry
	if len(list) > 0 {
		was = list[0]
	}
	if list = change(list); len(list) == 0 {
		delete(j.starts.byName, key)
		return
	}
	if j.starts.byName[key] = list; list[0] != was {
		j.markChanged(list[0])
		if was != nil {
			j.markChanged(was)
		}
	}
}

// updateSorted adds an entry to a sorted list, or removes it, so that the list contains it if `belongs` is true.
func updateSorted(list []*Entry, e *Entry, order func(a, b *Entry) int, belongs bool) []*Entry {
	at, known := slices.BinarySearchFunc(list, e, order)
	switch {
	case belongs && !known:
		return slices.Insert(list, at, e)
	case belongs:
		list[at] = e
	case known:
		return slices.Delete(list, at, at+1)
	}
	return list
}

func removeSorted(list []*Entry, e *Entry, order func(a, b *Entry) int) []*Entry {
	return updateSorted(list, e, order, false)
}

// CheckStarts returns an error if the index of start conditions differs from a recount.
func (j *Table) CheckStarts() error {
	begins, unmet, singletons, edges := 0, 0, 0, map[string]bool{}
	for _, e := range j.Entries() {
		if e.Job == nil || e.Job.Start == nil {
			continue
		}
		if !e.Job.Start.Begin.IsZero() && e.Waits() && !wasPlaced(e.Run) {
			begins++
		}
		if j.isUnmeetable(e) {
			unmet++
		}
		for _, d := range e.Job.Start.Dependencies {
			if d.Type == ares.Singleton {
				singletons++
			} else {
				edges[string(d.Job)+" "+string(e.ID)] = true
			}
		}
	}
	listed := 0
	for _, list := range j.starts.dependents { // order-free: a sum
		listed += len(list)
	}
	x := &j.starts
	if begins != len(x.begins) || unmet != len(x.unmet) || singletons != x.singletons || len(edges) != listed {
		return fmt.Errorf("the index of start conditions is wrong: computed %d begin times, %d unmet, %d singletons and %d dependencies, recorded %d, %d, %d and %d",
			begins, unmet, singletons, len(edges), len(x.begins), len(x.unmet), x.singletons, listed)
	}
	if !slices.IsSortedFunc(x.begins, byBegin) || !slices.IsSortedFunc(x.unmet, byEntryID) {
		return fmt.Errorf("the lists of jobs with start conditions are not sorted")
	}
	return nil
}
