package queue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares"
)

// Bound is a limit or a quota that bounds a leaf queue, with its figures.
type Bound struct {
	Tenant, Queue string // whose it is: Queue is "" for a tenant's, and both are "" for the pool of all quotas
	Kind          BoundKind
	Resource      string // the resource of a limit, or the model of a quota ("" for all GPUs)
	Used, Limit   int64  // of a quota in thousandths of a GPU
	Requested     int64
}

// BoundKind says which rule bounds.
type BoundKind string

// The kinds.
const (
	LimitBound BoundKind = "limit" // a hard limit
	QuotaBound BoundKind = "quota" // nominal quota plus borrowing limit
	PoolBound  BoundKind = "pool"  // other quotas lend nothing more
)

// Scope names the scope of the rule for users.
func (b Bound) Scope() string {
	switch {
	case b.Queue != "":
		return "queue " + ares.QueueID(b.Tenant, b.Queue)
	case b.Tenant != "":
		return "tenant"
	}
	return "fleet"
}

// String describes the rule and its figures for users.
func (b Bound) String() string {
	if b.Kind == LimitBound {
		return fmt.Sprintf("%s limit: %s %d of %d used, %d asked", b.Scope(), b.Resource, b.Used, b.Limit, b.Requested)
	}
	of := "GPUs"
	if b.Resource != "" {
		of = b.Resource + " GPUs"
	}
	if b.Kind == PoolBound {
		return fmt.Sprintf("all quotas together: %s of %s %s used or kept, %s asked", formatGPUs(b.Used), formatGPUs(b.Limit), of, formatGPUs(b.Requested))
	}
	return fmt.Sprintf("%s quota: %s of %s %s used, %s asked", b.Scope(), formatGPUs(b.Used), formatGPUs(b.Limit), of, formatGPUs(b.Requested))
}

// formatGPUs formats thousandths of a device as a number of devices.
func formatGPUs(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0")
}

// IsUnrestricted reports whether no limit and no quota bounds the leaf queue.
func (l *LeafQueue[J]) IsUnrestricted() bool {
	l.tree.rebuild()
	for n := l.node; n != nil; n = n.parent {
		if n.hasLimits {
			return false
		}
	}
	return len(l.tree.patterns) == 0
}

// CheckAdmission returns every limit and quota that forbids an allocation in addition to
// what the leaf queue has, nearest first. The result is empty when it is allowed.
func (l *LeafQueue[J]) CheckAdmission(g Allocation) []Bound {
	l.tree.rebuild()
	var out []Bound
	for n := l.node; n != nil; n = n.parent {
		if !n.hasLimits {
			continue
		}
		for i, r := range n.limits.Respects(n.limitUse.Add(g.ForLimits)) {
			if r.Used > r.Limit {
				before := n.limits.Respects(n.limitUse)[i].Used
				out = append(out, Bound{
					Tenant: n.tenant, Queue: n.queue, Kind: LimitBound, Resource: r.What,
					Used: int64(before), Limit: int64(r.Limit), Requested: int64(r.Used - before),
				})
			}
		}
	}
	for p := range l.tree.patterns {
		asked := int64(0)
		for _, part := range g.ForQuotas {
			if slices.Contains(l.tree.modelPatterns[part.Model], p) {
				asked += part.Milli
			}
		}
		if asked == 0 {
			continue
		}
		if r, b := l.patternHeadroom(p); asked > r {
			b.Requested = asked
			out = append(out, b)
		}
	}
	return out
}
