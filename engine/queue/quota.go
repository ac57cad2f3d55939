package queue

import (
	"slices"
	"strings"

	"github.com/ares-scheduler/ares"
)

// quotaAccount is the quota of a tenant or queue for one model pattern. It can also be the pool for one model
// pattern. All amounts are in thousandths of a device.
//
// Invariant: 0 <= guaranteed <= nominal <= max. In a pool, only the fields `nominal` and `used` are set.
type quotaAccount struct {
	isSet      bool  // the node has a quota for the pattern
	nominal    int64 // the amount that it may use without borrowing
	max        int64 // nominal plus the borrowing limit
	guaranteed int64 // nominal minus the lending limit: never lent, so others count it as used
	used       int64 // used at and below the node, or guaranteed below it
}

// The constant `unbounded` is larger than the capacity of any cluster. It is small enough that the sum of a
// few such values does not overflow.
const unbounded = int64(1) << 55

// usedAtParent returns the amount that this account adds to the usage of the next quota above it.
func (a *quotaAccount) usedAtParent() int64 { return max(a.used, a.guaranteed) }

// ModelIndex returns the index of a device model, and adds the model if it is new.
func (t *Tree[J]) ModelIndex(name string) int {
	if i := slices.Index(t.models, name); i >= 0 {
		return i
	}
	t.models = append(t.models, name)
	t.modelPatterns = append(t.modelPatterns, t.matchPatterns(name))
	return len(t.models) - 1
}

// Models returns the names of the device models, ordered by index.
func (t *Tree[J]) Models() []string { return t.models }

// matchPatterns returns the indexes of the patterns that match a model.
func (t *Tree[J]) matchPatterns(model string) []int {
	var out []int
	for p, pattern := range t.patterns {
		if strings.Contains(strings.ToLower(model), pattern) {
			out = append(out, p)
		}
	}
	return out
}

// HasQuotas reports whether any tenant or queue has a quota.
func (t *Tree[J]) HasQuotas() bool {
	t.rebuild()
	return len(t.patterns) > 0
}

// Headroom returns how many more GPUs of a model the quotas allow in the leaf queue, in thousandths. Headroom also
// returns the quota that limits this number.
func (l *LeafQueue[J]) Headroom(model int) (int64, Bound) {
	t := l.tree
	t.rebuild()
	headroom, by := unbounded, Bound{}
	for _, p := range t.modelPatterns[model] {
		if r, b := l.patternHeadroom(p); r < headroom {
			headroom, by = r, b
		}
	}
	return max(headroom, 0), by
}

// IsBounded reports whether a quota limits the given headroom.
func IsBounded(headroom int64) bool { return headroom < unbounded }

// patternHeadroom returns the headroom that the quotas for one model pattern leave.
func (l *LeafQueue[J]) patternHeadroom(pattern int) (int64, Bound) {
	headroom, by := unbounded, Bound{}
	slack := int64(0) // unused guarantees below, which can be used without a charge above
	seen := false
	for n := l.node; n != nil; n = n.parent {
		if len(n.quotas) == 0 || !n.quotas[pattern].isSet {
			continue
		}
		seen = true
		a := &n.quotas[pattern]
		if r := slack + a.max - a.used; r < headroom {
			headroom = r
			by = Bound{Tenant: n.tenant, Queue: n.queue, Kind: QuotaBound, Resource: l.tree.patterns[pattern], Used: a.used, Limit: a.max}
		}
		slack += max(a.guaranteed-a.used, 0)
	}
	if !seen {
		return headroom, by
	}
	if pool := &l.tree.pools[pattern]; slack+pool.nominal-pool.used < headroom {
		headroom = slack + pool.nominal - pool.used
		by = Bound{Kind: PoolBound, Resource: l.tree.patterns[pattern], Used: pool.used, Limit: pool.nominal}
	}
	return headroom, by
}

// chargeModel adds an amount to the allocated GPUs of a model.
func (l *LeafQueue[J]) chargeModel(model int, milli int64) {
	for len(l.heldByModel) <= model {
		l.heldByModel = append(l.heldByModel, 0)
	}
	l.heldByModel[model] += milli
	for last := len(l.heldByModel) - 1; last >= 0 && l.heldByModel[last] == 0; last-- {
		l.heldByModel = l.heldByModel[:last]
	}
	if l.tree.stale {
		return // the rebuild will count it
	}
	for _, p := range l.tree.modelPatterns[model] {
		l.chargeQuota(p, milli)
	}
}

// chargeQuota adds an amount to the accounts for a model pattern at the leaf queue and its ancestors.
func (l *LeafQueue[J]) chargeQuota(pattern int, delta int64) {
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

// rebuildQuotas computes all quota accounts again from the records and the leaf queues.
func (t *Tree[J]) rebuildQuotas(leaves []*LeafQueue[J]) {
	t.patterns = t.patterns[:0]
	for _, entry := range t.tenants { // order-free: patterns are sorted below
		if entry.record != nil {
			t.collectPatterns(entry.record.Quotas)
		}
		for _, q := range entry.queues { // order-free: as above
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
	for _, entry := range t.tenants { // order-free: the accounts are independent
		entry.node.quotas = nil
		if entry.record != nil {
			entry.node.quotas = t.newQuotaAccounts(entry.record.Quotas)
		}
		for _, q := range entry.queues { // order-free: as above
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

// collectPatterns appends the model patterns of some quotas to the patterns of the tree.
func (t *Tree[J]) collectPatterns(quotas []ares.Quota) {
	for _, q := range quotas {
		t.patterns = append(t.patterns, strings.ToLower(q.Model))
	}
}

// newQuotaAccounts returns the accounts for a list of quotas, indexed by model pattern.
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

// chargeGuaranteed handles the quotas below a node. It adds their guaranteed amounts to the next account above
// them. For the topmost quotas, the next account is the pool. Their nominal amounts are added to the pool too.
func (t *Tree[J]) chargeGuaranteed(n *node[J], pattern int, above *quotaAccount, top bool) {
	for _, child := range n.children {
		if len(child.quotas) == 0 || !child.quotas[pattern].isSet {
			t.chargeGuaranteed(child, pattern, above, top)
			continue
		}
		a := &child.quotas[pattern]
		t.chargeGuaranteed(child, pattern, a, false)
		above.used += a.usedAtParent()
		if top {
			above.nominal += a.nominal
		}
	}
}
