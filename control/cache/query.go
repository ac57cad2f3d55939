package cache

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

// Filter selects jobs. A field that has its zero value does not restrict the selection.
type Filter struct {
	Phases []ares.Phase
	Tenant string
	// Tenants are the tenants whose jobs are visible; nil means all tenants. The function Sees reports whether a job of
	// one of these tenants is visible. If Sees is nil, all jobs of these tenants are visible. History queries use the
	// field Within instead.
	Tenants []string
	Sees    func(*ares.Job) bool
	Queue   string
	User    string          // the submitter
	Within  []history.Scope // the scopes of Tenants and Sees for jobs in history
	Name    string          // substring
	// NamePattern must match the whole name: * stands for any text, ? for one character.
	NamePattern string
	Labels      []Label // the job must have all of them
	// Only jobs accepted between From (inclusive) and To (exclusive) are selected.
	From, To time.Time
	// ArrayOf selects the elements of one array, and orders them by index. If
	// ArrayOf is empty, array elements are left out unless Elements is set.
	ArrayOf  ares.JobID
	Elements bool
	// Before and After are the revision and the ID of the last job on the previous page. If both
	// Before and After are zero, the list starts at the newest job.
	Before int64
	After  ares.JobID
	Limit  int
}

// Page is one page of a list of jobs, newest first. Jobs accepted at the same revision are ordered
// by ID.
type Page struct {
	Entries  []*Entry
	Total    int // matching jobs on all pages
	More     bool
	Revision int64
}

// Jobs lists live jobs, newest first. The total comes from counters, so a page does not become
// slower when more jobs wait. Only a filter that has to look at each job needs more time.
func (v *View) Jobs(f Filter) Page {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if f.ArrayOf != "" {
		return v.elementsPage(f)
	}
	p := Page{Revision: v.revision}
	order := v.order
	if f.Before > 0 {
		i, _ := slices.BinarySearchFunc(order, &ares.Job{ID: f.After, Revision: f.Before}, ByAcceptance)
		order = order[:i] // the remaining entries were on previous pages, or are newer
	}
	for _, j := range slices.Backward(order) {
		r := v.jobs[j.ID]
		if !f.matches(r) {
			continue
		}
		if f.Limit > 0 && len(p.Entries) == f.Limit {
			p.More = true
			break
		}
		p.Entries = append(p.Entries, r.view())
	}
	p.Total = v.total(f)
	return p
}

// The method `total` counts the matching jobs on all pages.
func (v *View) total(f Filter) int {
	n := 0
	if f.Name != "" || f.NamePattern != "" || len(f.Labels) > 0 || f.Queue != "" || f.User != "" || !f.From.IsZero() || !f.To.IsZero() || f.Sees != nil {
		for _, r := range v.jobs { // order-free: a count
			if f.matches(r) {
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

func (f *Filter) matches(r jobRecord) bool {
	j := r.job
	return (j.ArrayOf == f.ArrayOf || f.Elements && f.ArrayOf == "") &&
		(len(f.Phases) == 0 || slices.Contains(f.Phases, r.phase())) &&
		(f.Tenant == "" || f.Tenant == j.Tenant) &&
		(f.Tenants == nil || slices.Contains(f.Tenants, j.Tenant)) &&
		(f.Sees == nil || f.Sees(j)) &&
		(f.Queue == "" || f.Queue == j.Queue) &&
		(f.User == "" || f.User == j.Owner) &&
		(f.From.IsZero() || !j.AcceptedAt.Before(f.From)) &&
		(f.To.IsZero() || j.AcceptedAt.Before(f.To)) &&
		(f.Name == "" || strings.Contains(j.Name, f.Name)) &&
		(f.NamePattern == "" || matchPattern(f.NamePattern, j.Name)) &&
		hasLabels(j, f.Labels)
}

// Search calls `visit` for the live jobs that `wanted` accepts, newest first, until `visit` returns false. Array elements
// are among them. Both functions are called while the view is locked. Search reads only the spec of a job that `wanted`
// does not accept, so it takes a few milliseconds for 100,000 jobs.
func (v *View) Search(wanted func(*ares.Job) bool, visit func(*Entry) bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, j := range slices.Backward(v.order) {
		if wanted(j) && !visit(v.entry(j.ID)) {
			return
		}
	}
}

// Job returns the live job with this ID, or nil if it does not exist.
func (v *View) Job(id ares.JobID) *Entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.entry(id)
}

// Nodes returns all nodes, sorted by name.
func (v *View) Nodes() ([]*NodeEntry, int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := slices.Collect(maps.Values(v.nodes))
	slices.SortFunc(out, func(a, b *NodeEntry) int { return cmp.Compare(a.Node.ID, b.Node.ID) })
	return out, v.revision
}

// NodeCount returns the number of nodes, with or without a session.
func (v *View) NodeCount() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.nodes)
}

// Node returns a node, or nil if it is unknown.
func (v *View) Node(id string) *NodeEntry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.nodes[id]
}

