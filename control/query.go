package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// Filter selects jobs. Zero fields select all.
type Filter struct {
	Phases []ares.Phase
	Tenant string
	// Tenants are those whose jobs may be seen, nil for all, and Sees says which of
	// them, nil for all. History knows neither.
	Tenants []string
	Sees    func(*ares.Job) bool
	Queue   string
	User    string          // who submitted it
	Within  []history.Scope // as Tenants and Sees, for jobs of history
	Name    string          // substring
	// From and To bound when jobs were accepted; To itself is left out.
	From, To time.Time
	// ArrayOf selects the elements of an array, by index. Without it, elements
	// are left out unless Elements asks for them too.
	ArrayOf  ares.JobID
	Elements bool
	// Before and After are the revision and ID of the last job of the page
	// before: this one begins behind it. Zero begins with the newest.
	Before int64
	After  ares.JobID
	Limit  int
}

// Page is a part of a list, newest first; among jobs accepted in one revision
// by ID.
type Page struct {
	Entries  []*Entry
	Total    int // that match, on all pages
	More     bool
	Revision int64
}

// Jobs lists live jobs, newest first. How many match is known from the counts
// unless single jobs are looked at, so most lists end with their page: a list must
// not cost more the more jobs wait.
func (v *View) Jobs(f Filter) Page {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if f.ArrayOf != "" {
		return v.elementsPage(f)
	}
	p := Page{Revision: v.revision}
	order := v.order
	if f.Before > 0 {
		i, _ := slices.BinarySearchFunc(order, &ares.Job{ID: f.After, Revision: f.Before}, inOrder)
		order = order[:i] // what the pages before had, and newer ones, lies behind
	}
	for _, j := range slices.Backward(order) {
		e := v.jobs[j.ID]
		if !f.matches(e) {
			continue
		}
		if f.Limit > 0 && len(p.Entries) == f.Limit {
			p.More = true
			break
		}
		p.Entries = append(p.Entries, e)
	}
	p.Total = v.total(f)
	return p
}

// total counts the jobs a filter selects, on all pages.
func (v *View) total(f Filter) int {
	n := 0
	if f.Name != "" || f.Queue != "" || f.User != "" || !f.From.IsZero() || !f.To.IsZero() || f.Sees != nil {
		for _, e := range v.jobs { // order-free: a count
			if f.matches(e) {
				n++
			}
		}
		return n
	}
	for k, count := range v.counts { // order-free: a sum
		if k.element && !f.Elements {
			continue
		}
		if (f.Tenant == "" || f.Tenant == k.tenant) && (f.Tenants == nil || slices.Contains(f.Tenants, k.tenant)) && (len(f.Phases) == 0 || slices.Contains(f.Phases, k.phase)) {
			n += count
		}
	}
	return n
}

func (f *Filter) matches(e *Entry) bool {
	return (e.Job.ArrayOf == f.ArrayOf || f.Elements && f.ArrayOf == "") &&
		(len(f.Phases) == 0 || slices.Contains(f.Phases, e.Run.Phase)) &&
		(f.Tenant == "" || f.Tenant == e.Job.Tenant) &&
		(f.Tenants == nil || slices.Contains(f.Tenants, e.Job.Tenant)) &&
		(f.Sees == nil || f.Sees(e.Job)) &&
		(f.Queue == "" || f.Queue == e.Job.Queue) &&
		(f.User == "" || f.User == e.Job.Owner) &&
		(f.From.IsZero() || !e.Job.AcceptedAt.Before(f.From)) &&
		(f.To.IsZero() || e.Job.AcceptedAt.Before(f.To)) &&
		(f.Name == "" || strings.Contains(e.Job.Name, f.Name))
}

// Job finds a live job in the view, nil when it is not there.
func (v *View) Job(id ares.JobID) *Entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.jobs[id]
}

// Nodes lists the nodes by name.
func (v *View) Nodes() ([]*NodeEntry, int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := slices.Collect(maps.Values(v.nodes))
	slices.SortFunc(out, func(a, b *NodeEntry) int { return cmp.Compare(a.Node.ID, b.Node.ID) })
	return out, v.revision
}

