package job

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// StopRateWindow is the period in which the number of jobs that a tenant preempts by
// class is limited.
const StopRateWindow = time.Hour

// eachClassStop calls visit with the time of every preemption of an entry by class, and
// the tenant of the preempting job.
func eachClassStop(e *Entry, visit func(tenant string, at time.Time)) {
	if e.Run == nil {
		return
	}
	for i := range e.Run.Attempts {
		if a := &e.Run.Attempts[i]; a.Yield != nil && a.Yield.Why == ares.PreemptByClass {
			visit(a.Yield.Tenant, a.EndedAt)
		}
	}
	if stop := e.Run.Stop; stop != nil && stop.Yield != nil && stop.Yield.Why == ares.PreemptByClass {
		visit(stop.Yield.Tenant, stop.At)
	}
}

// indexStops adds the preemptions of an entry by class to the tenants that caused them;
// with sign -1 it removes them.
func (j *Table) indexStops(e *Entry, sign int) {
	eachClassStop(e, func(tenant string, at time.Time) { j.Tenant(tenant).addStop(at, sign) })
}

// addStop adds the time of a preemption by class; with sign -1 it removes it.
func (t *Tenant) addStop(at time.Time, sign int) {
	i, known := slices.BinarySearchFunc(t.classStops, at, time.Time.Compare)
	switch {
	case sign > 0:
		t.classStops = slices.Insert(t.classStops, i, at)
	case known:
		t.classStops = slices.Delete(t.classStops, i, i+1)
	}
}

// RecentStops returns how many jobs were preempted by class for jobs of the tenant
// within StopRateWindow before now, and when the first of them leaves it.
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

// CheckStops returns an error when the preemptions of a tenant differ from counting
// anew.
func (j *Table) CheckStops() error {
	counted := map[string][]time.Time{}
	for _, e := range j.Entries() {
		eachClassStop(e, func(tenant string, at time.Time) { counted[tenant] = append(counted[tenant], at) })
	}
	for id, t := range j.Tenants { // order-free: any broken law will do
		slices.SortFunc(counted[id], time.Time.Compare)
		if !slices.EqualFunc(t.classStops, counted[id], time.Time.Equal) {
			return fmt.Errorf("jobs were preempted for tenant %s at %v, its account says %v", id, counted[id], t.classStops)
		}
	}
	return nil
}
