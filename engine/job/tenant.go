package job

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

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
