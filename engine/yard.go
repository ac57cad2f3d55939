package engine

import (
	"cmp"
	"fmt"
	"slices"
)

// classes is how many classes of priority there are.
const classes = 5

// runningIndex is where jobs stand that may give way, or for which others do. It is
// kept up to date with the runs, so that a decision need not look for them.
type runningIndex struct {
	running   [classes][]*entry // an attempt is under way and nobody stops it; by submitted class, in no order
	stopping  []*entry          // an attempt is under way and asked to end; in no order
	nominated []*entry          // seats are kept for it; by when, then ID
}

// The lists of the yard that an entry can be in; from inRunning on one for each
// class.
const (
	inNoList = iota
	inStopping
	inRunning
)

// rank is the submitted class of a job, 0 for the lowest.
func (e *entry) rank() int { return int(e.class) }

// indexRunning puts an entry where it belongs in the yard, or takes it out.
func (j *jobTable) indexRunning(e *entry, sign int) {
	if sign < 0 {
		j.unindexRunning(e)
		return
	}
	if e.job == nil || e.run == nil {
		return
	}
	switch {
	case e.run.Current() == nil:
	case e.run.Stop != nil:
		e.runningList = inStopping
	default:
		e.runningList = uint8(inRunning + e.rank())
	}
	if e.runningList != inNoList {
		list := j.running.list(e.runningList)
		e.runningPos = int32(len(*list))
		*list = append(*list, e)
	}
	if e.run.Nominated != nil {
		at, _ := slices.BinarySearchFunc(j.running.nominated, e, byNomination)
		j.running.nominated = slices.Insert(j.running.nominated, at, e)
	}
}

func (j *jobTable) unindexRunning(e *entry) {
	if e.runningList != inNoList {
		list := j.running.list(e.runningList)
		last := len(*list) - 1
		(*list)[e.runningPos] = (*list)[last]
		(*list)[e.runningPos].runningPos = e.runningPos
		(*list)[last] = nil
		*list = (*list)[:last]
		e.runningList, e.runningPos = inNoList, 0
	}
	if e.run != nil && e.run.Nominated != nil {
		j.running.nominated = slices.DeleteFunc(j.running.nominated, func(o *entry) bool { return o == e })
	}
}

func (y *runningIndex) list(of uint8) *[]*entry {
	if of == inStopping {
		return &y.stopping
	}
	return &y.running[of-inRunning]
}

// byNomination is the order of the jobs that seats are kept for.
func byNomination(a, b *entry) int {
	return cmp.Or(a.run.Nominated.At.Compare(b.run.Nominated.At), cmp.Compare(a.id, b.id))
}

// check wants the yard to have everybody where he belongs, once.
func (y *runningIndex) check(all []*entry) error {
	count, nominated := 0, 0
	for _, e := range all {
		if e.runningList != inNoList {
			if list := *y.list(e.runningList); int(e.runningPos) >= len(list) || list[e.runningPos] != e {
				return fmt.Errorf("job %s is not where it stands in the yard", e.id)
			}
			count++
		}
		under := e.job != nil && e.run != nil && e.run.Current() != nil
		want := uint8(inNoList)
		switch {
		case under && e.run.Stop != nil:
			want = inStopping
		case under:
			want = uint8(inRunning + e.rank())
		}
		if e.runningList != want {
			return fmt.Errorf("job %s stands in list %d of the yard and belongs into %d", e.id, e.runningList, want)
		}
		if e.job != nil && e.run != nil && e.run.Nominated != nil {
			nominated++
		}
	}
	for _, list := range y.running {
		count -= len(list)
	}
	if count != len(y.stopping) || nominated != len(y.nominated) || !slices.IsSortedFunc(y.nominated, byNomination) {
		return fmt.Errorf("the yard has somebody twice, or not in order")
	}
	return nil
}