// SeatsOn lists the jobs that hold a seat on the node. SeatsOn also returns a channel that is closed when that list may have
// changed.
func (v *View) SeatsOn(node string) (entries []*Entry, revision int64, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.seats[node] { // order-free: sorted below
		entries = append(entries, v.entry(id))
	}
	slices.SortFunc(entries, func(a, b *Entry) int { return cmp.Compare(a.Job.ID, b.Job.ID) })
	if v.touched[node] == nil {
		v.touched[node] = make(chan struct{})
	}
	return entries, v.revision, v.touched[node]
}

// Tenant returns a tenant, or nil if it is unknown.
func (v *View) Tenant(id string) *ares.Tenant {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.tenants[id]
}

// Tenants returns all tenants, sorted by ID.
func (v *View) Tenants() []*ares.Tenant {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := slices.Collect(maps.Values(v.tenants))
	slices.SortFunc(out, func(a, b *ares.Tenant) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// TenantCount is the number of tenants.
func (v *View) TenantCount() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.tenants)
}

// Use returns the resources that a tenant's jobs use and the number of its waiting jobs. If the ID
// is the ID of a queue, Use counts the jobs in that queue, but not those in its child queues.
func (v *View) Use(of string) (use ares.Use, waiting int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.use[of], v.waiting[of]
}

// Queue returns the record of a queue, or nil if the queue has none.
func (v *View) Queue(tenant, name string) *ares.Queue {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.queues[ares.QueueID(tenant, name)]
}

// Queues lists a tenant's queues, ordered by ID. If the tenant is "", Queues lists the queues of
// all tenants. The list includes the default queue of each tenant even if it has no record.
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

// Topology returns the topology of the cluster; it is empty if none was set.
func (v *View) Topology() ares.Topology {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.topology == nil {
		return ares.Topology{}
	}
	return *v.topology
}

// Phases counts the live jobs by phase.
func (v *View) Phases() map[ares.Phase]int { return v.PhasesIn(nil) }

// Waiting returns the number of waiting jobs of all tenants.
func (v *View) Waiting() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.queued
}

// Revision returns the latest revision up to which the view has seen every change.
func (v *View) Revision() int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.revision
}

// WaitFor waits until the view has reached a revision.
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
			return ares.Errorf(ares.Unavailable, "this server has read the store up to revision %d, but the request needs revision %d: try again", seen, revision)
		}
	}
}

// UnknownNodes lists the nodes that have no record, although seats on them are not free yet.
func (v *View) UnknownNodes() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []string
	for node, jobs := range v.seats { // order-free: nodes are independent
		if len(jobs) > 0 && v.nodes[node] == nil {
			out = append(out, node)
		}
	}
	return out
}

// CountActive counts the matching jobs that have not ended. The function `candidates` returns job IDs. CountActive also
// returns the jobs with these IDs that match and have ended. The function `candidates` is called while the view is
// locked, so the count and the list are from the same revision.
func (v *View) CountActive(f Filter, candidates func() []ares.JobID) (active int, ended []*Entry) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, id := range candidates() {
		if r := v.jobs[id]; r.job != nil && r.phase().Final() && f.matches(r) {
			ended = append(ended, r.view())
		}
	}
	return v.countActive(f), ended
}

// countActive counts the matching jobs that have not ended. The caller holds the lock.
func (v *View) countActive(f Filter) int {
	asked := f.Phases
	f.Phases = slices.DeleteFunc(ares.Phases(), func(p ares.Phase) bool {
		return p.Final() || len(asked) > 0 && !slices.Contains(asked, p)
	})
	switch {
	case len(f.Phases) == 0:
		return 0
	case f.ArrayOf != "":
		return v.elementsPage(f).Total
	default:
		return v.total(f)
	}
}

// OfHistory returns the equivalent filter for history queries.
func (f *Filter) OfHistory() history.Filter {
	return history.Filter{
		Tenant: f.Tenant, Queue: f.Queue, User: f.User, Phases: f.Phases, Name: f.Name, From: f.From, To: f.To,
		ArrayOf: f.ArrayOf, Before: f.Before, After: f.After, Limit: f.Limit, Within: f.Within,
	}
}
