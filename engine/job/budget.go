package job

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// monthForm formats the month of a budget.
const monthForm = "2006-01"

// OverBudget reports whether the tenant has used up its GPU-hours of the month of now.
func (j *Table) OverBudget(t *Tenant, now time.Time) bool {
	return t.Record != nil && t.Record.GPUHours > 0 && j.BudgetUsed(t, now) >= int64(t.Record.GPUHours)*3600
}

// BudgetUsed returns the GPU-seconds that the tenant's jobs used in the month of now:
// running, ended and archived ones.
func (j *Table) BudgetUsed(t *Tenant, now time.Time) int64 {
	now = now.UTC()
	month := now.Format(monthForm)
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

// WakeAtMonthEnd makes the plan wake at the end of the month when the tenant of a
// refused job is over its budget. No event announces the budget of the next month.
func (j *Table) WakeAtMonthEnd(plan *ares.Plan, t *Tenant) {
	if !j.OverBudget(t, plan.Now) {
		return
	}
	now := plan.Now.UTC()
	next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if plan.Wake.IsZero() || next.Before(plan.Wake) {
		plan.Wake = next
	}
}

// addMonthlyUse adds the use of an ended attempt to each month it ran in; with sign -1
// it removes it.
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
