package ares

import (
	"fmt"
	"time"
)

// Queue is a place to wait in. The queues of a tenant form a tree under it;
// shares and quotas are worked out level by level. A job names its queue; the
// one called "default" is there without being created.
type Queue struct {
	Tenant    string
	Name      string
	Parent    string  // another queue of the tenant, "" for the tenant itself
	Weight    float64 // share against its siblings; 0 means 1
	Limits    Limits  // what its jobs, and those of the queues under it, may use at once
	Quotas    []Quota
	CreatedAt time.Time
	Revision  int64 // of its record; a change compares it
}

// ID names a queue in the whole fleet.
func (q Queue) ID() string { return QueueID(q.Tenant, q.Name) }

// QueueID names a tenant's queue in the whole fleet.
func QueueID(tenant, name string) string { return tenant + "/" + name }

// NewDefaultQueue is the queue that every tenant has, as long as nobody gives it
// a weight or limits of its own.
func NewDefaultQueue(tenant string) Queue {
	return Queue{Tenant: tenant, Name: DefaultQueue, Weight: 1, Limits: NoLimits()}
}

// Quota is what a tenant or a queue is promised of the GPUs of a model, what it
// may use beyond that while others leave theirs idle, and how much of its own
// it lets others use. Without one, only Limits bound it.
type Quota struct {
	Model   string // part of the model's name in any case, "" for all GPUs
	Nominal int    // GPUs
	Borrow  int    // most GPUs beyond Nominal; Unlimited for no bound
	Lend    int    // most GPUs of Nominal that others may use; Unlimited for all
}

// MaxQuotas is how many quotas a tenant or a queue may have, and MaxQueues how
// many queues a tenant. MaxQueueDepth is how many levels they may have.
const (
	MaxQuotas     = 32
	MaxQueues     = 1000
	MaxQueueDepth = 8
)

// Check reports every mistake of a queue as received.
func (q Queue) Check() error {
	var p Problems
	if !ValidName(q.Name) {
		p.Add("name", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", clip(q.Name))
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

// Bounds of a weight. A tenth of a percent is the least step that counts.
const (
	MinWeight = 0.001
	MaxWeight = 1_000_000
)

// ValidWeight says whether w may be a weight.
func ValidWeight(w float64) bool { return w >= MinWeight && w <= MaxWeight }

// CheckQuotas reports every mistake of a list of quotas.
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
			p.Add(field+".lending_limit", "%d is more than the %d that are promised", q.Lend, q.Nominal)
		}
		if seen[q.Model] {
			p.Add(field+".gpu_model", "%q is given twice", clip(q.Model))
		}
		seen[q.Model] = true
	}
}

// Usage is what the archived jobs of a queue have used: the engine counts that
// of live jobs itself. Past use is worth half after each half-life, so only its
// value at one time needs to be kept.
type Usage struct {
	Tenant, Queue string
	At            time.Time
	GPUMilliSecs  int64 // as of At, decayed
	CPUSecs       int64
	MemoryGBSecs  int64
	Month         string // the month GPUSecs are of, as 2026-01
	GPUSecs       int64  // of archived jobs in that month, not decayed: for the budget
	Revision      int64
}
