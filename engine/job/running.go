package job

import (
	"cmp"
	"fmt"
	"slices"
)

// Classes is how many classes of priority there are.
const Classes = 5

// runningIndex is where jobs stand that may give way, or for which others do. It is
// kept up to date with the runs, so that a decision need not look for them.
type runningIndex struct {
	Running   [Classes][]*Entry // an attempt is under way and nobody stops it; by submitted class, in no order
	Stopping  []*Entry          // an attempt is under way and asked to end; in no order
	Nominated []*Entry          // seats are kept for it; by when, then ID
}

// The lists of the yard that an entry can be in; from inRunning on one for each
// class.
const (
	inNoList = iota
	InStopping
	InRunning
)

// Rank is the submitted class of a job, 0 for the lowest.
func (e *Entry) Rank() int { return int(e.class) }

// indexRunning puts an entry where it belongs in the yard, or takes it out.
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
		e.RunningList = uint8(InRunning + e.Rank())
	}
	if e.RunningList != inNoList {
		list := j.Running.list(e.RunningList)
		e.runningPos = int32(len(*list))
		*list = append(*list, e)
	}
	if e.Run.Nominated != nil {
		at, _ := slices.BinarySearchFunc(j.Running.Nominated, e, byNomination)
		j.Running.Nominated = slices.Insert(j.Running.Nominated, at, e)
	}
}

func (j *Table) unindexRunning(e *Entry) {
	if e.RunningList != inNoList {
		list := j.Running.list(e.RunningList)
		last := len(*list) - 1
		(*list)[e.runningPos] = (*list)[last]
		(*list)[e.runningPos].runningPos = e.runningPos
		(*list)[last] = nil
		*list = (*list)[:last]
		e.RunningList, e.runningPos = inNoList, 0
	}
	if e.Run != nil && e.Run.Nominated != nil {
		j.Running.Nominated = slices.DeleteFunc(j.Running.Nominated, func(o *Entry) bool { return o == e })
	}
}

func (y *runningIndex) list(of uint8) *[]*Entry {
	if of == InStopping {
		return &y.Stopping
	}
	return &y.Running[of-InRunning]
}

// byNomination is the order of the jobs that seats are kept for.
func byNomination(a, b *Entry) int {
	return cmp.Or(a.Run.Nominated.At.Compare(b.Run.Nominated.At), cmp.Compare(a.ID, b.ID))
}

// Check wants the yard to have everybody where he belongs, once.
func (y *runningIndex) Check(all []*Entry) error {
	count, nominated := 0, 0
	for _, e := range all {
		if e.RunningList != inNoList {
			if list := *y.list(e.RunningList); int(e.runningPos) >= len(list) || list[e.runningPos] != e {
				return fmt.Errorf("job %s is not where it stands in the yard", e.ID)
			}
			count++
		}
		under := e.Job != nil && e.Run != nil && e.Run.Current() != nil
		want := uint8(inNoList)
		switch {
		case under && e.Run.Stop != nil:
			want = InStopping
		case under:
			want = uint8(InRunning + e.Rank())
		}
		if e.RunningList != want {
			return fmt.Errorf("job %s stands in list %d of the yard and belongs into %d", e.ID, e.RunningList, want)
		}
		if e.Job != nil && e.Run != nil && e.Run.Nominated != nil {
			nominated++
		}
	}
	for _, list := range y.Running {
		count -= len(list)
	}
	if count != len(y.Stopping) || nominated != len(y.Nominated) || !slices.IsSortedFunc(y.Nominated, byNomination) {
		return fmt.Errorf("the yard has somebody twice, or not in order")
	}
	return nil
}
