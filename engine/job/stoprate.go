package job

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// StopRateWindow is a period of time. In each such period, a tenant may preempt only a limited number of jobs
// because of a higher priority class.
const StopRateWindow = time.Hour

// eachClassStop calls the function `visit` once for each time that the job was preempted because of a
// higher class. The function `visit` receives the preempting job's tenant and the time of the
// preemption.
func eachClassStop(e *Entry, visit func(tenant string, at time.Time)) {
	if e.Run == nil {
		return
	}
	for i := range e.Run.Attempts {
		if a := &e.Run.Attempts[i]; a.Preemption != nil && a.Preemption.Why == ares.PreemptByClass {
			visit(a.Preemption.Tenant, a.EndedAt)
		}
	}
	if stop := e.Run.Stop; stop != nil && stop.Preemption != nil && stop.Preemption.Why == ares.PreemptByClass {
		visit(stop.Preemption.Tenant, stop.At)
	}
}

// indexStops records all preemptions of the job that have the reason "higher class". They are recorded for the
// tenant of the preempting job. If `sign` is -1, indexStops removes these preemptions.
func (j *Table) indexStops(e *Entry, sign int) {
	eachClassStop(e, func(tenant string, at time.Time) { j.Tenant(tenant).addStop(at, sign) })
}

// addStop adds the time of a preemption because of a higher class. If `sign` is -1, addStop removes this time.
func (t *Tenant) addStop(at time.Time, sign int) {
	i, known := slices.BinarySearchFunc(t.classStops, at, time.Time.Compare)
	switch {
	case sign > 0:
		t.classStops = slices.Insert(t.classStops, i, at)
	case known:
		t.classStops = slices.Delete(t.classStops, i, i+1)
	}
}

// RecentStops considers the StopRateWindow before the time `now`. It returns how many jobs were preempted in
// this period for higher-class jobs of the tenant. RecentStops also returns the time from which the oldest
// of these preemptions no longer counts.
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

// CheckStops returns an error if the recorded preemptions of a tenant differ from a recount.
func (j *Table) CheckStops() error {
	counted := map[string][]time.Time{}
	for _, e := range j.Entries() {
		eachClassStop(e, func(tenant string, at time.Time) { counted[tenant] = append(counted[tenant], at) })
	}
	for id, t := range j.Tenants { // order-free: any violation is enough
		slices.SortFunc(counted[id], time.Time.Compare)
		if !slices.EqualFunc(t.classStops, counted[id], time.Time.Equal) {
			return fmt.Errorf("the list of preemptions for tenant %s has wrong times: computed %v, recorded %v", id, counted[id], t.classStops)
		}
	}
	return nil
}
