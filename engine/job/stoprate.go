package job

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// An hour is what the bound on how many jobs a tenant stops is for.
const StopRateWindow = time.Hour

// eachClassStop hears of every time at which an entry was stopped by class, and for whose.
func eachClassStop(e *Entry, hear func(tenant string, at time.Time)) {
	if e.Run == nil {
		return
	}
	for i := range e.Run.Attempts {
		if a := &e.Run.Attempts[i]; a.Yield != nil && a.Yield.Why == ares.YieldClass {
			hear(a.Yield.Tenant, a.EndedAt)
		}
	}
	if stop := e.Run.Stop; stop != nil && stop.Yield != nil && stop.Yield.Why == ares.YieldClass {
		hear(stop.Yield.Tenant, stop.At)
	}
}

// indexStops adds the times at which an entry was stopped by class to those of the
// tenants for whom it was, or takes them out.
func (j *Table) indexStops(e *Entry, sign int) {
	eachClassStop(e, func(tenant string, at time.Time) { j.Tenant(tenant).addStop(at, sign) })
}

func (t *Tenant) addStop(at time.Time, sign int) {
	i, known := slices.BinarySearchFunc(t.classStops, at, time.Time.Compare)
	switch {
	case sign > 0:
		t.classStops = slices.Insert(t.classStops, i, at)
	case known:
		t.classStops = slices.Delete(t.classStops, i, i+1)
	}
}

// RecentStops is how many jobs were stopped by class for the tenant's within the
// hour before now, and when the first of them is as long ago as that.
func (t *Tenant) RecentStops(now time.Time) (stops int, until time.Time) {
	from, _ := slices.BinarySearchFunc(t.classStops, now.Add(-StopRateWindow), func(at, from time.Time) int {
		if at.After(from) {
			return 1
		}
		return -1
	})
	if from < len(t.classStops) {
		until = t.classStops[from].Add(StopRateWindow)
	}
	return len(t.classStops) - from, until
}

// CheckStops wants the times that are kept to be those that counting anew finds.
func (j *Table) CheckStops() error {
	counted := map[string][]time.Time{}
	for _, e := range j.Entries() {
		eachClassStop(e, func(tenant string, at time.Time) { counted[tenant] = append(counted[tenant], at) })
	}
	for id, t := range j.Tenants { // order-free: any that is wrong will do
		slices.SortFunc(counted[id], time.Time.Compare)
		if !slices.EqualFunc(t.classStops, counted[id], time.Time.Equal) {
			return fmt.Errorf("for tenant %s others were stopped at %v, kept is %v", id, counted[id], t.classStops)
		}
	}
	return nil
}
