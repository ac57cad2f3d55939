package job

import (
	"time"

	ares "github.com/ares-scheduler/ares"
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
