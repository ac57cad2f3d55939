package queue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares"
)

// Block is a limit or a quota that bounds a leaf queue, with its figures.
type Block struct {
	Tenant, Queue string // whose it is: Queue is "" for a tenant's, and both are "" for the pool of all quotas
	Kind          Kind
	What          string // the resource of a limit, or the model of a quota ("" for all GPUs)
	Used, Limit   int64  // of a quota in thousandths of a GPU
	Asked         int64
}

// Kind says which rule bounds.
type Kind string

// The kinds.
const (
	Limit Kind = "limit" // a hard limit
	Quota Kind = "quota" // nominal quota plus borrowing limit
	Pool  Kind = "pool"  // other quotas lend nothing more
)

// Whose names the scope of the rule for users.
func (b Block) Whose() string {
	switch {
	case b.Queue != "":
		return "queue " + ares.QueueID(b.Tenant, b.Queue)
	case b.Tenant != "":
		return "tenant"
	}
	return "fleet"
}

// String describes the rule and its figures for users.
func (b Block) String() string {
	if b.Kind == Limit {
		return fmt.Sprintf("%s limit: %s %d of %d used, %d asked", b.Whose(), b.What, b.Used, b.Limit, b.Asked)
	}
	of := "GPUs"
	if b.What != "" {
		of = b.What + " GPUs"
	}
	if b.Kind == Pool {
		return fmt.Sprintf("all quotas together: %s of %s %s used or kept, %s asked", formatGPUs(b.Used), formatGPUs(b.Limit), of, formatGPUs(b.Asked))
	}
	return fmt.Sprintf("%s quota: %s of %s %s used, %s asked", b.Whose(), formatGPUs(b.Used), formatGPUs(b.Limit), of, formatGPUs(b.Asked))
}

// formatGPUs formats thousandths of a device as a number of devices.
func formatGPUs(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0")
}

// Free reports whether no limit and no quota bounds the leaf queue.
func (l *Leaf[J]) Free() bool {
	l.tree.rebuild()
	for n := l.node; n != nil; n = n.parent {
		if n.hasLimits {
			return false
		}
	}
	return len(l.tree.patterns) == 0
}

// Admit returns every limit and quota that forbids an allocation in addition to
// what the leaf queue has, nearest first. The result is empty when it is allowed.
func (l *Leaf[J]) Admit(g Grant) []Block {
	l.tree.rebuild()
	var out []Block
	for n := l.node; n != nil; n = n.parent {
		if !n.hasLimits {
			continue
		}
		for i, r := range n.limits.Respects(n.limitUse.Add(g.Held)) {
			if r.Used > r.Limit {
				before := n.limits.Respects(n.limitUse)[i].Used
				out = append(out, Block{
					Tenant: n.tenant, Queue: n.queue, Kind: Limit, What: r.What,
					Used: int64(before), Limit: int64(r.Limit), Asked: int64(r.Used - before),
				})
			}
		}
	}
	for p := range l.tree.patterns {
		asked := int64(0)
		for _, part := range g.GPUs {
			if slices.Contains(l.tree.modelPatterns[part.Model], p) {
				asked += part.Milli
			}
		}
		if asked == 0 {
			continue
		}
		if r, b := l.patternHeadroom(p); asked > r {
			b.Asked = asked
			out = append(out, b)
		}
	}
	return out
}
