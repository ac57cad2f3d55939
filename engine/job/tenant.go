package job

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// addMonthlyUse adds what an ended attempt has used to each month it was in.
func (t *Tenant) addMonthlyUse(p *usagePeriod, sign int64) {
	for from := p.From.UTC(); from.Before(p.To); {
		next := time.Date(from.Year(), from.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		upTo := p.To
		if next.Before(upTo) {
			upTo = next
		}
		month := from.Format(monthForm)
		if t.monthlyUse[month] += sign * p.Milli * int64(upTo.Sub(from)/time.Second); t.monthlyUse[month] == 0 {
			delete(t.monthlyUse, month)
		}
		from = next
	}
}

// Tenant is a tenant's record and what its jobs hold. It exists as soon as
// somebody speaks of it; record is nil until the tenant itself is known.
type Tenant struct {
	ID     string
	Record *ares.Tenant
	Use    ares.Use

	Active     []*Entry              // hold something, in no order
	monthlyUse map[string]int64      // by month: thousandths of GPU-seconds of ended attempts of live jobs
	Archived   map[string]ares.Usage // by queue: of jobs that are no longer live
	classStops []time.Time           // when live jobs were stopped by class for its own, in order
}

func (j *Table) Tenant(id string) *Tenant {
	t := j.Tenants[id]
	if t == nil {
		t = &Tenant{ID: id, monthlyUse: map[string]int64{}, Archived: map[string]ares.Usage{}}
		j.Tenants[id] = t
	}
	return t
}

// SetArchivedUsage takes over what archived jobs of a queue have used.
func (j *Table) SetArchivedUsage(u ares.Usage) {
	j.Tenant(u.Tenant).Archived[u.Queue] = u
	j.Queues.Leaf(u.Tenant, u.Queue).SetArchived(u)
}

// tenantOrEmpty finds a tenant without adding one.
func (j *Table) tenantOrEmpty(id string) *Tenant {
	if t := j.Tenants[id]; t != nil {
		return t
	}
	return &Tenant{ID: id}
}

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

// addActive puts an entry among those of the tenant that hold something.
func (t *Tenant) addActive(e *Entry) {
	t.Active = append(t.Active, e)
	e.activeAt = int32(len(t.Active))
}

// removeActive takes it out.
func (t *Tenant) removeActive(e *Entry) {
	last := len(t.Active) - 1
	t.Active[e.activeAt-1] = t.Active[last]
	t.Active[e.activeAt-1].activeAt = e.activeAt
	t.Active[last] = nil
	t.Active, e.activeAt = t.Active[:last], 0
}
