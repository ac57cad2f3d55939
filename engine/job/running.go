package job

import (
	"cmp"
	"fmt"
	"slices"
)

// Classes is the number of priority classes.
const Classes = 5

// runningIndex lists the jobs that have a running attempt or are nominated. The index is updated whenever a run
// changes, so a decision finds victims and nominations without a search.
type runningIndex struct {
	Running   [Classes][]*Entry // jobs with a running attempt that is not asked to stop; by submitted class, in no order
	Stopping  []*Entry          // jobs with a running attempt that is asked to stop; in no order
	Nominated []*Entry          // jobs for which seats are held by a nomination; sorted by byNomination

	preemptible map[preemptibleKey]*preemptibleJobs // those of Running that allow preemption inside their queue and class
}

// runningPosition holds the positions of an entry in the lists of the running index.
type runningPosition struct {
	pos            int32            // its index in the list Entry.RunningList
	preemptiblePos int32            // its index in preemptible
	preemptible    *preemptibleJobs // the list of preemptible running jobs that contains the entry, or nil
}

// preemptibleKey identifies the jobs of one queue and class.
type preemptibleKey struct {
	leaf  *QueueLeaf
	class uint8
}

// preemptibleJobs lists the preemptible running jobs of one queue and class, in no order.
type preemptibleJobs struct{ entries []*Entry }

// PreemptibleRunning returns the running jobs of the same queue and class that allow preemption, in no order.
func (j *Table) PreemptibleRunning(e *Entry) []*Entry {
	if list := j.Running.preemptible[preemptibleKey{e.Shape.Leaf, e.class}]; list != nil {
		return list.entries
	}
	return nil
}

// addPreemptible adds a running job to the list of its queue and class, if it allows preemption.
func (r *runningIndex) addPreemptible(e *Entry) {
	if e.Shape == nil || !e.MayBePreempted() {
		return
	}
	key := preemptibleKey{e.Shape.Leaf, e.class}
	list := r.preemptible[key]
	if list == nil {
		if r.preemptible == nil {
			r.preemptible = map[preemptibleKey]*preemptibleJobs{}
		}
		list = &preemptibleJobs{}
		r.preemptible[key] = list
	}
	e.runningAt.preemptible, e.runningAt.preemptiblePos = list, int32(len(list.entries))
	list.entries = append(list.entries, e)
}

// removePreemptible removes a job from the list that addPreemptible added it to.
func (r *runningIndex) removePreemptible(e *Entry) {
	list := e.runningAt.preemptible
	if list == nil {
		return
	}
	last := len(list.entries) - 1
	list.entries[e.runningAt.preemptiblePos] = list.entries[last]
	list.entries[e.runningAt.preemptiblePos].runningAt.preemptiblePos = e.runningAt.preemptiblePos
	list.entries[last] = nil
	list.entries = list.entries[:last]
	e.runningAt.preemptible, e.runningAt.preemptiblePos = nil, 0
}

// These constants number the lists of the running index. The list of class c has the number
// InRunning+c.
const (
	inNoList = iota
	InStopping
	InRunning
)

// ClassRank returns the class with which the job was submitted. The lowest class is 0.
func (e *Entry) ClassRank() int { return int(e.class) }

// indexRunning adds an entry to the running index. If `sign` is -1, it removes the entry instead.
func (j *Table) indexRunning(e *Entry, sign int) {
	if sign < 0 {
		j.unindexRunning(e)
		return
	}
	if e.Job == nil || e.Run == nil {
		return
	}
	switch {
	case e.Run.Current() == nil:
	case e.Run.Stop != nil:
		e.RunningList = InStopping
	default:
		e.RunningList = uint8(InRunning + e.ClassRank())
		j.Running.addPreemptible(e)
	}
	if e.RunningList != inNoList {
		list := j.Running.list(e.RunningList)
		e.runningAt.pos = int32(len(*list))
		*list = append(*list, e)
	}
	if e.Run.Nominated != nil {
		at, _ := slices.BinarySearchFunc(j.Running.Nominated, e, byNomination)
		j.Running.Nominated = slices.Insert(j.Running.Nominated, at, e)
	}
}

// unindexRunning removes an entry from the running index.
func (j *Table) unindexRunning(e *Entry) {
	j.Running.removePreemptible(e)
	if e.RunningList != inNoList {
		list := j.Running.list(e.RunningList)
		last := len(*list) - 1
		(*list)[e.runningAt.pos] = (*list)[last]
		(*list)[e.runningAt.pos].runningAt.pos = e.runningAt.pos
		(*list)[last] = nil
		*list = (*list)[:last]
		e.RunningList, e.runningAt.pos = inNoList, 0
	}
	if e.Run != nil && e.Run.Nominated != nil {
		j.Running.Nominated = slices.DeleteFunc(j.Running.Nominated, func(o *Entry) bool { return o == e })
	}
}

// The method `list` returns the list with the given number.
func (r *runningIndex) list(of uint8) *[]*Entry {
	if of == InStopping {
		return &r.Stopping
	}
	return &r.Running[of-InRunning]
}

// byNomination orders nominated jobs by the time of the nomination, then by ID.
func byNomination(a, b *Entry) int {
	return cmp.Or(a.Run.Nominated.At.Compare(b.Run.Nominated.At), cmp.Compare(a.ID, b.ID))
}

// Check returns an error if an entry is not in the list it belongs to, or is in a list
// twice.
func (r *runningIndex) Check(all []*Entry) error {
	count, nominated := 0, 0
	for _, e := range all {
		if e.RunningList != inNoList {
			if list := *r.list(e.RunningList); int(e.runningAt.pos) >= len(list) || list[e.runningAt.pos] != e {
				return fmt.Errorf("job %s is not at its recorded position in the index of running jobs", e.ID)
			}
			count++
		}
		underWay := e.Job != nil && e.Run != nil && e.Run.Current() != nil
		want := uint8(inNoList)
		switch {
		case underWay && e.Run.Stop != nil:
			want = InStopping
		case underWay:
			want = uint8(InRunning + e.ClassRank())
		}
		if e.RunningList != want {
			return fmt.Errorf("job %s is in list %d of the index of running jobs, but it belongs in list %d", e.ID, e.RunningList, want)
		}
		if allows := want >= InRunning && e.Shape != nil && e.MayBePreempted(); allows != (e.runningAt.preemptible != nil) {
			return fmt.Errorf("job %s allows preemption: %t, but the index of running jobs says %t", e.ID, allows, !allows)
		}
		if list := e.runningAt.preemptible; list != nil && (list != r.preemptible[preemptibleKey{e.Shape.Leaf, e.class}] || int(e.runningAt.preemptiblePos) >= len(list.entries) || list.entries[e.runningAt.preemptiblePos] != e) {
			return fmt.Errorf("job %s is not at its recorded position among the preemptible jobs of its queue and class", e.ID)
		}
		if e.Job != nil && e.Run != nil && e.Run.Nominated != nil {
			nominated++
		}
	}
	for _, list := range r.Running {
		count -= len(list)
	}
	if count != len(r.Stopping) || nominated != len(r.Nominated) || !slices.IsSortedFunc(r.Nominated, byNomination) {
		return fmt.Errorf("the index of running jobs is wrong: either it has the wrong number of jobs, or its nominations are not sorted")
	}
	return nil
}
