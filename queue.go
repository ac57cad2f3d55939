package ares

import (
	"fmt"
	"time"
)

// Queue is a queue of waiting jobs. The queues of a tenant form a tree of parent and child queues. Shares and quotas
// are computed level by level. Each job names its queue. Every tenant has a queue named "default", which need not be
// created.
type Queue struct {
	Tenant    string
	Name      string
	Parent    string  // another queue of the tenant, "" for the tenant itself
	Weight    float64 // weight against its siblings; 0 means 1
	Limits    Limits  // limits on the concurrent use of its jobs and of the jobs of its child queues
	Quotas    []Quota
	CreatedAt time.Time
	Revision  int64 // revision of its record; a change compares it
}

// ID returns an ID that is unique in the whole cluster.
func (q Queue) ID() string { return QueueID(q.Tenant, q.Name) }

// QueueID returns an ID for a tenant's queue that is unique in the whole cluster.
func QueueID(tenant, name string) string { return tenant + "/" + name }

// NewDefaultQueue returns the default queue of a tenant that has not configured it.
func NewDefaultQueue(tenant string) Queue {
	return Queue{Tenant: tenant, Name: DefaultQueue, Weight: 1, Limits: NoLimits()}
}

// Quota guarantees GPUs of a model to a tenant or queue. A Quota also limits how many idle GPUs the tenant or queue may
// borrow from others, and how many idle GPUs of its own it may lend. A tenant or queue without a quota is restricted only
// by Limits.
type Quota struct {
	Model   string // substring of the model's name, ignoring case; "" for all GPUs
	Nominal int    // guaranteed GPUs
	Borrow  int    // GPUs it may borrow beyond Nominal; Unlimited for no bound
	Lend    int    // GPUs of Nominal that it lends; Unlimited for all
}

// MaxQuotas limits the number of quotas of a tenant or a queue. MaxQueues limits the number of queues of a tenant. MaxQueueDepth limits the
// levels of a tenant's queue hierarchy.
const (
	MaxQuotas     = 32
	MaxQueues     = 1000
	MaxQueueDepth = 8
)

// Check reports every mistake in a submitted queue.
func (q Queue) Check() error {
	var p Problems
	if !ValidName(q.Name) {
		p.Add("name", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", Clip(q.Name))
	}
	name(&p, "tenant_id", q.Tenant)
	name(&p, "parent", q.Parent)
	if q.Parent == q.Name && q.Name != "" {
		p.Add("parent", "a queue cannot be under itself")
	}
	if q.Weight != 0 && !ValidWeight(q.Weight) {
		p.Add("weight", "must be between %v and %v, got %v", MinWeight, MaxWeight, q.Weight)
	}
	CheckQuotas(&p, q.Quotas)
	return p.Err()
}

// These are the bounds of a weight. The smallest step between two weights is a tenth of a percent.
const (
	MinWeight = 0.001
	MaxWeight = 1_000_000
)

// ValidWeight reports whether w is a valid queue or tenant weight.
func ValidWeight(w float64) bool { return w >= MinWeight && w <= MaxWeight }

// CheckQuotas reports every mistake in a list of quotas.
func CheckQuotas(p *Problems, quotas []Quota) {
	if len(quotas) > MaxQuotas {
		p.Add("quotas", "at most %d, got %d", MaxQuotas, len(quotas))
	}
	seen := map[string]bool{}
	for i, q := range quotas {
		field := fmt.Sprintf("quotas[%d]", i)
		text(p, field+".gpu_model", q.Model, MaxNameBytes)
		between(p, field+".nominal_gpus", q.Nominal, 0, Unlimited)
		between(p, field+".borrowing_limit", q.Borrow, 0, Unlimited)
		between(p, field+".lending_limit", q.Lend, 0, Unlimited)
		if q.Lend != Unlimited && q.Lend > q.Nominal {
			p.Add(field+".lending_limit", "%d is more than the nominal quota of %d", q.Lend, q.Nominal)
		}
		if seen[q.Model] {
			p.Add(field+".gpu_model", "%q is given twice", Clip(q.Model))
		}
		seen[q.Model] = true
	}
}

// Usage is the past usage of a queue's archived jobs. The engine counts the usage of live jobs itself. Past usage halves with each
// half-life, so it is enough to store one value and its time.
type Usage struct {
	Tenant, Queue string
	At            time.Time
	GPUMilliSecs  int64 // decayed to At
	CPUSecs       int64
	MemoryGBSecs  int64
	Month         string // the month that GPUSecs counts, as 2026-01
	GPUSecs       int64  // usage of archived jobs in that month, without decay, for the budget
	Revision      int64
}
