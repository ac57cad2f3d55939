package queue

import (
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// quotaAccount is the quota of a node for one pattern of models, in thousandths of
// a device.
type quotaAccount struct {
	isSet      bool
	nominal    int64
	max        int64 // nominal and what may be borrowed
	guaranteed int64 // not lent: counts as used by it even when idle
	used       int64 // what is used or kept under it
}

// unbounded is more than any fleet has, and small enough to add a few of.
const unbounded = int64(1) << 55

// usedAtParent is what the account counts for at the next quota above it.
func (a *quotaAccount) usedAtParent() int64 { return max(a.used, a.guaranteed) }

// Model numbers the name of a device model. A name has the same number for ever.
func (t *Tree[J]) Model(name string) int {
	if i := slices.Index(t.models, name); i >= 0 {
		return i
	}
	t.models = append(t.models, name)
	t.modelPatterns = append(t.modelPatterns, t.matchPatterns(name))
	return len(t.models) - 1
}

// matchPatterns is the patterns that cover a model.
func (t *Tree[J]) matchPatterns(model string) []int {
	var out []int
	for p, pattern := range t.patterns {
		if strings.Contains(strings.ToLower(model), pattern) {
			out = append(out, p)
		}
	}
	return out
}

// Block says what bounds a leaf: whose limit, on what, and the figures.
type Block struct {
	Tenant, Queue string // whose it is: a queue's, a tenant's, or with both empty the pool of all quotas
	Kind          Kind
	What          string // the resource of a limit, or the model of a quota ("" for all GPUs)
	Used, Limit   int64  // of a quota in thousandths of a GPU
	Asked         int64
}

// Kind says which rule blocks.
type Kind string

// The kinds.
const (
	Limit Kind = "limit" // a hard limit
	Quota Kind = "quota" // nominal and borrowed
	Pool  Kind = "pool"  // nothing is left that others lend
)

// Whose names the tenant or queue whose rule it is.
func (b Block) Whose() string {
	switch {
	case b.Queue != "":
		return "queue " + ares.QueueID(b.Tenant, b.Queue)
	case b.Tenant != "":
		return "tenant"
	}
	return "fleet"
}

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

// formatGPUs writes thousandths of a device as a number of devices.
func formatGPUs(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0")
}

// Room is how many thousandths of devices of a model the leaf may still have,
// by quotas alone, and what bounds it. Bounded says whether anything does.
func (l *Leaf[J]) Room(model int) (int64, Block) {
	t := l.tree
	t.rebuild()
	room, by := unbounded, Block{}
	for _, p := range t.modelPatterns[model] {
		if r, b := l.patternHeadroom(p); r < room {
			room, by = r, b
		}
	}
	return max(room, 0), by
}

// Bounded says whether an answer of Room is a bound.
func Bounded(room int64) bool { return room < unbounded }

func (l *Leaf[J]) patternHeadroom(pattern int) (int64, Block) {
	room, by := unbounded, Block{}
	slack := int64(0) // what may grow below without being seen above
	seen := false
	for n := l.node; n != nil; n = n.parent {
		if len(n.quotas) == 0 || !n.quotas[pattern].isSet {
			continue
		}
		seen = true
		a := &n.quotas[pattern]
		if r := slack + a.max - a.used; r < room {
			room = r
			by = Block{Tenant: n.tenant, Queue: n.queue, Kind: Quota, What: l.tree.patterns[pattern], Used: a.used, Limit: a.max}
		}
		slack += max(a.guaranteed-a.used, 0)
	}
	if !seen {
		return room, by
	}
	if pool := &l.tree.pools[pattern]; slack+pool.nominal-pool.used < room {
		room = slack + pool.nominal - pool.used
		by = Block{Kind: Pool, What: l.tree.patterns[pattern], Used: pool.used, Limit: pool.nominal}
	}
	return room, by
}

// Free says whether no limit and no quota bounds the leaf.
func (l *Leaf[J]) Free() bool {
	l.tree.rebuild()
	for n := l.node; n != nil; n = n.parent {
		if n.hasLimits {
			return false
		}
	}
	return len(l.tree.patterns) == 0
}

// Admit says whether the leaf may have a grant beside what it holds: every rule
// that forbids it, nearest first.
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

// chargeModel adds what the leaf holds of the devices of a model.
func (l *Leaf[J]) chargeModel(model int, milli int64) {
	for len(l.heldByModel) <= model {
		l.heldByModel = append(l.heldByModel, 0)
	}
	l.heldByModel[model] += milli
	for last := len(l.heldByModel) - 1; last >= 0 && l.heldByModel[last] == 0; last-- {
		l.heldByModel = l.heldByModel[:last]
	}
	if l.tree.stale {
		return // settling counts it
	}
	for _, p := range l.tree.modelPatterns[model] {
		l.chargeQuota(p, milli)
	}
}

// chargeQuota adds to the accounts above a leaf.
func (l *Leaf[J]) chargeQuota(pattern int, delta int64) {
	seen := false
	for n := l.node; n != nil && delta != 0; n = n.parent {
		if len(n.quotas) == 0 || !n.quotas[pattern].isSet {
			continue
		}
		seen = true
		a := &n.quotas[pattern]
		before := a.usedAtParent()
		a.used += delta
		delta = a.usedAtParent() - before
	}
	if seen {
		l.tree.pools[pattern].used += delta
	}
}

// rebuildQuotas puts the accounts together from the records.
func (t *Tree[J]) rebuildQuotas(leaves []*Leaf[J]) {
	t.patterns = t.patterns[:0]
	for _, of := range t.tenants { // order-free: patterns are sorted below
		if of.record != nil {
			t.collectPatterns(of.record.Quotas)
		}
		for _, q := range of.queues { // order-free: as above
			if q.record != nil {
				t.collectPatterns(q.record.Quotas)
			}
		}
	}
	slices.Sort(t.patterns)
	t.patterns = slices.Compact(t.patterns)
	for m, name := range t.models {
		t.modelPatterns[m] = t.matchPatterns(name)
	}
	for _, of := range t.tenants { // order-free: each account by itself
		of.node.quotas = nil
		if of.record != nil {
			of.node.quotas = t.newQuotaAccounts(of.record.Quotas)
		}
		for _, q := range of.queues { // order-free: as above
			q.node.quotas = nil
			if q.record != nil {
				q.node.quotas = t.newQuotaAccounts(q.record.Quotas)
			}
		}
	}
	t.pools = make([]quotaAccount, len(t.patterns))
	for p := range t.patterns {
		t.chargeGuaranteed(t.root, p, &t.pools[p], true)
	}
	for _, l := range leaves {
		for m, milli := range l.heldByModel {
			for _, p := range t.modelPatterns[m] {
				l.chargeQuota(p, milli)
			}
		}
	}
}

func (t *Tree[J]) collectPatterns(quotas []ares.Quota) {
	for _, q := range quotas {
		t.patterns = append(t.patterns, strings.ToLower(q.Model))
	}
}

// newQuotaAccounts turns the quotas of a record into accounts by pattern.
func (t *Tree[J]) newQuotaAccounts(quotas []ares.Quota) []quotaAccount {
	if len(quotas) == 0 {
		return nil
	}
	out := make([]quotaAccount, len(t.patterns))
	for _, q := range quotas {
		p, _ := slices.BinarySearch(t.patterns, strings.ToLower(q.Model))
		nominal := int64(q.Nominal) * 1000
		a := quotaAccount{isSet: true, nominal: nominal, max: unbounded, guaranteed: nominal - min(int64(q.Lend)*1000, nominal)}
		if q.Borrow < ares.Unlimited {
			a.max = nominal + int64(q.Borrow)*1000
		}
		out[p] = a
	}
	return out
}

// chargeGuaranteed counts what the quotas under a node keep for themselves at the next
// quota above them. At the top, what they are promised makes the pool.
func (t *Tree[J]) chargeGuaranteed(n *node[J], pattern int, above *quotaAccount, top bool) {
	for _, k := range n.children {
		if len(k.quotas) == 0 || !k.quotas[pattern].isSet {
			t.chargeGuaranteed(k, pattern, above, top)
			continue
		}
		a := &k.quotas[pattern]
		t.chargeGuaranteed(k, pattern, a, false)
		above.used += a.usedAtParent()
		if top {
			above.nominal += a.nominal
		}
	}
}

// HasQuotas says whether anybody has a quota.
func (t *Tree[J]) HasQuotas() bool {
	t.rebuild()
	return len(t.patterns) > 0
}

// Models are the names that were numbered, by number.
func (t *Tree[J]) Models() []string { return t.models }
