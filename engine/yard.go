package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
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

// An hour is what the bound on how many jobs a tenant stops is for.
const stopRateWindow = time.Hour

// eachClassStop hears of every time at which an entry was stopped by class, and for whose.
func eachClassStop(e *entry, hear func(tenant string, at time.Time)) {
	if e.run == nil {
		return
	}
	for i := range e.run.Attempts {
		if a := &e.run.Attempts[i]; a.Yield != nil && a.Yield.Why == ares.YieldClass {
			hear(a.Yield.Tenant, a.EndedAt)
		}
	}
	if stop := e.run.Stop; stop != nil && stop.Yield != nil && stop.Yield.Why == ares.YieldClass {
		hear(stop.Yield.Tenant, stop.At)
	}
}

// indexStops adds the times at which an entry was stopped by class to those of the
// tenants for whom it was, or takes them out.
func (j *jobTable) indexStops(e *entry, sign int) {
	eachClassStop(e, func(tenant string, at time.Time) { j.tenant(tenant).addStop(at, sign) })
}

func (t *tenant) addStop(at time.Time, sign int) {
	i, known := slices.BinarySearchFunc(t.classStops, at, time.Time.Compare)
	switch {
	case sign > 0:
		t.classStops = slices.Insert(t.classStops, i, at)
	case known:
		t.classStops = slices.Delete(t.classStops, i, i+1)
	}
}

// checkStops wants the times that are kept to be those that counting anew finds.
func (j *jobTable) checkStops() error {
	counted := map[string][]time.Time{}
	for _, e := range j.entries() {
		eachClassStop(e, func(tenant string, at time.Time) { counted[tenant] = append(counted[tenant], at) })
	}
	for id, t := range j.tenants { // order-free: any that is wrong will do
		slices.SortFunc(counted[id], time.Time.Compare)
		if !slices.EqualFunc(t.classStops, counted[id], time.Time.Equal) {
			return fmt.Errorf("for tenant %s others were stopped at %v, kept is %v", id, counted[id], t.classStops)
		}
	}
	return nil
}

// recentStops is how many jobs were stopped by class for the tenant's within the
// hour before now, and when the first of them is as long ago as that.
func (t *tenant) recentStops(now time.Time) (stops int, until time.Time) {
	from, _ := slices.BinarySearchFunc(t.classStops, now.Add(-stopRateWindow), func(at, from time.Time) int {
		if at.After(from) {
			return 1
		}
		return -1
	})
	if from < len(t.classStops) {
		until = t.classStops[from].Add(stopRateWindow)
	}
	return len(t.classStops) - from, until
}