// NodeCount is how many nodes are known, with a session or without.
func (v *View) NodeCount() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.nodes)
}

// Node finds a node, nil when it is unknown.
func (v *View) Node(id string) *NodeEntry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.nodes[id]
}

// SeatsOn lists the jobs with a seat on the node that is not free, and a
// channel that closes when that may have changed.
func (v *View) SeatsOn(node string) (entries []*Entry, revision int64, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.seats[node] { // order-free: sorted below
		entries = append(entries, v.jobs[id])
	}
	slices.SortFunc(entries, func(a, b *Entry) int { return cmp.Compare(a.Job.ID, b.Job.ID) })
	if v.touched[node] == nil {
		v.touched[node] = make(chan struct{})
	}
	return entries, v.revision, v.touched[node]
}

// Tenant finds a tenant, nil when the view does not know it.
func (v *View) Tenant(id string) *ares.Tenant {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.tenants[id]
}

// Tenants lists the tenants by ID.
func (v *View) Tenants() []*ares.Tenant {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := slices.Collect(maps.Values(v.tenants))
	slices.SortFunc(out, func(a, b *ares.Tenant) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// TenantCount is how many tenants there are.
func (v *View) TenantCount() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.tenants)
}

// Use tells what the jobs of a tenant hold and how many of them wait; with the
// ID of a queue, of those in that queue itself.
func (v *View) Use(of string) (use ares.Use, waiting int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.use[of], v.waiting[of]
}

// Queue finds a queue that was created, nil when the view does not know it.
func (v *View) Queue(tenant, name string) *ares.Queue {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.queues[ares.QueueID(tenant, name)]
}

// Queues lists the queues of a tenant, or of all for "", by their IDs.
// The default queue of each tenant is among them, created or not.
func (v *View) Queues(tenant string) []*ares.Queue {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []*ares.Queue
	for _, q := range v.queues { // order-free: sorted below
		if (tenant == "" || tenant == q.Tenant) && v.tenants[q.Tenant] != nil {
			out = append(out, q)
		}
	}
	for id := range v.tenants { // order-free: sorted below
		if (tenant == "" || tenant == id) && v.queues[ares.QueueID(id, ares.DefaultQueue)] == nil {
			out = append(out, new(ares.NewDefaultQueue(id)))
		}
	}
	slices.SortFunc(out, func(a, b *ares.Queue) int { return cmp.Compare(a.ID(), b.ID()) })
	return out
}

// Topology is what was last said of the fleet's, empty before.
func (v *View) Topology() ares.Topology {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.topology == nil {
		return ares.Topology{}
	}
	return *v.topology
}

// Phases counts the live jobs by phase.
func (v *View) Phases() map[ares.Phase]int { return v.PhasesOf(nil) }

// PhasesOf counts the live jobs of some tenants by phase, of all for nil.
func (v *View) PhasesOf(tenants []string) map[ares.Phase]int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := map[ares.Phase]int{}
	for k, n := range v.counts { // order-free: a sum
		if tenants == nil || slices.Contains(tenants, k.tenant) {
			out[k.phase] += n
		}
	}
	return out
}

// Waiting counts the jobs that wait, over all tenants.
func (v *View) Waiting() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.queued
}

// Revision is what the view has seen.
func (v *View) Revision() int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.revision
}

// WaitFor blocks until the view has seen a revision.
func (v *View) WaitFor(ctx context.Context, revision int64) error {
	for {
		v.mu.RLock()
		seen, moved := v.revision, v.moved
		v.mu.RUnlock()
		if seen >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ares.Errorf(ares.Unavailable, "this server has seen revision %d, not %d: try again", seen, revision)
		}
	}
}

// Unknown lists nodes that have no record, but seats that are not free.
func (v *View) Unknown() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []string
	for node, jobs := range v.seats { // order-free: each node for itself
		if len(jobs) > 0 && v.nodes[node] == nil {
			out = append(out, node)
		}
	}
	return out
}
