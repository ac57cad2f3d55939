package job

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// Tenant is the record of a tenant, with the allocations and the usage of its jobs. A Tenant exists as soon as any
// record refers to it.
type Tenant struct {
	ID     string
	Record *ares.Tenant // nil while it is not known
	Use    ares.Use     // of its jobs, as limits count it

	Active     []*Entry              // jobs with isConcurrent holdings, in no order
	monthlyUse map[string]int64      // by month: GPU-seconds in thousandths, of ended attempts of live jobs
	Archived   map[string]ares.Usage // by queue: the use of archived jobs
	classStops []time.Time           // when live jobs were preempted by class for its jobs; sorted
}

// Tenant returns a tenant, and creates it when necessary.
func (j *Table) Tenant(id string) *Tenant {
	t := j.Tenants[id]
	if t == nil {
		t = &Tenant{ID: id, monthlyUse: map[string]int64{}, Archived: map[string]ares.Usage{}}
		j.Tenants[id] = t
	}
	return t
}

// SetArchivedUsage sets the usage of a queue's archived jobs.
func (j *Table) SetArchivedUsage(u ares.Usage) {
	j.Tenant(u.Tenant).Archived[u.Queue] = u
	j.Queues.Leaf(u.Tenant, u.Queue).SetArchived(u)
}

// tenantOrEmpty returns a tenant, or an empty value if the tenant is not known. tenantOrEmpty does not add the
// tenant to the table.
func (j *Table) tenantOrEmpty(id string) *Tenant {
	if t := j.Tenants[id]; t != nil {
		return t
	}
	return &Tenant{ID: id}
}

// addActive adds an entry to the tenant's active jobs.
func (t *Tenant) addActive(e *Entry) {
	t.Active = append(t.Active, e)
	e.activeAt = int32(len(t.Active))
}

// removeActive removes an entry from the tenant's active jobs.
func (t *Tenant) removeActive(e *Entry) {
	last := len(t.Active) - 1
	t.Active[e.activeAt-1] = t.Active[last]
	t.Active[e.activeAt-1].activeAt = e.activeAt
	t.Active[last] = nil
	t.Active, e.activeAt = t.Active[:last], 0
}

// OverBudget reports whether jobs with the given Shape wait because their tenant has used up its GPU-hours for the
// current month, which contains the time `now`.
func (j *Table) OverBudget(sh *Shape, now time.Time) bool {
	return j.overOwnBudget(sh.Tenant, now) || j.OverLentBudget(sh, now)
}

// overOwnBudget reports whether the tenant has used up its budget in this cluster.
func (j *Table) overOwnBudget(t *Tenant, now time.Time) bool {
	return t.Record != nil && t.Record.GPUHours > 0 && j.BudgetUsed(t, now) >= int64(t.Record.GPUHours)*3600
}

// OverLentBudget reports whether jobs with the given Shape wait because their tenant has used the GPU-hours that the
// hub of this cluster lends. Jobs without GPUs use none and do not wait: the hub lends nothing to a cluster without
// GPUs.
func (j *Table) OverLentBudget(sh *Shape, now time.Time) bool {
	if sh.Tenant.Record == nil || !sh.Request.NeedsDevices() {
		return false
	}
	secs, limited := sh.Tenant.Record.LentSeconds(now.UTC().Format(ares.MonthForm))
	return limited && j.BudgetUsed(sh.Tenant, now) >= secs
}

// BudgetUsed returns the GPU-seconds that the tenant's running, ended and archived jobs used in the current
// month, which contains the time `now`.
func (j *Table) BudgetUsed(t *Tenant, now time.Time) int64 {
	now = now.UTC()
	month := now.Format(ares.MonthForm)
	begin := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	milliSeconds := t.monthlyUse[month]
	for _, e := range t.Active {
		for _, p := range e.Held.Past {
			if p.To.IsZero() && now.After(p.From) {
				milliSeconds += p.Milli * int64(now.Sub(LaterOf(p.From, begin))/time.Second)
			}
		}
	}
	sum := milliSeconds / cluster.WholeMilli
	for _, u := range t.Archived { // order-free: sums
		if u.Month == month {
			sum += u.GPUSecs
		}
	}
	return sum
}

// WakeAtMonthEnd makes the plan wake at the end of the month if a job with the given Shape was refused because its
// tenant is over its budget. The wake-up is necessary because no event occurs when the budget of the next month begins.
func (j *Table) WakeAtMonthEnd(plan *ares.Plan, sh *Shape) {
	if !j.OverBudget(sh, plan.Now) {
		return
	}
	now := plan.Now.UTC()
	next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if plan.Wake.IsZero() || next.Before(plan.Wake) {
		plan.Wake = next
	}
}

// addMonthlyUse adds the usage of an ended attempt to each month in which the attempt ran.
// If `sign` is -1, addMonthlyUse subtracts the usage.
func (t *Tenant) addMonthlyUse(p *usagePeriod, sign int64) {
	for from := p.From.UTC(); from.Before(p.To); {
		next := time.Date(from.Year(), from.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		upTo := p.To
		if next.Before(upTo) {
			upTo = next
		}
		month := from.Format(ares.MonthForm)
		if t.monthlyUse[month] += sign * p.Milli * int64(upTo.Sub(from)/time.Second); t.monthlyUse[month] == 0 {
			delete(t.monthlyUse, month)
		}
		from = next
	}
}
